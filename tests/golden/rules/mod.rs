//! The shipped rules over every real trace of the corpus: no error, and no finding without a review.
//! `verdicts.txt` has one line per finding on a trace, and one per rule without a verdict; its diff is the review of a change to
//! rules or views.

mod base_rates;
mod case_studies;
mod gains;
mod maturity;
mod raw_counts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use cli::runs::runs_below;
use rayon::prelude::*;
use trace_advisor::Report;
use trace_advisor::analyses::catalog;

use crate::harness::{Case, functions};
use crate::runs::{self, traces};
use crate::support::corpus;

/// The verdicts of the shipped rules.
const VERDICTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/rules/verdicts.txt");

/// One test per trace for its verdicts and its views, and tests of all reports together.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in runs_below(&traces()).unwrap() {
        let trace = runs::name(&path);
        let of = trace.clone();
        cases.push(Case::of_trace(&trace, "verdicts", move || verdicts(&of, &path)));
    }
    for path in corpus::runs(&traces()) {
        let trace = runs::name(&path);
        let test = move || every_view_has_rows_or_a_reason(&path);
        cases.push(Case::of_trace(&trace, "every_view_has_rows_or_a_reason", test));
    }
    cases
        .extend(functions![verdicts_list_every_trace, data_loading_comes_first_if_it_is_the_cause]);
    cases.extend(raw_counts::cases());
    cases.extend(case_studies::cases());
    cases.extend(gains::cases());
    cases.extend(maturity::cases());
    cases.extend(base_rates::cases());
    cases
}

/// The reports of the shipped rules by the name of the run below the folder of traces, or the error.
type Reports = BTreeMap<String, Result<Report, String>>;

/// The reports of all runs of the corpus. Those that no test has read yet are made now.
fn reports() -> Reports {
    let paths = runs_below(&traces()).unwrap();
    let report = |path: &PathBuf| (runs::name(path), runs::report(path).as_ref().clone());
    paths.par_iter().map(report).collect()
}

#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn is_update() -> bool {
    std::env::var("UPDATE").is_ok_and(|v| v == "1")
}

/// Tests of what trainers record are in the suites of their formats.
fn is_listed(trace: &str) -> bool {
    !trace.starts_with("composer") && !trace.starts_with("determined")
}

/// The verdicts of the rules on some traces.
#[derive(Debug, Default, PartialEq)]
struct Verdicts {
    /// By trace, in the order of the report: `HB001 medium 83.2 %`, with the upper end of the gain.
    findings: BTreeMap<String, Vec<String>>,
    /// The traces on which a rule has no verdict, by its code.
    unknown: BTreeMap<String, BTreeSet<String>>,
}

impl Verdicts {
    fn committed() -> Self {
        let mut all = Self::default();
        for line in std::fs::read_to_string(VERDICTS).unwrap().lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if name == UNKNOWN {
                let (code, traces) = rest.split_once(": ").unwrap();
                let traces = traces.split(' ').map(str::to_owned).collect();
                all.unknown.insert(code.to_owned(), traces);
            } else {
                let findings = all.findings.entry(name.to_owned()).or_default();
                findings.extend((rest != NO_FINDING).then(|| rest.to_owned()));
            }
        }
        all
    }

    fn add(&mut self, trace: &str, report: &Result<Report, String>) {
        let findings = self.findings.entry(trace.to_owned()).or_default();
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                findings.push(format!("error: {}", error.lines().next().unwrap_or("")));
                return;
            }
        };
        for finding in &report.findings {
            let gain = finding.gain.high_pct.map(|pct| format!(" {pct:.1} %")).unwrap_or_default();
            findings.push(format!("{} {}{gain}", finding.code, finding.severity.as_str()));
        }
        for rule in &report.unknown {
            self.unknown.entry(rule.code.clone()).or_default().insert(trace.to_owned());
        }
    }

    /// One line per finding, then one line per rule that has no verdict on some trace.
    fn text(&self) -> String {
        let mut text = String::new();
        for (trace, findings) in &self.findings {
            if findings.is_empty() {
                writeln!(text, "{trace} {NO_FINDING}").unwrap();
            }
            for finding in findings {
                writeln!(text, "{trace} {finding}").unwrap();
            }
        }
        for (code, traces) in &self.unknown {
            let traces: Vec<&str> = traces.iter().map(String::as_str).collect();
            writeln!(text, "{UNKNOWN} {code}: {}", traces.join(" ")).unwrap();
        }
        text
    }

    /// The verdicts on one trace.
    fn of(&self, trace: &str) -> (Vec<String>, Vec<&str>) {
        let findings = self.findings.get(trace).cloned().unwrap_or_default();
        let unknown = self.unknown.iter().filter(|(_, traces)| traces.contains(trace));
        (findings, unknown.map(|(code, _)| code.as_str()).collect())
    }
}

/// Begins a line about a rule without a verdict.
const UNKNOWN: &str = "unknown";
/// Stands for the findings of a trace without any.
const NO_FINDING: &str = "no finding";

fn verdicts(trace: &str, path: &Path) {
    let mut all = Verdicts::default();
    all.add(trace, &runs::report(path));
    let found = all.of(trace);
    if !is_listed(trace) {
        assert!(!found.0.iter().any(|line| line.starts_with("error: ")), "{found:?}");
    } else if !is_update() {
        let committed = Verdicts::committed();
        let expected = committed.of(trace);
        assert!(
            found == expected,
            "the verdicts differ; UPDATE=1 rewrites verdicts.txt\n  expected: {expected:?}\n  found:    {found:?}"
        );
    }
}

/// `UPDATE=1` rewrites all lines.
fn verdicts_list_every_trace() {
    let mut all = Verdicts::default();
    for (trace, report) in reports().iter().filter(|(trace, _)| is_listed(trace)) {
        all.add(trace, report);
    }
    if is_update() {
        return std::fs::write(VERDICTS, all.text()).unwrap();
    }
    let committed = std::fs::read_to_string(VERDICTS).unwrap();
    assert!(committed == all.text(), "UPDATE=1 rewrites verdicts.txt");
}

fn data_loading_comes_first_if_it_is_the_cause() {
    let report = runs::report(&traces().join("resnet50_workers0"));
    let report = report.as_ref().as_ref().unwrap();
    let first = &report.findings[0];
    assert_eq!(first.code, "IN001");
    assert_eq!(report.headline.first.as_deref(), Some("IN001"));
    assert!((0.30..0.45).contains(&first.value), "{}", first.value);
    assert_eq!(first.threshold, "> 20 %");
    assert!(first.gain.high_pct.unwrap() > 25.0);
    assert!(first.advice[0].contains("num_workers"), "{}", first.advice[0]);

    let report = runs::report(&traces().join("resnet50_workers4"));
    let report = report.as_ref().as_ref().unwrap();
    assert!(report.findings.iter().all(|f| f.code != "IN001"));
    assert!(report.passed.contains(&"IN001".to_owned()));
}

/// HTA fails in a quarter of its calls over such traces. We give rows, or say why there are none.
fn every_view_has_rows_or_a_reason(path: &Path) {
    let shared = runs::open_path(path);
    let mut mute = Vec::new();
    for view in catalog().views() {
        let rows = shared.run.analyze(&view.name).unwrap_or_else(|e| panic!("{}: {e}", view.name));
        let is_empty = rows.iter().all(|batch| batch.num_rows() == 0);
        if is_empty && view.when_empty.is_empty() && view.topic() != "base" {
            mute.push(&view.name);
        }
    }
    assert!(mute.is_empty(), "without rows and without a reason: {mute:?}");
}
