//! Our views against what the PyTorch TensorBoard profiler plugin (last source) computed on the corpus:
//! steps extended to their device work, GPU utilization, SM efficiency and occupancy.
//!
//! What differs on purpose is listed in [`EXCEPTIONS`]; one that is no longer needed fails too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analyses::{Params, Session};
use serde_json::Value as Json;
use support::corpus;
use trace_model::Value;

/// The plugin holds times as doubles of microseconds.
const RELATIVE: f64 = 2e-6;
const SLACK_US: f64 = 0.6;

/// `(trace, view, reason)`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("generated/synth_modern_gpu_annotation", "step_time", COPIES),
    ("mi300_resnet_ddp", "step_time", COPIES),
    ("mi210_gpu_only", "step_time", NO_HOST),
    ("mi210_gpu_only", "gpu_utilization", NO_HOST),
    ("ns_resolution", "gpu_utilization", DOUBLES),
];

const COPIES: &str = "the plugin takes the device's copy of a step mark for another step";
const NO_HOST: &str = "without host events the plugin's window is inverted: -1.8e19 us";
const DOUBLES: &str =
    "absolute times in doubles: the plugin loses a quarter of a microsecond an event";

#[test]
fn views_agree_with_the_plugin() {
    let Some(corpus) = corpus() else { return };
    let golden = corpus.join("golden/tb_plugin");
    let mut differences: Vec<(String, &str, String)> = Vec::new();
    let mut compared = 0;
    for trace in traces(&golden) {
        let run = corpus.join("traces").join(&trace);
        let read = |name: &str| -> Json {
            let text = std::fs::read(golden.join(&trace).join(name)).unwrap_or_default();
            serde_json::from_slice(&text).unwrap_or_default()
        };
        let (metrics, overview) = (read("gpu_metrics.json"), read("overview.json"));
        let (Some(workers), true) = (metrics.as_object(), run.is_dir()) else { continue };
        for (worker, expected) in workers {
            // One file a worker, and `|2` is a second file: the corpus may hold only the first.
            let Some(file) = overview[worker]["trace_file"].as_str() else { continue };
            let Some(file) = find(&run, file) else { continue };
            let dataset =
                ingest::read_run(&file, &ingest::Options::default(), &ingest::NoProgress).unwrap();
            let session = Session::new(dataset.tables, Params::default()).unwrap();
            for (view, lines) in [
                ("step_time", steps(&session, &overview[worker]["steps"], &mut compared)),
                ("gpu_utilization", devices(&session, &expected["per_gpu"], &mut compared)),
            ] {
                differences.extend(lines.into_iter().map(|line| (trace.clone(), view, line)));
            }
        }
    }
    assert!(compared > 150, "only {compared} values compared: is the corpus complete?");

    let excused: BTreeSet<(&str, &str)> = EXCEPTIONS.iter().map(|&(t, v, _)| (t, v)).collect();
    let found: BTreeSet<(&str, &str)> =
        differences.iter().map(|(t, v, _)| (t.as_str(), *v)).collect();
    let unexpected: Vec<_> =
        differences.iter().filter(|(t, v, _)| !excused.contains(&(t.as_str(), *v))).collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    let obsolete: Vec<_> = excused.difference(&found).collect();
    assert!(obsolete.is_empty(), "agree now, remove the exceptions: {obsolete:?}");
}

/// Folders that hold the plugin's numbers, relative to `golden`; not those of the released wheel.
fn traces(golden: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![golden.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("gpu_metrics.json").is_file() {
            found.push(folder.strip_prefix(golden).unwrap().to_string_lossy().into_owned());
            continue;
        }
        let entries = std::fs::read_dir(&folder).unwrap();
        folders.extend(entries.map(|e| e.unwrap().path()).filter(|p| p.is_dir()));
    }
    found.sort();
    found
}

/// The trace of a worker. The plugin was given some traces under names it accepts.
fn find(run: &Path, file: &str) -> Option<PathBuf> {
    let exact = run.join(file);
    if exact.is_file() {
        return Some(exact);
    }
    let files: Vec<PathBuf> = std::fs::read_dir(run).ok()?.map(|e| e.unwrap().path()).collect();
    match files.as_slice() {
        [only] if !file.contains("worker0.16") => Some(only.clone()),
        _ => None,
    }
}

fn steps(session: &Session, expected: &Json, compared: &mut usize) -> Vec<String> {
    let Some(expected) = expected.as_array().filter(|steps| !steps.is_empty()) else {
        return Vec::new();
    };
    let theirs: Vec<f64> = expected
        .iter()
        .map(|s| s["end"].as_f64().unwrap_or(f64::NAN) - s["start"].as_f64().unwrap_or(f64::NAN))
        .collect();
    let ours: Vec<f64> =
        column(session, "step_time", "dur_ns").into_iter().flatten().map(|ns| ns / 1e3).collect();
    *compared += theirs.len();
    let agree = ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= SLACK_US + RELATIVE * b.abs());
    if agree { Vec::new() } else { vec![format!("steps: ours {ours:?}, theirs {theirs:?}")] }
}

fn devices(session: &Session, expected: &Json, compared: &mut usize) -> Vec<String> {
    let Some(expected) = expected.as_object() else { return Vec::new() };
    let ids = column(session, "gpu_utilization", "device");
    let mut lines = Vec::new();
    for (device, theirs) in expected {
        let row = ids.iter().position(|id| id.map(|id| id.to_string()) == Some(device.clone()));
        for (metric, name, scale) in [
            ("kernel_busy_ratio", "utilization", 1.0),
            ("sm_efficiency_ratio", "est_sm_efficiency", 1.0),
            ("occupancy_ratio", "est_achieved_occupancy_pct", 100.0),
        ] {
            let ours = row
                .and_then(|row| column(session, "gpu_utilization", metric)[row])
                .map(|v| v * scale);
            let theirs = theirs[name].as_f64();
            *compared += 1;
            let agree = match (ours, theirs) {
                (Some(a), Some(b)) => (a - b).abs() <= 10.0 * RELATIVE * b.abs().max(1.0),
                (a, b) => a.is_none() && b.is_none(),
            };
            if !agree {
                lines.push(format!("device {device} {name}: ours {ours:?}, theirs {theirs:?}"));
            }
        }
    }
    lines
}

/// Numbers of a column, in the view's own order.
fn column(session: &Session, view: &str, column: &str) -> Vec<Option<f64>> {
    let tables = session.metric_tables(&[view]).unwrap();
    let index = tables[0].index(column).unwrap();
    tables[0]
        .rows
        .iter()
        .map(|row| match &row[index] {
            Value::Null => None,
            value => value.as_f64(),
        })
        .collect()
}
