//! JUnit XML: a run is a test suite, a rule is a test case. A finding that fails the check is a failure, a rule
//! whose verdict is unknown is skipped.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::Finding;

use super::context::ReportContext;
use super::phrases;
use crate::render::sanitize::{sanitize, sanitize_lines};

/// The test suites of all runs.
pub(super) fn suites(reports: &[Report], context: &ReportContext<'_>) -> String {
    let suites: Vec<Suite> = reports.iter().map(|r| suite(r, context)).collect();
    let sum = |count: fn(&Suite) -> usize| suites.iter().map(count).sum::<usize>();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"advisor check\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n",
        sum(|s| s.tests),
        sum(|s| s.failures),
        sum(|s| s.skipped)
    );
    for suite in &suites {
        let _ = writeln!(
            text,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">",
            suite.name, suite.tests, suite.failures, suite.skipped
        );
        text.push_str(&suite.cases);
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

struct Suite {
    name: String,
    tests: usize,
    failures: usize,
    skipped: usize,
    cases: String,
}

/// The test cases of a run: all rules, in order of their codes.
fn suite(report: &Report, context: &ReportContext<'_>) -> Suite {
    let mut cases: Vec<(&str, Verdict<'_>)> = Vec::new();
    for finding in &report.findings {
        let verdict = if context.fails(finding) {
            Verdict::Failed(finding)
        } else {
            Verdict::Reported(finding)
        };
        cases.push((&finding.code, verdict));
    }
    cases.extend(report.passed.iter().map(|code| (code.as_str(), Verdict::Passed)));
    let unknown = report.unknown.iter();
    cases.extend(unknown.map(|u| (u.code.as_str(), Verdict::Skipped(u.reason.clone()))));
    let ignored = report.ignored.iter().map(|i| {
        (
            i.code.as_str(),
            Verdict::Skipped(format!("ignored: {}: {} ({})", i.title, i.reason, i.at)),
        )
    });
    cases.extend(ignored);
    cases.sort_by_key(|(code, _)| *code);
    let count = |is: fn(&Verdict<'_>) -> bool| cases.iter().filter(|(_, v)| is(v)).count();
    Suite {
        name: attribute(&report.run.path),
        tests: cases.len(),
        failures: count(|v| matches!(v, Verdict::Failed(_))),
        skipped: count(|v| matches!(v, Verdict::Skipped(_))),
        cases: cases.iter().map(|(code, verdict)| case(code, verdict, context)).collect(),
    }
}

enum Verdict<'a> {
    Passed,
    /// The rule fired, below the severity that fails the check.
    Reported(&'a Finding),
    Failed(&'a Finding),
    Skipped(String),
}

fn case(code: &str, verdict: &Verdict<'_>, context: &ReportContext<'_>) -> String {
    let rule = phrases::find_rule(context.rules, code);
    let class = attribute(rule.map(|r| r.category.as_str()).unwrap_or_default());
    let name = rule.map_or_else(|| code.to_owned(), |r| format!("{code} {}", r.name));
    let head = format!("    <testcase classname=\"{class}\" name=\"{}\"", attribute(&name));
    match verdict {
        Verdict::Passed => format!("{head}/>\n"),
        Verdict::Skipped(reason) => {
            format!(
                "{head}>\n      <skipped message=\"{}\"/>\n    </testcase>\n",
                attribute(reason)
            )
        }
        Verdict::Reported(finding) => format!(
            "{head}>\n      <system-out>{}</system-out>\n    </testcase>\n",
            content(&body(finding))
        ),
        Verdict::Failed(finding) => format!(
            "{head}>\n      <failure type=\"{}\" message=\"{}\">{}</failure>\n    </testcase>\n",
            finding.severity,
            attribute(&finding.title),
            content(&body(finding))
        ),
    }
}

fn body(finding: &Finding) -> String {
    let mut lines = vec![format!("{}: {}", phrases::severity_label(finding), finding.title)];
    lines.extend(finding.source.iter().map(|source| format!("at {source}")));
    lines.push(finding.message.clone());
    lines.push(format!(
        "where: {}; limit {}",
        phrases::affected(finding, 3),
        phrases::threshold(finding)
    ));
    lines.extend(phrases::occurrences(finding).map(|seen| format!("seen: {seen}")));
    let gain = phrases::gain(finding);
    if !gain.is_empty() {
        lines.push(format!("saves {gain}"));
    }
    lines.extend(finding.advice.iter().map(|advice| format!("help: {advice}")));
    lines.iter().map(|line| sanitize(line)).collect::<Vec<_>>().join("\n")
}

/// The value of an attribute.
fn attribute(text: &str) -> String {
    escaped(&sanitize(text))
}

/// Text between tags.
fn content(text: &str) -> String {
    escaped(&sanitize_lines(text))
}

/// Escapes XML markup and replaces characters that are not allowed in XML. Control characters were removed before.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}
