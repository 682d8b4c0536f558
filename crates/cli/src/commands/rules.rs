//! `advisor rules`: lists, shows and tests rules, and writes their pages and schema. `advisor rules stats` is in `rates`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use trace_advisor::advisor::{Inactive, Rule, rule_schema_json};
use trace_advisor::ingest::TemporaryFolder;
use trace_advisor::trace_model::FailedTable;
use trace_advisor::trace_model::suggest::nearest;
use trace_advisor::{RuleSet, Run, own_rule_queries, rule_pages};

use crate::args::{RuleShowArgs, RulesArgs, RulesCommand};
use crate::commands::rates;
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::warn;
use crate::output::{require_local_path, write_own_file};
use crate::render::layout::Layout;
use crate::render::sanitize::{sanitize, sanitize_lines};
use crate::rule_files;

pub(crate) fn run(args: &RulesArgs, console: &mut Console) -> anyhow::Result<Exit> {
    // `rules --schema` is `rules schema`; clap prints the help for `rules` alone.
    match args.command.as_ref().unwrap_or(&RulesCommand::Schema) {
        RulesCommand::List(args) => {
            let rules = rule_files::load_selected(&args.rules, console)?;
            list(&rules, args.thresholds, console)
        }
        RulesCommand::Show(args) => show(args, console),
        RulesCommand::Test(args) => test(&rule_files::load(&args.rule_files(), console)?, console),
        RulesCommand::Stats(args) => rates::run(args, console),
        RulesCommand::Schema => {
            write!(console.out, "{}", rule_schema_json())?;
            Ok(Exit::Clean)
        }
        RulesCommand::Docs { rules, directory } => {
            docs(&rule_files::load(rules, console)?, directory, console)
        }
    }
}

/// Width of a terminal from which the list has thresholds.
const WIDE_COLUMNS: usize = 140;
/// Width of a terminal below which a title has lines of its own.
const NARROW_COLUMNS: usize = 80;

pub(super) fn list(
    rules: &RuleSet,
    has_thresholds: bool,
    console: &mut Console,
) -> anyhow::Result<Exit> {
    let layout = Layout::from(console.out_terminal);
    let is_wide = console.out_terminal.is_some() && layout.columns >= WIDE_COLUMNS;
    let has_thresholds = has_thresholds || is_wide;
    let width = |f: &dyn Fn(&Rule) -> usize| rules.all().iter().map(f).max().unwrap_or(0);
    let (code, name) = (width(&|r| r.code.len()), width(&|r| r.name.len()));
    let mut text = String::new();
    for rule in rules.all() {
        let off =
            rules.inactive(rule).map(|off| format!(" ({})", off.as_str())).unwrap_or_default();
        let key = format!("{:code$}  {:name$}  ", rule.code, rule.name);
        let title = format!("{}{off}", rule.general_title());
        let limits = if has_thresholds { limits(rule) } else { String::new() };
        if console.out_terminal.is_none() {
            // One line per rule.
            let line = format!("{key}{title}  {limits}");
            let _ = writeln!(text, "{}", sanitize(line.trim_end()));
            continue;
        }
        let is_narrow = layout.columns < NARROW_COLUMNS;
        let indent = if is_narrow { 4 } else { key.chars().count() };
        let lines = [title, limits].into_iter().filter(|paragraph| !paragraph.is_empty());
        let mut lines = lines.flat_map(|paragraph| layout.wrapped(&paragraph, indent));
        let key = sanitize(&key);
        let first = if is_narrow { None } else { lines.next() };
        let _ = writeln!(text, "{}", format!("{key}{}", first.unwrap_or_default()).trim_end());
        for line in lines {
            let _ = writeln!(text, "{:indent$}{line}", "");
        }
    }
    write!(console.out, "{text}")?;
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

/// The rule with this code or name.
pub(super) fn find_rule<'r>(wanted: &str, rules: &'r RuleSet) -> anyhow::Result<&'r Rule> {
    let found = rules
        .all()
        .iter()
        .find(|r| r.code.eq_ignore_ascii_case(wanted) || r.name.eq_ignore_ascii_case(wanted));
    found.ok_or_else(|| unknown_rule(wanted, rules))
}

fn unknown_rule(wanted: &str, rules: &RuleSet) -> anyhow::Error {
    let names = rules.all().iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
    let help = match nearest(wanted, names) {
        Some(near) => format!("did you mean `{near}`? `advisor rules list` lists all rules"),
        None => "`advisor rules list` lists all rules".to_owned(),
    };
    with_help(format!("unknown rule `{wanted}`"), help)
}

/// Prints each table that defines the rule: that of the built-in rules, and those of files that change it.
fn show(args: &RuleShowArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let texts = rule_files::read_texts(&args.rules, console)?;
    let rules = rule_files::parse(texts.clone())?;
    let rule = find_rule(&args.rule, &rules)?;
    let tables = texts.sources.iter().filter_map(|source| {
        let (line, table) = definition(&source.text, &rule.name)?;
        Some(format!("# {}:{line}\n{table}\n", source.name))
    });
    write!(console.out, "{}", sanitize_lines(&tables.collect::<Vec<_>>().join("\n")))?;
    Ok(Exit::Clean)
}

/// The table of a rule in a rule file, with the number of its first line.
fn definition<'t>(text: &'t str, rule: &str) -> Option<(usize, &'t str)> {
    let table = format!("[rule.{rule}");
    let belongs =
        |header: &str| header.strip_prefix(&table).is_some_and(|rest| rest.starts_with([']', '.']));
    let mut lines = text.split_inclusive('\n').scan(0, |offset, line| {
        let start = *offset;
        *offset += line.len();
        Some((start, line))
    });
    let (number, start) = lines
        .by_ref()
        .enumerate()
        .find_map(|(i, (start, line))| belongs(line.trim_end()).then_some((i + 1, start)))?;
    // Comments before the next table belong to that one.
    let mut end = start + text[start..].lines().next()?.len();
    let mut in_text = false;
    for (offset, line) in lines {
        let line = line.trim_end();
        if !in_text && line.starts_with('[') && !belongs(line) {
            break;
        }
        in_text ^= line.matches("\"\"\"").count() % 2 == 1;
        if in_text || !line.is_empty() && !line.starts_with('#') {
            end = offset + line.len();
        }
    }
    Some((number, &text[start..end]))
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

/// Text of every page of a rule.
const PAGE_MARK: &str = "<!-- Made by `advisor rules docs";

/// Writes the pages of rules. Pages of rules that no longer exist are reported, not removed.
fn docs(rules: &RuleSet, to: &Path, console: &mut Console) -> anyhow::Result<Exit> {
    require_local_path(to)?;
    let pages = rule_pages(rules);
    std::fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for (name, text) in &pages {
        write_own_file(&to.join(name), text.as_bytes(), PAGE_MARK)?;
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

fn test(rules: &RuleSet, console: &mut Console) -> anyhow::Result<Exit> {
    let result = rules.test();
    for failure in &result.failures {
        writeln!(console.out, "{}", sanitize(&failure.to_string()))?;
    }
    let queries_pass = test_queries(rules, console)?;
    if !result.untested.is_empty() {
        writeln!(console.out, "without tests: {}", sanitize(&result.untested.join(", ")))?;
    }
    let (run, failed) = (result.run, result.failures.len());
    let kinds = kinds(rules);
    writeln!(console.out, "tests: {run}, failed: {failed}, rules: {}{kinds}", result.rules)?;
    Ok(if failed == 0 && queries_pass { Exit::Clean } else { Exit::Findings })
}

/// How many rules `check` and `diff` evaluate, and how many wait in preview, unless all are of one kind:
/// ` (122 of runs, 3 of comparisons, 29 in preview)`.
fn kinds(rules: &RuleSet) -> String {
    let comparisons = rules.rules().iter().filter(|rule| rule.is_comparison()).count();
    let is_preview = |rule: &&Rule| rules.inactive(rule) == Some(Inactive::Preview);
    let counts = [
        (rules.rules().len() - comparisons, "of runs"),
        (comparisons, "of comparisons"),
        (rules.all().iter().filter(is_preview).count(), "in preview"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, kind)| format!("{count} {kind}")).collect();
    if counts.len() > 1 { format!(" ({})", counts.join(", ")) } else { String::new() }
}

/// Runs the queries of rules that are not shipped on a simulated run, within the limits of a check. Returns whether all succeed.
fn test_queries(rules: &RuleSet, console: &mut Console) -> anyhow::Result<bool> {
    let queries = own_rule_queries(rules);
    if queries.is_empty() {
        return Ok(true);
    }
    let failed = simulated_run()?.failed_rule_queries(&queries)?;
    for FailedTable { view, reason } in &failed {
        let rule = rules.all().iter().find(|rule| rule.name == *view);
        let at = rule.map_or("", |rule| &rule.at);
        let code = rule.map_or("", |rule| &rule.code);
        let text = format!("{at}: {code} {view}: {reason}, on a simulated run");
        writeln!(console.out, "{}", sanitize(&text))?;
    }
    writeln!(console.out, "queries: {}, failed: {}", queries.len(), failed.len())?;
    Ok(failed.is_empty())
}

/// A run of two ranks and some thousand events, in memory.
fn simulated_run() -> anyhow::Result<Run> {
    let folder = TemporaryFolder::create().map_err(trace_advisor::Error::from)?;
    let written = trace_demo::write_run(&trace_demo::Options::default(), folder.path());
    written.context("cannot write a simulated run")?;
    Ok(Run::open(folder.path())?)
}

#[cfg(test)]
mod tests {
    use super::definition;

    #[test]
    fn definition_is_the_table_of_the_rule() {
        let table = "[rule.a]\nlist = [\n    1,\n]\n# Inside.\nwhy = \"\"\"\n[Not a table]\n\n\"\"\"\nx = 1";
        let next = "[rule.a-b]\ncode = \"B\"";
        let text = format!("# Head.\n\n{table}\n\n# Of the next.\n{next}\n");
        let text = text.as_str();
        assert_eq!(definition(text, "a"), Some((3, table)));
        assert_eq!(definition(text, "a-b"), Some((15, next)));
        assert_eq!(definition(text, "b"), None);
    }
}
