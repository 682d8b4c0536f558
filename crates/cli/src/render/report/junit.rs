//! JUnit XML: a run is a test suite, a rule is a test case. A finding that fails the check is a failure, a rule whose
//! verdict is unknown is skipped. With a baseline, only new and worse findings fail, and a rule whose finding is gone
//! passes with a note.

use trace_advisor::advisor::{BaselineComparison, Finding};
use trace_advisor::{Report, RuleSet};

use super::context::ReportContext;
use super::phrases;
use crate::render::markup::junit::{Case, Outcome, Suite, document};

/// The test suites of all runs.
pub(super) fn suites(reports: &[Report], context: &ReportContext<'_>) -> String {
    let suites: Vec<Suite> = reports.iter().map(|r| suite(r, context)).collect();
    document("advisor check", &suites)
}

/// The test cases of a run: all rules, in order of their codes.
fn suite(report: &Report, context: &ReportContext<'_>) -> Suite {
    let findings =
        report.findings.iter().map(|f| (f.code.as_str(), of_finding(f, context.fails(f))));
    let passed = report.passed.iter().map(|code| (code.as_str(), of_passed(code, report)));
    let unknown = report.unknown.iter();
    let unknown = unknown.map(|u| (u.code.as_str(), Outcome::Skipped(u.reason.clone())));
    let ignored = report.ignored.iter().map(|i| {
        let reason = format!("ignored: {}: {} ({})", i.title, i.reason, i.at);
        (i.code.as_str(), Outcome::Skipped(reason))
    });
    let mut cases: Vec<(&str, Outcome)> =
        findings.chain(passed).chain(unknown).chain(ignored).collect();
    // Findings of the baseline whose rules are not evaluated now.
    for was in report.baseline.iter().flat_map(|baseline| &baseline.still_unknown) {
        let code = was.was.code.as_str();
        if cases.iter().all(|(other, _)| *other != code) {
            let text =
                format!("in the baseline: {}; no verdict now: {}", was.was.title, was.reason);
            cases.push((code, Outcome::Skipped(text)));
        }
    }
    cases.sort_by_key(|(code, _)| *code);
    let case = |(code, outcome): (&str, Outcome)| case(context.rules, code, outcome);
    let mut output = vec![report.headline.text.clone()];
    output.extend(phrases::recording(report));
    output.extend(report.baseline.iter().flat_map(baseline_lines));
    Suite { name: report.run.path.clone(), cases: cases.into_iter().map(case).collect(), output }
}

/// The test case of a rule.
pub(crate) fn case(rules: &RuleSet, code: &str, outcome: Outcome) -> Case {
    let rule = phrases::find_rule(rules, code);
    Case {
        class: rule.map(|r| r.category.clone()).unwrap_or_default(),
        name: rule.map_or_else(|| code.to_owned(), |r| format!("{code} {}", r.name)),
        outcome,
    }
}

fn baseline_lines(baseline: &BaselineComparison) -> Vec<String> {
    let changes = phrases::baseline_changes(baseline).into_iter();
    let changes = changes.map(|(label, text)| format!("{label}: {text}"));
    std::iter::once(phrases::baseline_counts(baseline)).chain(changes).collect()
}

/// The outcome for a rule with a finding.
pub(crate) fn of_finding(finding: &Finding, fails: bool) -> Outcome {
    if !fails {
        return Outcome::Passed(lines(finding));
    }
    let state = finding.baseline_state.map(|s| format!("{}: ", s.as_str())).unwrap_or_default();
    Outcome::Failed {
        kind: finding.severity.to_string(),
        message: format!("{state}{}", finding.title),
        details: lines(finding),
    }
}

/// The outcome for a rule that passed, with a note if the baseline has a finding of it.
fn of_passed(code: &str, report: &Report) -> Outcome {
    let gone = report.baseline.iter().flat_map(|baseline| &baseline.gone);
    let gone = gone.filter(|gone| gone.code == code);
    Outcome::Passed(gone.map(|gone| format!("gone since the baseline: {}", gone.title)).collect())
}

fn lines(finding: &Finding) -> Vec<String> {
    let state = finding.baseline_state.map(|s| format!("{}, ", s.as_str())).unwrap_or_default();
    let mut lines = vec![format!("{state}{}: {}", phrases::severity_label(finding), finding.title)];
    lines.extend(finding.source.iter().map(|source| format!("at {source}")));
    lines.push(finding.message.clone());
    let rows = phrases::affected(finding, 3);
    lines.push(format!("where: {rows}; limit {}", finding.threshold));
    lines.extend(phrases::occurrences(finding).map(|seen| format!("seen: {seen}")));
    let gain = phrases::gain(finding);
    if !gain.is_empty() {
        lines.push(format!("saves {gain}"));
    }
    lines.extend(finding.advice.iter().map(|advice| format!("help: {advice}")));
    lines
}
