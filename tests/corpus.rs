//! The shipped rules over every real trace of the corpus: no panic, and no finding that nobody has
//! read. The snapshot is one line a trace; its diff is the review of a change to rules or views.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use rayon::prelude::*;
use support::{corpus, runs};
use trace_advisor::analyses::catalog;
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};
use trace_advisor::{Report, Run, default_rules};

fn check(run: &Path) -> Result<Report, String> {
    Run::open(run).and_then(|run| run.check(&default_rules())).map_err(|e| e.to_string())
}

fn line(run: &Path) -> String {
    let report = match check(run) {
        Ok(report) => report,
        Err(error) => {
            let name = run.to_string_lossy();
            return format!("error: {}", error.replace(&*name, "RUN").lines().next().unwrap_or(""));
        }
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
    let Some(corpus) = corpus() else { return };
    let traces = corpus.join("traces");
    let mut text = String::new();
    for run in runs(&traces) {
        let name = run.strip_prefix(&traces).unwrap().display().to_string();
        // Formats that are not read yet: they must not crash anything, what they give is not kept.
        if name.starts_with("composer") || name.starts_with("determined") {
            let _ = line(&run);
            continue;
        }
        writeln!(text, "{name}: {}", line(&run)).unwrap();
    }
    insta::assert_snapshot!("corpus", text);
}

#[test]
fn data_loading_comes_first_where_it_is_the_cause() {
    let Some(corpus) = corpus() else { return };
    let report = check(&corpus.join("traces/resnet50_workers0")).unwrap();
    let first = &report.findings[0];
    assert_eq!(first.code, "IN001");
    assert_eq!(report.headline.first.as_deref(), Some("IN001"));
    assert!((0.30..0.45).contains(&first.value), "{}", first.value);
    assert_eq!(first.threshold, "> 20 %");
    assert!(first.gain.high_pct.unwrap() > 25.0);
    assert!(first.advice[0].contains("num_workers"), "{}", first.advice[0]);

    let report = check(&corpus.join("traces/resnet50_workers4")).unwrap();
    assert!(report.findings.iter().all(|f| f.code != "IN001"));
    assert!(report.passed.contains(&"IN001".to_owned()));
}

/// The estimate against what the fix did: the same job was recorded with loader workers.
#[test]
fn the_predicted_step_is_the_one_measured_after_the_fix() {
    let Some(corpus) = corpus() else { return };
    let median = |run: &Run| {
        let batches = run.sql("SELECT median_ns FROM step_time_summary").unwrap();
        let column = cast(batches[0].column(0), &DataType::Float64).unwrap();
        column.as_primitive::<Float64Type>().value(0) / 1e6
    };
    let before = Run::open(corpus.join("traces/resnet50_workers0")).unwrap();
    let after = Run::open(corpus.join("traces/resnet50_workers4")).unwrap();
    let report = before.check(&default_rules()).unwrap();
    let saved = report.findings[0].gain.ms_per_step.unwrap();
    let predicted = median(&before) - saved;
    let measured = median(&after);
    let error = predicted / measured - 1.0;
    assert!(error.abs() < 0.1, "predicted {predicted:.1} ms, measured {measured:.1} ms");
}

/// HTA fails in a quarter of its calls over such traces. We give rows, or say why there are none.
#[test]
fn every_analysis_answers_on_every_trace() {
    let Some(corpus) = corpus() else { return };
    let mute: BTreeSet<String> = runs(&corpus.join("traces"))
        .par_iter()
        .filter_map(|path| Some((path, Run::open(path).ok()?)))
        .flat_map_iter(|(path, run)| {
            catalog().modules().iter().filter_map(move |module| {
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
