//! Incomplete or distorted recordings: the profiler lost GPU work, or added time to it. Rules report the missing work, and no
//! prediction includes it.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::TempDir;
use trace_advisor::{Report, Run, default_rules};
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::corpus::corpus;
use crate::support::rows::text_rows;

/// Returns a run of six steps on one rank, with only the events that `keep` accepts.
fn damaged(keep: impl Fn(&Value) -> bool) -> (TempDir, Run, Report) {
    edited(|events| events.retain(&keep))
}

/// Returns that run with the GPU work moved by `by_us` microseconds.
fn moved(by_us: f64) -> (TempDir, Run, Report) {
    edited(|events| {
        for event in events.iter_mut().filter(|event| is_of_device(event)) {
            event["ts"] = json!(time_us(event) + by_us);
        }
    })
}

fn edited(edit: impl Fn(&mut Vec<Value>)) -> (TempDir, Run, Report) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options { bottleneck: Bottleneck::DataLoading, steps: 6, ranks: 1, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    for entry in folder.path().read_dir().unwrap() {
        let path = entry.unwrap().path();
        let packed = GzDecoder::new(std::fs::File::open(&path).unwrap());
        let mut trace: Value = serde_json::from_reader(packed).unwrap();
        edit(trace["traceEvents"].as_array_mut().unwrap());
        let mut file = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
        file.write_all(trace.to_string().as_bytes()).unwrap();
        file.finish().unwrap();
    }
    judged(folder)
}

fn judged(folder: TempDir) -> (TempDir, Run, Report) {
    let run = Run::open(folder.path()).unwrap();
    let report = run.check(&default_rules()).unwrap();
    (folder, run, report)
}

fn is_of_device(event: &Value) -> bool {
    ["kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"]
        .iter()
        .any(|c| event["cat"] == **c)
}

/// Returns the start of an event; 0 if it has none.
fn time_us(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap_or_default()
}

fn codes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn has_gain(report: &Report) -> bool {
    report.findings.iter().any(|finding| finding.gain.high_pct.is_some_and(|pct| pct > 0.0))
}

/// Returns the starts of the steps of that run, in us.
fn marks() -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let options =
        Options { bottleneck: Bottleneck::DataLoading, steps: 6, ranks: 1, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    let path = folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
    let trace: Value =
        serde_json::from_reader(GzDecoder::new(std::fs::File::open(path).unwrap())).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let is_mark = |e: &&Value| {
        e["cat"] == "user_annotation"
            && e["name"].as_str().is_some_and(|name| name.starts_with("ProfilerStep#"))
    };
    let mut marks: Vec<f64> = events.iter().filter(is_mark).map(time_us).collect();
    marks.sort_by(f64::total_cmp);
    assert_eq!(marks.len(), 6);
    marks
}

fn busy_ratio(run: &Run) -> f64 {
    text_rows(run, "SELECT busy_ratio FROM gpu_utilization")[0].parse().unwrap()
}

fn counted_steps(run: &Run) -> Vec<String> {
    text_rows(run, "SELECT step FROM complete_steps WHERE is_counted ORDER BY step")
}

#[test]
fn steps_whose_kernels_were_lost_leave_the_window() {
    let marks = marks();
    let (_whole, whole_run, whole) = damaged(|_| true);
    assert!(!codes(&whole).contains(&"TQ015"));
    let all = counted_steps(&whole_run);
    for (name, first_us, last_us) in [("start", marks[2], f64::INFINITY), ("end", 0.0, marks[4])] {
        let (_folder, run, report) =
            damaged(|event| !is_of_device(event) || (first_us..last_us).contains(&time_us(event)));
        let note = report.findings.iter().find(|finding| finding.code == "TQ015");
        let note = note.unwrap_or_else(|| panic!("{name}: {:?}", codes(&report)));
        assert!(
            note.message.contains(if name == "start" { "in the first" } else { "in the last" }),
            "{}",
            note.message
        );
        let counted = counted_steps(&run);
        assert!(counted.len() >= 2 && counted.len() < all.len(), "{name}: {counted:?}");
        // The remaining steps lead to the same result as the whole recording.
        let (ours, expected) = (busy_ratio(&run), busy_ratio(&whole_run));
        assert!((ours - expected).abs() < 0.05, "{name}: {ours}, not {expected}");
        assert_eq!(report.headline.first, whole.headline.first, "{name}");
    }
}

#[test]
fn recordings_without_steps_begin_with_the_first_work() {
    let marks = marks();
    let is_mark = |event: &Value| {
        event["name"].as_str().is_some_and(|name| {
            name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.step")
        })
    };
    let (_folder, run, report) =
        damaged(|event| !is_mark(event) && (!is_of_device(event) || time_us(event) >= marks[3]));
    assert!(codes(&report).contains(&"TQ015"), "{:?}", codes(&report));
    let starts = text_rows(
        &run,
        "SELECT min(w.start_ns) >= min(k.launch_ts_ns) FROM device_windows w JOIN kernels k ON k.rank = w.rank",
    );
    assert_eq!(starts, ["true"]);
}

#[test]
fn recordings_that_lost_most_work_predict_nothing() {
    let marks = marks();
    let (_folder, _, report) = damaged(|event| !is_of_device(event) || time_us(event) < marks[1]);
    let recording = report.recording.as_ref().unwrap();
    assert_eq!(serde_json::to_value(recording.kind).unwrap(), "lost-work");
    assert!(recording.summary.contains("have no GPU activity"), "{}", recording.summary);
    assert!(codes(&report).contains(&"TQ015"));
    assert_eq!(report.headline.gain_high_pct, None);
}

/// Returns a run of steps of 9 ms, each with one launch of a graph. `kernels` returns the kernels of a step: start after the launch
/// and duration, both in us.
fn graph_steps(steps: i64, kernels: impl Fn(i64) -> Vec<(f64, f64)>) -> (TempDir, Run, Report) {
    let mut events = Vec::new();
    let mut push = |cat: &str, name: &str, tid: i64, ts: f64, dur: f64, args: Value| {
        events.push(json!({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}));
    };
    for step in 0..steps {
        let start_us = 1_000_000.0 + 9_000.0 * step as f64;
        push("user_annotation", &format!("ProfilerStep#{step}"), 1, start_us, 8_990.0, json!({}));
        push("cpu_op", "aten::copy_", 1, start_us + 1.0, 20.0, json!({"External id": step}));
        let correlation = 1_000 + step;
        push(
            "cuda_runtime",
            "hipGraphLaunch",
            1,
            start_us + 30.0,
            250.0,
            json!({"correlation": correlation}),
        );
        for (at, (ts_us, dur_us)) in kernels(step).into_iter().enumerate() {
            let args = json!({"device": 0, "stream": 7, "correlation": correlation, "grid": [2, 1, 1], "block": [64, 1, 1]});
            push("kernel", &format!("k{}", at % 5), 7, start_us + 300.0 + ts_us, dur_us, args);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = json!({"schemaVersion": 1, "traceEvents": events});
    std::fs::write(Path::new(folder.path()).join("rank0.json"), trace.to_string()).unwrap();
    judged(folder)
}

/// AMD-AGI/TraceLens#728: a profiler that traces the nodes of a graph adds equal gaps between the nodes.
#[test]
fn gaps_between_the_nodes_of_traced_replays_are_no_gain() {
    let equal = |_| (0..400).map(|node| (21.6 * f64::from(node), 16.0)).collect();
    let (_folder, run, report) = graph_steps(8, equal);
    assert!(codes(&report).contains(&"TQ016"), "{:?}", codes(&report));
    for code in ["HB005", "GU001"] {
        assert!(!codes(&report).contains(&code), "{:?}", codes(&report));
    }
    assert_eq!(text_rows(&run, "SELECT switch_count FROM gpu_idle_causes"), ["0"]);
    let note = report.findings.iter().find(|finding| finding.code == "TQ016").unwrap();
    assert!(note.advice.iter().any(|advice| advice.contains("--step-time")), "{:?}", note.advice);
    // Gaps of different lengths may be waits.
    let different = |_| {
        (0..400).map(|node| (20.0 * f64::from(node) + f64::from(node % 4) * 1.3, 14.0)).collect()
    };
    let (_folder, _, report) = graph_steps(8, different);
    assert!(!codes(&report).contains(&"TQ016"), "{:?}", codes(&report));
}

/// AMD-AGI/Hyperloom#1121: the profiler records only one of several replays.
#[test]
fn replays_of_which_one_in_ten_was_recorded_are_no_idle_time() {
    let of_step = |step: i64| {
        if step % 10 == 0 {
            (0..400).map(|node| (20.0 * f64::from(node), 19.9)).collect()
        } else {
            Vec::new()
        }
    };
    let (_folder, _, report) = graph_steps(60, of_step);
    assert!(codes(&report).contains(&"TQ003"), "{:?}", codes(&report));
    assert!(!has_gain(&report), "{:?}", codes(&report));
    assert!(!codes(&report).contains(&"GU001"), "{:?}", codes(&report));
}

/// sgl-project/sglang#31545: all kernels are recorded in one burst after the step annotations.
#[test]
fn kernels_in_a_burst_after_the_steps_predict_nothing() {
    let burst = |step: i64| {
        let after_us = 9_000.0 * (8 - step) as f64 + 20_000.0 + 1_000.0 * step as f64;
        (0..40).map(|node| (after_us + 20.0 * f64::from(node), 19.9)).collect()
    };
    let marks = marks();
    let behind_us = 2.0 * (marks[5] - marks[0]);
    for (_folder, _, report) in [graph_steps(8, burst), moved(behind_us)] {
        assert!(codes(&report).contains(&"TQ018"), "{:?}", codes(&report));
        let kind = report.recording.as_ref().unwrap().kind;
        assert_eq!(serde_json::to_value(kind).unwrap(), "work-in-a-burst");
        assert_eq!(report.headline.gain_high_pct, None);
    }
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn incomplete_or_distorted_inputs_of_the_corpus_are_told() {
    let inputs = corpus().join("inputs/writers_2026");
    let of = |name: &str| {
        let run = Run::open(inputs.join(name)).unwrap();
        let report = run.check(&default_rules()).unwrap();
        (run, report)
    };
    let (run, report) = of("startdrop");
    assert!(codes(&report).contains(&"TQ015"), "{:?}", codes(&report));
    assert_eq!(
        text_rows(&run, "SELECT DISTINCT step FROM complete_steps WHERE is_counted ORDER BY 1"),
        ["6", "7", "8"]
    );
    let whole = of("pg_kineto");
    assert_eq!(report.headline.first, whole.1.headline.first);
    // The copies of the two recordings take different times, their kernels the same.
    let kernels = |run: &Run| {
        text_rows(run, "SELECT kernel_busy_ratio FROM gpu_utilization")[0].parse::<f64>().unwrap()
    };
    assert!((kernels(&run) - kernels(&whole.0)).abs() < 0.01);
    let (run, report) = of("collapse");
    assert_eq!(serde_json::to_value(report.recording.as_ref().unwrap().kind).unwrap(), "lost-work");
    assert_eq!(report.headline.gain_high_pct, None);
    assert!(report.findings.iter().all(|finding| !finding.message.contains("malformed")));
    assert_eq!(text_rows(&run, "SELECT count(*) FROM kernels WHERE name = 'malformed'"), ["0"]);
    let (_, report) = of("hip_graph_gaps.json.gz");
    assert!(codes(&report).contains(&"TQ016") && !has_gain(&report), "{:?}", codes(&report));
    let (run, _) = of("snapshot_minimal.sqlite");
    assert_eq!(text_rows(&run, "SELECT event_count FROM snapshots"), ["0"]);
}
