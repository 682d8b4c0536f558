//! A comparison as a comment on a pull request: the verdict first, the details folded.

use std::fmt::Write as _;

use trace_advisor::compare::Outcome;
use trace_advisor::trace_model::time::human;

use super::context::DiffReport;
use super::phrases;
use super::sections::{self, Section};
use crate::render::markup::markdown::{cell_code, code, folded, head, prose, row, unfolded};
use crate::render::report;

/// Default number of rows per section; the size of a comment is limited.
const DEFAULT_LIMIT: usize = 5;

pub(super) fn comment(report: &DiffReport<'_>) -> String {
    let diff = report.diff;
    let outcome = diff.verdict.outcome;
    let icon = match outcome {
        Outcome::Regression => "🔴",
        Outcome::Improvement => "🟢",
        Outcome::Unchanged => "⚪",
        Outcome::Inconclusive => "🟡",
    };
    let (before, after) = &report.paths;
    let mut text = format!(
        "### Trace Advisor: {} → {}\n\n{icon} **{}**: {}\n\n{}\n",
        code(before),
        code(after),
        outcome.as_str(),
        prose(&diff.verdict.reason),
        prose(&diff.summary.headline)
    );
    for (i, note) in diff.summary.notes.iter().enumerate() {
        let _ = writeln!(text, "{}- {}", if i == 0 { "\n" } else { "" }, prose(note));
    }
    text.push_str(&measures(report));
    for finding in &report.comparison.findings {
        let summary = report::markdown::summary(finding);
        let _ = write!(text, "\n{}", unfolded(&summary, &report::markdown::body(finding)));
    }
    if !diff.categories.is_empty() {
        let title = format!("Parts of the {}", phrases::whole(diff));
        let _ = write!(text, "\n{}", folded(&title, &categories(report)));
    }
    let limit = report.limit.unwrap_or(DEFAULT_LIMIT);
    for section in sections::overview(diff, Some(limit)) {
        let mut title = section.title.clone();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let _ = write!(text, "\n{}", folded(&title, &rows(report, &section)));
    }
    for end in [phrases::added_and_removed(diff), phrases::explained(diff)].into_iter().flatten() {
        let _ = write!(text, "\n{}\n", prose(&end));
    }
    let _ = write!(text, "\nReproduce with {}\n", code(&phrases::command(report)));
    text
}

fn measures(report: &DiffReport<'_>) -> String {
    let mut text =
        format!("\n{}", head(&[("", false), ("before", true), ("after", true), ("change", true)]));
    for measure in phrases::shown_measures(report.diff) {
        text.push_str(&row([
            phrases::measure_name(measure),
            phrases::number(measure, measure.before),
            phrases::number(measure, measure.after),
            phrases::measure_change(measure),
        ]));
    }
    let missing = phrases::missing_measures(report.diff);
    if !missing.is_empty() {
        let lines: Vec<String> = missing.iter().map(|line| format!("- {}", prose(line))).collect();
        let _ =
            write!(text, "\n{}", folded("Why some values are not available", &lines.join("\n")));
    }
    text
}

fn categories(report: &DiffReport<'_>) -> String {
    let diff = report.diff;
    let columns = [
        ("", false),
        ("before", true),
        ("after", true),
        ("change", true),
        (phrases::of_step_title(report.diff), true),
    ];
    let mut text = head(&columns);
    let summary = &diff.summary;
    let change_ns = summary.change_ns();
    text.push_str(&row([
        "**in all**".to_owned(),
        human(summary.before.mean_ns),
        human(summary.after.mean_ns),
        phrases::signed(change_ns),
        phrases::of_step(change_ns, diff),
    ]));
    let mut last = None;
    for category in &diff.categories {
        if last != Some(category.group) {
            let title = format!("*{}*", phrases::group(category.group));
            text.push_str(&row([title.as_str(), "", "", "", ""]));
            last = Some(category.group);
        }
        let [before, after, change] = phrases::category_values(category);
        let is_time = category.unit == "ns";
        let share = if is_time { phrases::of_step(category.diff(), diff) } else { String::new() };
        text.push_str(&row([category.phrase().to_owned(), before, after, change, share]));
    }
    text
}

fn rows(report: &DiffReport<'_>, section: &Section<'_>) -> String {
    let mut text = head(&[
        ("change", true),
        (phrases::of_step_title(report.diff), true),
        ("before", true),
        ("after", true),
        ("calls", true),
        ("name", false),
    ]);
    for item in &section.rows {
        let change_ns = section.change_ns(item);
        let mut name =
            cell_code(&phrases::name(item.level, &item.name)) + phrases::change_mark(item);
        if let Some((how, old)) = phrases::old_name(item) {
            let _ = write!(name, "<br>{how} {}", cell_code(&old));
        }
        text.push_str(&row([
            phrases::signed(change_ns),
            phrases::of_step(change_ns, report.diff),
            human((section.time)(&item.before)),
            human((section.time)(&item.after)),
            phrases::calls(item),
            name,
        ]));
    }
    if let Some((count, change_ns)) = section.more {
        let _ = write!(text, "\n{count} more, together {}\n", phrases::signed(change_ns));
    }
    text
}
