//! Estimates of gains against what the fix did, where a trace of the fixed program exists.

use trace_advisor::advisor::{Confidence, Finding};
use trace_advisor::ingest::{NoProgress, Options as Reading};
use trace_advisor::{OpenOptions, Report, Run, default_rules};

use crate::harness::{Case, functions};
use crate::runs;
use crate::support::rows;

pub(super) fn cases() -> Vec<Case> {
    functions![
        predicted_steps_are_measured_with_loader_workers,
        remaining_waits_are_found_with_few_workers,
        gain_that_did_not_come_has_low_confidence,
    ]
}

/// A report, with the length of a step on the slowest rank.
struct Judged {
    report: Report,
    median_ms: f64,
    mean_ms: f64,
}

fn judged(run: &Run, report: Report) -> Judged {
    let query = "SELECT max(median_ns), max(mean_ns) FROM step_time_summary";
    let ns = rows::numbers(&run.sql(query).unwrap());
    Judged { report, median_ms: ns[0][0] / 1e6, mean_ms: ns[0][1] / 1e6 }
}

impl Judged {
    fn finding(&self, code: &str) -> Option<&Finding> {
        self.report.findings.iter().find(|f| f.code == code)
    }

    /// The step time saved if the cause that `code` found is removed.
    fn saves_ms(&self, code: &str) -> f64 {
        self.finding(code).and_then(|f| f.gain.ms_per_step).unwrap_or(0.0)
    }

    /// The same as a share of the recorded step, where a fix was timed: both recordings were made with the profiler.
    fn saves_recorded_ms(&self, code: &str) -> f64 {
        let fix = self.finding(code).and_then(|finding| finding.fixes.first());
        fix.map_or_else(|| self.saves_ms(code), |fix| self.median_ms * fix.alone_pct.mid / 100.0)
    }

    /// The step time that the cause takes, whatever a fix brings.
    fn loses_ms(&self, code: &str) -> f64 {
        let share_pct = self.finding(code).and_then(|f| f.gain.share_pct);
        self.mean_ms * share_pct.unwrap_or(0.0) / 100.0
    }
}

/// `measured` and what was predicted for it, at most `tolerance` apart.
fn close(name: &str, predicted: f64, measured: f64, tolerance: f64) {
    let error = predicted / measured - 1.0;
    assert!(
        error.abs() < tolerance,
        "{name}: predicted {predicted:.2} ms, measured {measured:.2} ms, {:+.1} %",
        100.0 * error
    );
}

fn opened(trace: &str) -> Judged {
    let report = runs::report(&runs::traces().join(trace)).as_ref().clone().unwrap();
    judged(&runs::open(trace).run, report)
}

/// The same jobs without workers, and with as many as keep up.
fn predicted_steps_are_measured_with_loader_workers() {
    for (before, after) in [
        ("resnet50_workers0", "resnet50_workers4"),
        ("composer/workers0/plain", "composer/workers2/plain"),
        ("composer/workers0/torch", "composer/workers2/torch"),
    ] {
        let (before, after, name) = (opened(before), opened(after), before);
        let predicted = before.median_ms - before.saves_recorded_ms("IN001");
        close(name, predicted, after.median_ms, 0.10);
    }
}

/// If two workers are not enough, the remaining wait is a finding, and without it a step would take
/// what was predicted. The mean: these steps come in two lengths.
fn remaining_waits_are_found_with_few_workers() {
    let mut pairs: Vec<(String, Judged, Judged)> = Vec::new();
    for release in ["0.5.0", "0.8.2"] {
        let name = format!("composer/legacy_{release}");
        let before = opened(&format!("{name}/workers0"));
        let after = opened(&format!("{name}/workers2"));
        pairs.push((name, before, after));
    }
    let trial = |trial: i64| {
        let ingest = Reading { trial: Some(trial), ..Reading::default() };
        let options = OpenOptions { ingest, ..OpenOptions::default() };
        let path = runs::traces().join("determined/old_generation");
        let run = Run::open_with(path, &options, &NoProgress).unwrap();
        let report = run.check(&default_rules()).unwrap();
        judged(&run, report)
    };
    pairs.push(("determined".to_owned(), trial(101), trial(102)));
    for (name, before, after) in pairs {
        let predicted = before.mean_ms - before.saves_ms("IN001");
        assert!(predicted < after.mean_ms, "{name}: more than was promised came back");
        assert!(after.finding("IN001").is_some(), "{name}: still waits");
        close(&name, predicted, after.mean_ms - after.loses_ms("IN001"), 0.2);
    }
}

/// On a CPU, workers take the cores that the model runs on: the fix made this run slower.
fn gain_that_did_not_come_has_low_confidence() {
    let before = opened("generated/cpu_resnet_nw0");
    let after = opened("generated/cpu_resnet_nw2");
    assert!(after.median_ms > 0.95 * before.median_ms, "it did come");
    let confidence = before.finding("IN001").map(|f| f.confidence);
    assert_eq!(confidence.unwrap_or(Confidence::Low), Confidence::Low);
}
