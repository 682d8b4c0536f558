//! `docs/evidence/base-rates.md` is what the rules say today, and no rule fires on most runs that are healthy.

use std::fmt::Write as _;

use cli::rates::{COSTS, Healthy, Survey, markdown};
use trace_advisor::{Report, Run, default_rules};
use trace_demo::{Bottleneck, Options, write_run};

use super::{is_update, reports};
use crate::harness::{Case, functions};

pub(super) fn cases() -> Vec<Case> {
    functions![base_rates_are_current, healthy_runs_exist, no_rule_fires_on_most_healthy_runs]
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence/base-rates.md");
const HEALTHY: &str = include_str!("../../healthy.txt");

fn survey() -> Survey {
    let mut survey = Survey::new(&default_rules(), Healthy::parse(HEALTHY).unwrap());
    for (name, report) in &reports() {
        survey.add(name, report.as_ref().map_err(String::as_str));
    }
    survey
}

/// `UPDATE=1` rewrites the counts; times stay as measured last. `advisor rules stats` writes all of it.
fn base_rates_are_current() {
    let survey = survey();
    let committed = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
    let heading = format!("\n## {COSTS}\n");
    let (counts, costs) = match committed.split_once(&heading) {
        Some((counts, costs)) => (counts, format!("{heading}{costs}")),
        None => (&*committed, String::new()),
    };
    let fresh = markdown(&survey);
    if is_update() {
        std::fs::write(DOCUMENT, format!("{fresh}{costs}")).unwrap();
        return;
    }
    let difference = fresh.lines().zip(counts.lines()).find(|(fresh, old)| fresh != old);
    assert!(
        counts == fresh,
        "docs/evidence/base-rates.md is stale: run this test with UPDATE=1. First difference: {difference:?}"
    );
}

fn healthy_runs_exist() {
    let survey = survey();
    assert_eq!(survey.missing().collect::<Vec<_>>(), [""; 0]);
}

/// A rule that fires above info on more than half of the healthy runs that it can judge says nothing.
fn no_rule_fires_on_most_healthy_runs() {
    let reports = reports();
    let mut healthy = HEALTHY.to_owned();
    let mut demos = Vec::new();
    for (ranks, seed) in [(1, 0), (2, 0), (2, 7), (8, 3)] {
        let name = format!("demo none, {ranks} ranks, seed {seed}");
        writeln!(healthy, "{name}: simulated without a bottleneck").unwrap();
        demos.push((name, demo(ranks, seed)));
    }
    let mut survey = Survey::new(&default_rules(), Healthy::parse(&healthy).unwrap());
    for (name, report) in &reports {
        survey.add(name, report.as_ref().map_err(String::as_str));
    }
    for (name, report) in &demos {
        survey.add(name, Ok(report));
    }
    let common: Vec<String> = survey
        .rates()
        .rules
        .iter()
        .filter(|rule| !rule.code.starts_with("TQ") && 2 * rule.healthy_fired > rule.healthy)
        .map(|r| format!("{} {}: {} of {}", r.code, r.name, r.healthy_fired, r.healthy))
        .collect();
    assert_eq!(common, [""; 0], "above info on more than half of the healthy runs");
}

fn demo(ranks: u32, seed: u64) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bottleneck: Bottleneck::None, ranks, seed, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    Run::open(folder.path()).unwrap().check(&default_rules()).unwrap()
}
