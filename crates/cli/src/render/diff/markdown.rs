//! A comparison as a comment on a pull request: the verdict first, the details folded.

use std::fmt::Write as _;

use trace_advisor::compare::{Outcome, signed_bytes};
use trace_advisor::trace_model::number::human_bytes;
use trace_advisor::trace_model::time::human;

use super::context::DiffReport;
use super::phrases;
use super::sections::{self, MemorySection, Section};
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
        Outcome::Inconclusive | Outcome::NotComparable => "🟡",
    };
    let (before, after) = &report.paths;
    let mut text = format!(
        "### Trace Advisor: {} → {}\n\n{icon} **{}**: {}\n\n{}\n",
        code(before),
        code(after),
        outcome.phrase(),
        prose(&diff.verdict.reason),
        prose(&diff.summary.headline)
    );
    if let Some(differences) = phrases::differences(diff) {
        let _ = writeln!(text, "\nThe runs differ in {}", prose(&differences));
    }
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
    if let Some(section) = sections::memory(diff, Some(limit)) {
        let _ = write!(text, "\n{}", folded(&capitalized(&section.title), &memory(&section)));
    }
    for section in sections::overview(diff, Some(limit)) {
        let title = capitalized(&section.title);
        let _ = write!(text, "\n{}", folded(&title, &rows(report, &section)));
    }
    for end in [phrases::added_and_removed(diff), phrases::explained(diff)].into_iter().flatten() {
        let _ = write!(text, "\n{}\n", prose(&end));
    }
    let _ = write!(text, "\nReproduce with {}\n", code(&phrases::command(report)));
    text
}

fn capitalized(title: &str) -> String {
    let mut title = title.to_owned();
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// Owners, and the places that allocate more or less.
fn memory(section: &MemorySection<'_>) -> String {
    let columns = [("", false), ("before", true), ("after", true), ("change", true)];
    let bytes = |bytes: i64| human_bytes(bytes as f64);
    let mut text = head(&columns);
    let device = section.device;
    let total = ("**in all**".to_owned(), device.before_bytes, device.after_bytes);
    for (name, before, after) in std::iter::once(total).chain(section.owners.iter().cloned()) {
        let change = signed_bytes(after.saturating_sub(before));
        text.push_str(&row([name, bytes(before), bytes(after), change]));
    }
    if let Some(batch) = phrases::batch(device) {
        let _ = write!(text, "\n{}\n", prose(&batch));
    }
    if section.holders.is_empty() {
        return text;
    }
    let _ = write!(
        text,
        "\n{}",
        head(&[
            ("change", true),
            ("before", true),
            ("after", true),
            ("allocations", true),
            ("place", false)
        ])
    );
    for holder in &section.holders {
        let (name, old) = phrases::holder(holder);
        let old = old.map(|old| format!("<br>{}", cell_code(&old))).unwrap_or_default();
        text.push_str(&row([
            signed_bytes(holder.change_bytes()),
            bytes(holder.before_bytes),
            bytes(holder.after_bytes),
            phrases::allocation_counts(holder),
            cell_code(&name) + &old,
        ]));
    }
    if let Some((count, change)) = section.more {
        let _ = write!(text, "\n{count} more, together {}\n", signed_bytes(change));
    }
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
