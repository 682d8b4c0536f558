//! `advisor rules`: lists and tests rules, and writes their pages and schema. `advisor rules stats` is in `rates`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use trace_advisor::RuleSet;
use trace_advisor::advisor::{Rule, rule_schema_json};
use trace_advisor::rule_pages;

use crate::args::{RulesArgs, RulesCommand};
use crate::commands::rates;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::warn;
use crate::output::require_local_path;
use crate::render::sanitize::sanitize;
use crate::rule_files;

pub(crate) fn run(args: &RulesArgs, console: &mut Console) -> anyhow::Result<Exit> {
    // `rules --schema` is `rules schema`. Without either, clap prints the help.
    match args.command.as_ref().unwrap_or(&RulesCommand::Schema) {
        RulesCommand::List(args) => {
            let rules = rule_files::load_selected(args)?;
            list(&rules, console)
        }
        RulesCommand::Test { files, no_default_rules } => test(files, *no_default_rules, console),
        RulesCommand::Stats(args) => rates::run(args, console),
        RulesCommand::Schema => {
            write!(console.out, "{}", rule_schema_json())?;
            Ok(Exit::Clean)
        }
        RulesCommand::Docs { rules, to } => {
            docs(&rule_files::load(&rules.files, rules.no_default_rules)?, to, console)
        }
    }
}

fn list(rules: &RuleSet, console: &mut Console) -> anyhow::Result<Exit> {
    let width = |f: &dyn Fn(&Rule) -> usize| rules.all().iter().map(f).max().unwrap_or(0);
    let (code, name) = (width(&|r| r.code.len()), width(&|r| r.name.len()));
    let category = width(&|r| r.category.len());
    for rule in rules.all() {
        let off =
            rules.inactive(rule).map(|off| format!(" ({})", off.as_str())).unwrap_or_default();
        writeln!(
            console.out,
            "{:code$}  {:name$}  {:category$}  {}{off}",
            sanitize(&rule.code),
            sanitize(&rule.name),
            sanitize(&rule.category),
            sanitize(&limits(rule))
        )?;
    }
    for ignore in rules.ignores() {
        let until = ignore.until.map(|d| format!(" until {d}")).unwrap_or_default();
        let what = match ignore.codes.as_slice() {
            [code] => code.clone(),
            codes => format!("{} ({})", ignore.selector, codes.join(", ")),
        };
        let text = format!("ignored: {what}{until}: {} ({})", ignore.reason, ignore.at);
        writeln!(console.out, "{}", sanitize(&text))?;
    }
    Ok(Exit::Clean)
}

/// `gpu_idle.ratio: high > 30 %, medium > 15 %`.
fn limits(rule: &Rule) -> String {
    let checks = rule.checks.iter().map(|check| {
        let limits: Vec<String> =
            check.thresholds.iter().map(|(severity, t)| format!("{severity} {}", t.text)).collect();
        format!("{}.{}: {}", rule.table(), check.column, limits.join(", "))
    });
    checks.collect::<Vec<_>>().join("; ")
}

/// Whether a file may be overwritten: it does not exist, or is a page of a rule.
fn may_overwrite(path: &Path) -> bool {
    match std::fs::read_to_string(path) {
        Ok(text) => text.contains("<!-- Made by `advisor rules docs "),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Writes the pages of rules. Pages of rules that no longer exist are reported, not removed.
fn docs(rules: &RuleSet, to: &Path, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(to)?;
    let pages = rule_pages(rules);
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for (name, text) in &pages {
        let path = to.join(name);
        if !may_overwrite(&path) {
            let help = "it is not the page of a rule: choose another directory with --to";
            return Err(with_help(format!("{} already exists", path.display()), help));
        }
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let entries = to.read_dir().with_context(|| format!("cannot read {}", to.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut stale: Vec<String> = names
        .filter(|name| Path::new(name).extension().is_some_and(|e| e == "md"))
        .filter(|name| !pages.iter().any(|(page, _)| page == name))
        .collect();
    stale.sort();
    for name in stale {
        warn(&format!("{}: there is no rule for this page", to.join(name).display()), console)?;
    }
    writeln!(console.out, "{} pages in {}", pages.len(), sanitize(&to.display().to_string()))?;
    Ok(Exit::Clean)
}

fn test(files: &[PathBuf], only_files: bool, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(files, only_files)?;
    let result = rules.test();
    for failure in &result.failures {
        writeln!(console.out, "{}", sanitize(&failure.to_string()))?;
    }
    if !result.untested.is_empty() {
        writeln!(console.out, "without tests: {}", sanitize(&result.untested.join(", ")))?;
    }
    let (run, failed) = (result.run, result.failures.len());
    writeln!(console.out, "tests: {run}, failed: {failed}, rules: {}", result.rules)?;
    Ok(if failed == 0 { Exit::Clean } else { Exit::Findings })
}
