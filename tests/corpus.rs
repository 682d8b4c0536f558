//! The shipped rules over every real trace of the corpus: no panic, and no finding that nobody has
//! read. The snapshot is one line a trace; its diff is the review of a change to rules or views.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "corpus/base_rates.rs"]
mod base_rates;
#[path = "corpus/case_studies.rs"]
mod case_studies;
#[path = "corpus/coverage.rs"]
mod coverage;
#[path = "corpus/gains.rs"]
mod gains;
#[path = "support/corpus.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::OnceLock;

use cli::rates::runs_below;
use rayon::prelude::*;
use support::{corpus, runs};
use trace_advisor::analyses::catalog;
use trace_advisor::{Report, Run, default_rules};

/// What the shipped rules say of each run, by its name below the folder of traces; or what went wrong.
type Reports = BTreeMap<String, Result<Report, String>>;

/// All runs of the corpus, judged once.
fn reports() -> Option<&'static Reports> {
    static REPORTS: OnceLock<Option<Reports>> = OnceLock::new();
    let judged = REPORTS.get_or_init(|| {
        let traces = corpus()?.join("traces");
        let runs = runs_below(&traces).unwrap();
        let name = |run: &Path| run.strip_prefix(&traces).unwrap().display().to_string();
        Some(runs.par_iter().map(|run| (name(run), check(run, &name(run)))).collect())
    });
    judged.as_ref()
}

/// Errors name the run as it is called, wherever the corpus is.
fn check(run: &Path, name: &str) -> Result<Report, String> {
    let path = run.display().to_string();
    let report = Run::open(run).and_then(|run| run.check(&default_rules()));
    report.map_err(|error| error.to_string().replace(&path, name))
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

#[test]
fn every_trace_is_judged() {
    let Some(reports) = reports() else { return };
    let mut text = String::new();
    for (name, report) in reports {
        // What trainers record is in the tests of its format.
        if !name.starts_with("composer") && !name.starts_with("determined") {
            writeln!(text, "{name}: {}", line(report)).unwrap();
        }
    }
    insta::assert_snapshot!("corpus", text);
}

#[test]
fn data_loading_comes_first_where_it_is_the_cause() {
    let Some(reports) = reports() else { return };
    let report = reports["resnet50_workers0"].as_ref().unwrap();
    let first = &report.findings[0];
    assert_eq!(first.code, "IN001");
    assert_eq!(report.headline.first.as_deref(), Some("IN001"));
    assert!((0.30..0.45).contains(&first.value), "{}", first.value);
    assert_eq!(first.threshold, "> 20 %");
    assert!(first.gain.high_pct.unwrap() > 25.0);
    assert!(first.advice[0].contains("num_workers"), "{}", first.advice[0]);

    let report = reports["resnet50_workers4"].as_ref().unwrap();
    assert!(report.findings.iter().all(|f| f.code != "IN001"));
    assert!(report.passed.contains(&"IN001".to_owned()));
}

/// HTA fails in a quarter of its calls over such traces. We give rows, or say why there are none.
#[test]
fn every_analysis_answers_on_every_trace() {
    let Some(corpus) = corpus() else { return };
    let mute: BTreeSet<String> = runs(&corpus.join("traces"))
        .par_iter()
        .filter_map(|path| Some((path, Run::open(path).ok()?)))
        .flat_map_iter(|(path, run)| {
            catalog().views().iter().filter_map(move |module| {
                let name = &module.name;
                let rows = run.analyze(name);
                let rows = rows.unwrap_or_else(|e| panic!("{name} on {}: {e}", path.display()));
                let is_empty = rows.iter().all(|batch| batch.num_rows() == 0);
                let is_mute = module.when_empty.is_empty() && module.area() != "prelude";
                (is_empty && is_mute).then(|| name.clone())
            })
        })
        .collect();
    assert_eq!(mute, BTreeSet::new(), "without rows, and without a word why");
}
