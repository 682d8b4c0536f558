//! Renders a survey as text, Markdown or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;
use trace_advisor::advisor::{RuleRate, Severity};

use super::survey::Survey;

/// Title of the section with times. Everything above it is the same for the same runs and rules.
pub const COSTS: &str = "Cost of each rule";

/// The survey as text for a terminal.
pub fn text(survey: &Survey) -> String {
    let mut text = format!("{}\n\n", counted(survey));
    padded(&rate_table(survey), &mut text);
    for (run, error) in &survey.unreadable {
        let _ = writeln!(text, "\nnot checked: {run}: {error}");
    }
    if let Some(table) = cost_table(survey) {
        let _ = writeln!(text, "\n{COSTS}\n{}\n", total_cost(survey));
        padded(&table, &mut text);
    }
    text
}

/// The survey as a Markdown document.
pub fn markdown(survey: &Survey) -> String {
    let mut text = format!(
        "# Base rates\n\n\
         How often each rule fires. {} Written by `advisor rules stats --format markdown`.\n\n\
         One column per severity counts the runs on which a rule fires with that severity; *unknown* counts the runs \
         that lack the data it needs. *Above info* is the share of the runs with a verdict on which it fires above info, \
         *healthy* is the same for the runs that count as healthy: a rule that fires on most of those is not useful.\n\n",
        counted(survey)
    );
    piped(&rate_table(survey), &mut text);
    text.push_str("\n## Healthy runs\n\n");
    if !survey.healthy.about().is_empty() {
        let _ = writeln!(text, "{}\n", survey.healthy.about());
    }
    let head = vec!["Run".to_owned(), "Reason".to_owned()];
    let reasons =
        survey.healthy.reasons().filter(|(run, _)| survey.checked_healthy.iter().any(|s| s == run));
    let rows = reasons.map(|(run, why)| vec![format!("`{run}`"), why.to_owned()]);
    piped(&std::iter::once(head).chain(rows).collect::<Vec<_>>(), &mut text);
    if !survey.unreadable.is_empty() {
        text.push_str("\n## Runs that could not be checked\n\n");
        for (run, error) in &survey.unreadable {
            let _ = writeln!(text, "* `{run}`: {error}");
        }
    }
    if let Some(table) = cost_table(survey) {
        let _ = writeln!(
            text,
            "\n## {COSTS}\n\n\
             Milliseconds per run to compute the view that a rule evaluates, alone and with everything it is built on. A \
             view that several rules share is charged to each of them. Cross-checks and source lines are computed only \
             for rules that fire, and are not included. {}\n",
            total_cost(survey)
        );
        piped(&table, &mut text);
    }
    text
}

/// The survey as JSON. Fields may be added, but none changes meaning within a schema version.
pub fn json(survey: &Survey) -> String {
    let rules: Vec<_> = survey
        .rates
        .rules
        .iter()
        .map(|rule| {
            let cost = cost(survey, &rule.code).map(|cost| {
                json!({
                    "table": cost.table,
                    "median_ms": cost.median_ms,
                    "max_ms": cost.max_ms,
                    "shared_with": cost.shared_with,
                })
            });
            json!({
                "code": rule.code,
                "name": rule.name,
                "fired": rule.fired,
                "passed": rule.passed,
                "unknown": rule.unknown,
                "ignored": rule.ignored,
                "judged": rule.evaluated(),
                "above_info": rule.above_info(),
                "above_info_ratio": rule.share(),
                "healthy_judged": rule.healthy,
                "healthy_above_info": rule.healthy_fired,
                "cost": cost,
            })
        })
        .collect();
    let unreadable: Vec<_> = survey
        .unreadable
        .iter()
        .map(|(run, error)| json!({ "run": run, "error": error }))
        .collect();
    let document = json!({
        "schema_version": 1,
        "runs": survey.rates.runs,
        "healthy_runs": survey.checked_healthy,
        "unreadable": unreadable,
        "rules": rules,
    });
    format!("{document:#}\n")
}

fn counted(survey: &Survey) -> String {
    let count = |n: usize| if n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
    let failed = match survey.unreadable.len() {
        0 => String::new(),
        n => format!(", {n} not checked"),
    };
    let rates = &survey.rates;
    format!("{} checked ({} healthy){failed}.", count(rates.runs), rates.healthy_runs)
}

fn rate_table(survey: &Survey) -> Vec<Vec<String>> {
    let severities = Severity::WORST_FIRST.map(|s| s.as_str().to_owned());
    let counts = ["passes", "unknown", "ignored", "above info", "healthy"].map(str::to_owned);
    let head: Vec<String> =
        ["Rule".to_owned()].into_iter().chain(severities).chain(counts).collect();
    let rows = survey.rates.rules.iter().map(rate_row);
    std::iter::once(head).chain(rows).collect()
}

fn rate_row(rule: &RuleRate) -> Vec<String> {
    let count = |n: usize| if n == 0 { "-".to_owned() } else { n.to_string() };
    let of = |part: usize, whole: usize| match whole {
        0 => "-".to_owned(),
        _ => format!("{part} of {whole}, {:.0} %", 100.0 * part as f64 / whole as f64),
    };
    let mut row = vec![format!("{} {}", rule.code, rule.name)];
    let fired = |severity| rule.fired.get(&severity).copied().unwrap_or_default();
    row.extend(Severity::WORST_FIRST.map(|severity| count(fired(severity))));
    row.extend([rule.passed, rule.unknown, rule.ignored].map(count));
    row.push(of(rule.above_info(), rule.evaluated()));
    row.push(of(rule.healthy_fired, rule.healthy));
    row
}

/// `None` if costs were not measured.
fn cost_table(survey: &Survey) -> Option<Vec<Vec<String>>> {
    if survey.costs.is_empty() {
        return None;
    }
    let head = ["Rule", "View", "median ms", "max ms", "Shared with"].map(str::to_owned).to_vec();
    let rows = survey.tables.iter().filter_map(|(code, _)| {
        let Cost { table, median_ms, max_ms, shared_with } = cost(survey, code)?;
        let times = [median_ms, max_ms].map(|ms| format!("{ms:.1}"));
        Some([vec![code.clone(), table], times.to_vec(), vec![shared_with.join(" ")]].concat())
    });
    Some(std::iter::once(head).chain(rows).collect())
}

struct Cost {
    table: String,
    median_ms: f64,
    max_ms: f64,
    shared_with: Vec<String>,
}

fn cost(survey: &Survey, code: &str) -> Option<Cost> {
    let (_, table) = survey.tables.iter().find(|(c, _)| c == code)?;
    let (median_ms, max_ms) = median_and_max(survey.costs.get(table)?)?;
    let others = survey.tables.iter().filter(|(c, t)| t == table && c != code);
    let shared_with = others.map(|(c, _)| c.clone()).collect();
    Some(Cost { table: table.clone(), median_ms, max_ms, shared_with })
}

fn total_cost(survey: &Survey) -> String {
    let Some((median, max)) = median_and_max(&survey.total_costs) else { return String::new() };
    format!("All views of a run together take {median:.1} ms (median), at most {max:.1} ms.")
}

fn median_and_max(times: &[Duration]) -> Option<(f64, f64)> {
    let mut times = times.to_vec();
    times.sort();
    let ms = |time: &Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
    Some((ms(times.get(times.len() / 2)?), ms(times.last()?)))
}

/// Writes a table whose columns are aligned with spaces.
fn padded(rows: &[Vec<String>], text: &mut String) {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let are_numbers: Vec<bool> = (0..columns).map(|column| are_numbers(rows, column)).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).zip(&are_numbers);
        let cells = cells.map(|((cell, &width), &is_number)| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// Writes a Markdown table.
fn piped(rows: &[Vec<String>], text: &mut String) {
    for (i, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if i == 0 {
            let side = |column| if are_numbers(rows, column) { "--:" } else { "---" };
            let sides: Vec<&str> = (0..row.len()).map(side).collect();
            let _ = writeln!(text, "| {} |", sides.join(" | "));
        }
    }
}

/// Whether every cell below the heading is a number or `-`.
fn are_numbers(rows: &[Vec<String>], column: usize) -> bool {
    let mut cells = rows.iter().skip(1).map(|row| &row[column]);
    cells.all(|cell| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}
