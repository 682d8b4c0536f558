//! The shipped rules over every real trace of the corpus: no error, and no finding without a review.
//! `verdicts.txt` has one line per trace; its diff is the review of a change to rules or views.

mod base_rates;
mod case_studies;
mod coverage;
mod gains;
mod raw_counts;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use cli::runs::runs_below;
use rayon::prelude::*;
use trace_advisor::Report;
use trace_advisor::analyses::catalog;

use crate::harness::{Case, functions};
use crate::runs::{self, traces};
use crate::support::corpus;

/// The verdicts of the shipped rules, one line per trace.
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
    cases.extend(coverage::cases());
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

/// The committed line of each trace.
fn committed() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(VERDICTS).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    lines.map(|(trace, line)| (trace.to_owned(), line.to_owned())).collect()
}

fn line(report: &Result<Report, String>) -> String {
    let report = match report {
        Ok(report) => report,
        Err(error) => return format!("error: {}", error.lines().next().unwrap_or("")),
    };
    let findings: Vec<String> = report
        .findings
        .iter()
        .map(|f| {
            let gain = f.gain.high_pct.map(|pct| format!(" {pct:.1}%")).unwrap_or_default();
            format!("{} {}{gain}", f.severity.as_str(), f.code)
        })
        .collect();
    let unknown: Vec<&str> = report.unknown.iter().map(|u| u.code.as_str()).collect();
    let mut line = if findings.is_empty() { "-".to_owned() } else { findings.join(", ") };
    if !unknown.is_empty() {
        write!(line, " | unknown {}", unknown.join(" ")).unwrap();
    }
    line
}

fn verdicts(trace: &str, path: &Path) {
    let found = line(&runs::report(path));
    if !is_listed(trace) {
        assert!(!found.starts_with("error: "), "{found}");
    } else if !is_update() {
        let expected = committed().remove(trace).unwrap_or_default();
        assert!(
            found == expected,
            "the verdicts differ; UPDATE=1 rewrites verdicts.txt\n  expected: {expected}\n  found:    {found}"
        );
    }
}

/// `UPDATE=1` rewrites all lines.
fn verdicts_list_every_trace() {
    let reports = reports();
    let listed: Vec<&String> = reports.keys().filter(|trace| is_listed(trace)).collect();
    if is_update() {
        let mut text = String::new();
        for trace in listed {
            writeln!(text, "{trace}: {}", line(&reports[trace])).unwrap();
        }
        std::fs::write(VERDICTS, text).unwrap();
        return;
    }
    let committed = committed();
    assert_eq!(listed, committed.keys().collect::<Vec<_>>(), "UPDATE=1 rewrites verdicts.txt");
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
