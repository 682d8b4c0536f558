//! Annotations for GitHub Actions. GitHub shows the first ten of each kind, so the headlines come first.

use trace_advisor::Report;
use trace_advisor::advisor::{BaselineState, Finding, Severity};

use super::context::ReportContext;
use super::phrases;
use crate::render::markup::github::{Kind, annotation};

/// The headline of each run, and one annotation per finding that formats for people show, at its source line if that is
/// known. With a baseline, only new and worse findings are annotated, and those that are gone are named.
pub(super) fn annotations(reports: &[Report], context: &ReportContext<'_>) -> String {
    let headlines = reports.iter().map(headline);
    let findings = reports.iter().map(|report| {
        let counts = |f: &&Finding| f.baseline_state.is_none_or(BaselineState::is_regression);
        context.shown(report).filter(counts).map(of_finding).collect::<String>()
    });
    let changes = reports.iter().map(baseline_changes);
    headlines.chain(findings).chain(changes).collect()
}

fn headline(report: &Report) -> String {
    let title = format!("Trace Advisor: {}", report.run.path);
    let mut lines = vec![report.headline.text.clone()];
    lines.extend(phrases::recording(report));
    lines.extend(report.baseline.as_ref().map(phrases::baseline_counts));
    annotation(Kind::Notice, &[("title", &title)], &lines)
}

/// The kind of annotation for a finding.
fn kind(finding: &Finding) -> Kind {
    match finding.severity {
        _ if finding.is_note() => Kind::Notice,
        Severity::Critical | Severity::High => Kind::Error,
        Severity::Medium => Kind::Warning,
        Severity::Low | Severity::Info => Kind::Notice,
    }
}

/// The annotation of a finding.
pub(crate) fn of_finding(finding: &Finding) -> String {
    let state = finding.baseline_state.map(|s| format!("{}: ", s.as_str())).unwrap_or_default();
    let title = format!("{state}{}: {}", phrases::tag(finding), finding.title);
    let (file, line) = match finding.source.first() {
        Some(source) => phrases::split_location(source),
        None => ("", None),
    };
    let line = line.map(|line| line.to_string());
    let mut properties = Vec::new();
    if !file.is_empty() {
        properties.push(("file", file));
        properties.extend(line.as_deref().map(|line| ("line", line)));
    }
    properties.push(("title", &title));
    let mut lines = vec![finding.message.clone(), phrases::affected(finding, 3)];
    let gain = phrases::gain(finding);
    if !gain.is_empty() {
        lines.push(format!("saves {gain}"));
    }
    lines.extend(finding.advice.iter().map(|advice| format!("help: {advice}")));
    annotation(kind(finding), &properties, &lines)
}

/// A notice for each finding of the baseline that is gone or undetermined.
fn baseline_changes(report: &Report) -> String {
    let changes = report.baseline.as_ref().map(phrases::baseline_changes).unwrap_or_default();
    let notice = |(label, text): &(&str, String)| {
        let title = format!("{label}: {}", report.run.path);
        annotation(Kind::Notice, &[("title", &title)], std::slice::from_ref(text))
    };
    changes.iter().map(notice).collect()
}
