//! `docs/evidence/case-studies.md`: what the program says stands below what a person read, and the cause that the
//! person names first is its first finding.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{Finding, Severity};

use super::is_update;
use crate::harness::{Case as Test, functions};
use crate::runs;

pub(super) fn cases() -> Vec<Test> {
    functions![first_cause_of_each_reading_is_found]
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evidence/case-studies.md");
const OPEN: &str = "<!-- advisor: ";
const CLOSE: &str = "<!-- /advisor -->";
/// Findings that a reader looks at.
const FIRST: usize = 3;

/// A marked block of the document.
struct Case<'a> {
    run: &'a str,
    /// Codes of which one must be among the first findings; none: there must be no finding.
    expected: Vec<&'a str>,
    /// That they differ is known: the document says why.
    is_open: bool,
    text: &'a str,
}

/// The text before each block, the block, and the text after the last one.
fn blocks(document: &str) -> (Vec<(&str, Case<'_>)>, &str) {
    let mut cases = Vec::new();
    let mut rest = document;
    while let Some((before, block)) = rest.split_once(OPEN) {
        let (marker, block) = block.split_once(" -->\n").expect("a marker ends in -->");
        let (run, expected) = marker.split_once(" expect=").expect("run=... expect=...");
        let run = run.strip_prefix("run=").expect("run=...");
        let (expected, is_open) = match expected.strip_suffix(" open") {
            Some(expected) => (expected, true),
            None => (expected, false),
        };
        let (text, after) = block.split_once(CLOSE).expect("a block ends");
        let expected = expected.split('|').filter(|code| *code != "nothing").collect();
        cases.push((before, Case { run, expected, is_open, text }));
        rest = after;
    }
    (cases, rest)
}

fn first(report: &Report) -> Vec<&Finding> {
    report.advice().filter(|f| f.severity > Severity::Info).take(FIRST).collect()
}

/// The text between the markers.
fn said(case: &Case<'_>, report: &Report) -> String {
    let mut text = format!("**What `advisor check` says.** {}\n\n", report.headline.text);
    let findings = first(report);
    for (place, finding) in (1..).zip(&findings) {
        let Finding { code, name, severity, title, gain, confidence, .. } = finding;
        let gain = match (gain.low_pct, gain.high_pct, gain.ms_per_step) {
            (Some(low), Some(high), Some(ms)) => {
                format!("{low:.1} to {high:.1} %, {ms:.3} ms a step")
            }
            (Some(low), Some(high), None) => format!("{low:.1} to {high:.1} %"),
            _ => "no estimate".to_owned(),
        };
        writeln!(
            text,
            "{place}. {severity} `{code}` {name}: {title} ({gain}; confidence {confidence})"
        )
        .unwrap();
    }
    if findings.is_empty() {
        text.push_str("No finding above info.\n");
    }
    let notes: Vec<&str> = report.notes().map(|f| f.code.as_str()).collect();
    if !notes.is_empty() {
        writeln!(text, "\nNotes about the trace: {}.", notes.join(", ")).unwrap();
    }
    let verdict = match found(case, report) {
        Some(place) if case.expected.is_empty() => {
            format!("The reading found nothing to mend, the program found {place}.")
        }
        None if case.expected.is_empty() => "As the reading: nothing to mend.".to_owned(),
        Some(place) => format!("What the reading names first is number {place}."),
        None => "What the reading names first is not among these.".to_owned(),
    };
    format!("{text}\n{verdict}\n")
}

/// Place of the first expected finding among the first; if none is expected, how many there are.
fn found(case: &Case<'_>, report: &Report) -> Option<usize> {
    let findings = first(report);
    if case.expected.is_empty() {
        return (!findings.is_empty()).then_some(findings.len());
    }
    findings.iter().position(|f| case.expected.contains(&&*f.code)).map(|place| place + 1)
}

fn report(run: &str) -> Report {
    runs::report(&runs::traces().join(run)).as_ref().clone().unwrap()
}

fn first_cause_of_each_reading_is_found() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (cases, rest) = blocks(&document);
    assert!(cases.len() >= 8, "{} readings", cases.len());
    let mut fresh = String::new();
    let (mut differ, mut stale) = (Vec::new(), Vec::new());
    for (before, case) in &cases {
        let report = report(case.run);
        let text = said(case, &report);
        let codes: Vec<&str> = first(&report).iter().map(|f| f.code.as_str()).collect();
        let agrees = match found(case, &report) {
            Some(place) => !case.expected.is_empty() && place == 1,
            None => case.expected.is_empty(),
        };
        if agrees == case.is_open {
            let open = if agrees { ", but `open`: take that out of the marker" } else { "" };
            differ.push(format!("{}: {:?}, found {codes:?}{open}", case.run, case.expected));
        }
        if text != case.text {
            stale.push(case.run);
        }
        let expected =
            if case.expected.is_empty() { "nothing".into() } else { case.expected.join("|") };
        let open = if case.is_open { " open" } else { "" };
        let run = case.run;
        write!(fresh, "{before}{OPEN}run={run} expect={expected}{open} -->\n{text}{CLOSE}")
            .unwrap();
    }
    fresh.push_str(rest);
    if is_update() {
        std::fs::write(DOCUMENT, fresh).unwrap();
    } else {
        assert_eq!(
            stale, [""; 0],
            "docs/evidence/case-studies.md is stale: run this test with UPDATE=1"
        );
    }
    assert_eq!(differ, [""; 0], "the cause that a person names first is not the first finding");
}
