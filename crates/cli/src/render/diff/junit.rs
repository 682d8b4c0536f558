//! A comparison as JUnit XML: test cases are the step time, memory, the rules about comparisons and the measures.
//! They fail if the verdict or memory that grew fails the command.

use trace_advisor::compare::{Outcome as DiffOutcome, Unit};

use super::context::DiffReport;
use super::phrases;
use crate::render::markup::junit::{Case, Outcome, Suite, document};
use crate::render::report;

pub(super) fn suite(report: &DiffReport<'_>) -> String {
    let (before, after) = &report.paths;
    let cases = std::iter::once(verdict(report)).chain(memory(report));
    let cases = cases.chain(rules(report)).chain(measures(report));
    let differences = phrases::differences(report.diff).map(|text| format!("differs: {text}"));
    let suite = Suite {
        name: format!("{before} -> {after}"),
        cases: cases.collect(),
        output: differences.into_iter().chain([report.diff.summary.headline.clone()]).collect(),
    };
    document("advisor diff", &[suite])
}

/// The verdict on the step, or on memory if that alone was compared.
fn verdict(report: &DiffReport<'_>) -> Case {
    let diff = report.diff;
    let verdict = &diff.verdict;
    let message = format!("{}: {}", verdict.outcome.phrase(), verdict.reason);
    let notes = diff.summary.notes.iter().map(|note| format!("note: {note}"));
    let details = [diff.summary.headline.clone()].into_iter().chain(notes);
    let outcome = if report.fails {
        let kind = verdict.outcome.as_str().to_owned();
        Outcome::Failed { kind, message, details: details.collect() }
    } else if matches!(verdict.outcome, DiffOutcome::Inconclusive | DiffOutcome::NotComparable) {
        Outcome::Skipped(message)
    } else {
        Outcome::Passed(std::iter::once(message).chain(details).collect())
    };
    let (class, name) = match diff.summary.unit {
        Unit::Memory => ("memory", "allocated memory"),
        Unit::Step | Unit::Recording => ("step", "step time"),
    };
    Case { class: class.to_owned(), name: name.to_owned(), outcome }
}

/// Memory beside times.
fn memory(report: &DiffReport<'_>) -> Option<Case> {
    let message = report.diff.memory.as_ref()?.headline()?;
    if report.diff.summary.unit == Unit::Memory && !report.fails_on_memory {
        return None;
    }
    let outcome = if report.fails_on_memory {
        Outcome::Failed { kind: "memory".to_owned(), message, details: Vec::new() }
    } else {
        Outcome::Passed(vec![message])
    };
    Some(Case { class: "memory".to_owned(), name: "peak memory".to_owned(), outcome })
}

fn rules(report: &DiffReport<'_>) -> Vec<Case> {
    let comparison = report.comparison;
    let fails = report.fails || report.fails_on_memory;
    let findings = comparison.findings.iter();
    let findings = findings.map(|f| (f.code.as_str(), report::junit::of_finding(f, fails)));
    let passed = comparison.passed.iter().map(|code| (code.as_str(), Outcome::Passed(Vec::new())));
    let unknown = comparison.unknown.iter();
    let unknown = unknown.map(|u| (u.code.as_str(), Outcome::Skipped(u.reason.clone())));
    let ignored = comparison.ignored.iter();
    let ignored = ignored.map(|i| {
        (
            i.code.as_str(),
            Outcome::Skipped(format!("ignored: {}: {} ({})", i.title, i.reason, i.at)),
        )
    });
    let mut rules: Vec<(&str, Outcome)> =
        findings.chain(passed).chain(unknown).chain(ignored).collect();
    rules.sort_by_key(|(code, _)| *code);
    let case = |(code, outcome)| report::junit::case(report.rules, code, outcome);
    rules.into_iter().map(case).collect()
}

fn measures(report: &DiffReport<'_>) -> impl Iterator<Item = Case> {
    report.diff.before_after.iter().map(|measure| {
        let [before, after] =
            [measure.before, measure.after].map(|number| phrases::number(measure, number));
        let change = phrases::measure_change(measure);
        let outcome = match &measure.reason {
            Some(reason) => Outcome::Skipped(reason.clone()),
            None => Outcome::Passed(vec![format!("{before} -> {after} ({change})")]),
        };
        Case { class: "measures".to_owned(), name: phrases::measure_name(measure), outcome }
    })
}
