//! A comparison as annotations for GitHub Actions: the verdict first, because GitHub shows the first ten of each kind.

use trace_advisor::compare::Outcome;
use trace_advisor::trace_model::time::human;

use super::context::DiffReport;
use super::phrases;
use super::sections;
use crate::render::markup::github::{Kind, annotation};
use crate::render::report;
use crate::render::shorten::shorten;

/// Number of rows on the host, and on the GPU, that get an annotation.
const MAX_ROWS: usize = 3;

/// Number of characters of a name in a title.
const MAX_TITLE: usize = 80;

pub(super) fn annotations(report: &DiffReport<'_>) -> String {
    let diff = report.diff;
    let outcome = diff.verdict.outcome;
    let kind = match outcome {
        Outcome::Regression => Kind::Error,
        Outcome::Inconclusive | Outcome::NotComparable => Kind::Warning,
        Outcome::Improvement | Outcome::Unchanged => Kind::Notice,
    };
    let (before, after) = &report.paths;
    let title = format!("Trace Advisor: {}, {before} -> {after}", outcome.phrase());
    let mut message = vec![diff.verdict.reason.clone()];
    message.extend(phrases::differences(diff).map(|text| format!("differs: {text}")));
    message.push(diff.summary.headline.clone());
    message.extend(diff.summary.notes.iter().map(|note| format!("note: {note}")));
    let mut text = annotation(kind, &[("title", &title)], &message);
    for finding in &report.comparison.findings {
        text.push_str(&report::github::of_finding(finding));
    }
    if outcome == Outcome::Unchanged {
        return text;
    }
    // The first two sections: time on the host, and on the GPU.
    for section in sections::overview(diff, Some(MAX_ROWS)).iter().take(2) {
        for row in &section.rows {
            let change_ns = section.change_ns(row);
            let name = phrases::name(row.level, &row.name);
            let short = shorten(std::slice::from_ref(&name), MAX_TITLE, "...").concat();
            let title = format!("{} {short}", phrases::signed(change_ns));
            let times = [&row.before, &row.after].map(|amounts| human((section.time)(amounts)));
            let message = format!(
                "{name}: {}: {} -> {}, {} {}; calls per step: {}",
                section.title,
                times[0],
                times[1],
                phrases::of_step(change_ns, diff),
                phrases::of_step_title(diff),
                phrases::calls(row)
            );
            text.push_str(&annotation(Kind::Notice, &[("title", &title)], &[message]));
        }
    }
    text
}
