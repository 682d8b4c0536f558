//! Pages of rules: the description of a rule, with the columns of its view.

use std::collections::BTreeSet;

use advisor::{Rule, RuleSet, ViewNotes, index, page_name};
use analyses::catalog;
use query::ViewDef;

/// The page of a rule in Markdown, as `advisor explain` prints it.
pub fn explain(rule: &Rule) -> String {
    advisor::explain(rule, &notes(rule))
}

/// File names and texts of the pages of all rules, and of their table of contents.
pub fn rule_pages(rules: &RuleSet) -> Vec<(String, String)> {
    let made = |source: &str| {
        format!("\n<!-- Made by `advisor rules docs` from {source}: edit that. -->\n")
    };
    let mut pages = vec![("README.md".to_owned(), index(rules.all()) + &made("the rules"))];
    for rule in rules.all() {
        let file = rule.at.rsplit_once(':').map_or("", |(file, _)| file);
        pages.push((page_name(rule), explain(rule) + &made(file)));
    }
    pages
}

fn notes(rule: &Rule) -> ViewNotes {
    let dependencies = Dependencies::of(rule);
    let recorded_with = dependencies.recorded_with(rule);
    let Some(module) = catalog().find(rule.table()).filter(|_| rule.sql.is_none()) else {
        return ViewNotes { recorded_with, ..ViewNotes::default() };
    };
    let columns = module.columns.iter().map(|c| (c.name.clone(), c.doc.clone()));
    let params = dependencies.modules.iter().flat_map(|m| &m.params);
    let mut params: Vec<_> =
        params.map(|p| (p.name.clone(), p.default.to_string(), p.doc.clone())).collect();
    params.sort();
    params.dedup_by(|a, b| a.0 == b.0);
    ViewNotes {
        row: module.row.clone(),
        columns: columns.collect(),
        params,
        when_empty: module.when_empty.clone(),
        recorded_with,
    }
}

/// The views, tables and columns that a rule depends on.
struct Dependencies {
    modules: Vec<&'static ViewDef>,
    /// Identifiers of all queries, among them the names of tables and columns.
    words: BTreeSet<String>,
}

impl Dependencies {
    fn of(rule: &Rule) -> Self {
        let mut dependencies = Self { modules: Vec::new(), words: BTreeSet::new() };
        match &rule.sql {
            Some(sql) => dependencies.read(sql),
            None => dependencies.add(rule.table()),
        }
        if let Some(source) = &rule.source {
            dependencies.words.insert(source.view.clone());
        }
        dependencies
    }

    fn add(&mut self, view: &str) {
        let Some(module) = catalog().find(view) else { return };
        if !self.modules.iter().any(|m| m.name == module.name) {
            self.modules.push(module);
            for query in module.queries() {
                self.read(query);
            }
        }
    }

    fn read(&mut self, query: &str) {
        let code = query.lines().map(|line| line.split("--").next().unwrap_or_default());
        for line in code {
            for word in line.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
                if self.words.insert(word.to_owned()) {
                    self.add(word);
                }
            }
        }
    }

    /// The recorded data that the rule depends on, and how to record it.
    fn recorded_with(&self, rule: &Rule) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = RECORDED
            .iter()
            .filter(|(words, _, _)| words.iter().any(|word| self.words.contains(*word)))
            .map(|(_, what, how)| ((*what).to_owned(), (*how).to_owned()))
            .collect();
        if rule.source.is_some() {
            let what = "source lines in findings";
            found.push((what.to_owned(), "`with_stack=True`".to_owned()));
        }
        found
    }
}

/// Tables and columns, their content, and how to record it.
const RECORDED: &[(&[&str], &str, &str)] = &[
    (
        &["kernels", "memcpys", "memsets", "device_syncs"],
        "kernels, copies and waits of the GPU",
        "`activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`",
    ),
    (
        &["cpu_ops", "runtime_calls", "annotations"],
        "operators, runtime calls and ranges on the host",
        "`activities=[ProfilerActivity.CPU, ...]`",
    ),
    (
        &["steps"],
        "steps",
        "`schedule=torch.profiler.schedule(wait=1, warmup=2, active=6)` and `prof.step()` once per step",
    ),
    (&["input_dims", "input_types"], "shapes and types of inputs", "`record_shapes=True`"),
    (&["memory_events"], "allocations", "`profile_memory=True`"),
    (&["python_frames", "call_stack"], "Python stacks", "`with_stack=True`"),
    (&["collectives"], "collectives", "`torch.distributed`; give the traces of all ranks"),
    (
        &["counters"],
        "system metrics, where they were sampled",
        "Composer's `SystemProfiler`, or Determined's profiling",
    ),
    (
        &["snapshots", "snapshot_devices", "snapshot_segments", "snapshot_events"],
        "memory snapshots",
        "`torch.cuda.memory._record_memory_history()` and `_dump_snapshot()`",
    ),
    (
        &["memory_timeline_sizes"],
        "memory timelines",
        "`profile_memory=True, record_shapes=True, with_stack=True` and `prof.export_memory_timeline()`",
    ),
    (
        &["profiler_ranges", "range_counters"],
        "hardware counters",
        "`experimental_config=_ExperimentalConfig(profiler_metrics=[...])`",
    ),
];

#[cfg(test)]
mod tests {
    use super::{explain, rule_pages};

    #[test]
    fn explain_lists_what_to_record() {
        let rules = crate::default_rules();
        let page = explain(rules.find("IN001").unwrap());
        assert!(page.contains("`prof.step()` once per step"), "{page}");
        assert!(page.contains("share of step time that the host spends loading"), "{page}");
        let page = explain(rules.find("MM002").unwrap());
        assert!(page.contains("`profile_memory=True`"), "{page}");
    }

    #[test]
    fn rule_pages_has_a_page_and_an_index_entry_for_each_rule() {
        let rules = crate::default_rules();
        let pages = rule_pages(&rules);
        assert_eq!(pages.len(), 1 + rules.all().len());
        for (name, _) in &pages[1..] {
            assert!(pages[0].1.contains(name.as_str()), "{name}");
        }
    }
}
