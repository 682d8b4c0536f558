//! Damaged traces and events with wrong times: results do not change, and `check` fails on traces that it cannot judge.

use std::process::Output;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::support::sandbox::Sandbox;

/// The first trace of the small run.
const TRACE: &str = "run/rank0.pt.trace.json";

/// Creates a sandbox with the small run. Edits its first trace and removes the other rank.
fn with_edited(edit: impl FnOnce(&mut Vec<Value>)) -> Sandbox {
    let sandbox = Sandbox::with_run();
    let mut names: Vec<_> =
        sandbox.path("run").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let packed = std::fs::File::open(&names[0]).unwrap();
    let mut trace: Value = serde_json::from_reader(GzDecoder::new(packed)).unwrap();
    edit(trace["traceEvents"].as_array_mut().unwrap());
    for name in &names {
        std::fs::remove_file(name).unwrap();
    }
    sandbox.write(TRACE, trace.to_string());
    sandbox
}

fn kernels(events: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    events.iter_mut().filter(|event| event["cat"] == "kernel")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the parts of a report about the profiled program.
fn judgement(mut report: Value) -> Value {
    let report = report.as_object_mut().unwrap();
    for about_reading in ["warnings", "damaged_files", "run"] {
        report.remove(about_reading);
    }
    // TQ007 reports the dropped events.
    report["findings"].as_array_mut().unwrap().retain(|finding| finding["code"] != "TQ007");
    for finding in report["findings"].as_array_mut().unwrap() {
        finding.as_object_mut().unwrap().remove("position");
    }
    for list in ["passed", "unknown"] {
        report[list].as_array_mut().unwrap().retain(|rule| *rule != "TQ007");
    }
    Value::Object(report.clone())
}

#[test]
fn wrong_durations_and_far_events_change_nothing() {
    let whole = with_edited(|_| ()).run(&["check", "run", "-f", "json"]);
    let expected = judgement(report(&whole));
    assert!(!expected["findings"].as_array().unwrap().is_empty());
    let mut added = Vec::new();
    let sandbox = with_edited(|events| {
        let like = kernels(events).next().unwrap().clone();
        for (key, value) in [("dur", json!(9e15)), ("dur", json!(4.6e15)), ("ts", json!(1e15))] {
            let mut wrong = like.clone();
            wrong["args"]["correlation"] = json!(900_000_000 + added.len());
            wrong[key] = value;
            added.push(wrong);
        }
        events.extend(added.clone());
    });
    let output = sandbox.run(&["check", "run", "-f", "json"]);
    assert_eq!(output.status.code(), whole.status.code(), "{}", stderr(&output));
    let report = report(&output);
    let codes: Vec<_> = report["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| (warning["code"].as_str().unwrap(), warning["count"].as_u64().unwrap()))
        .filter(|(code, _)| *code != "missing-ranks")
        .collect();
    assert_eq!(codes, [("bad-time", 2), ("far-event", 1)]);
    assert_eq!(judgement(report), expected);
}

/// Adds a kernel without an end to the stream of the other kernels.
#[test]
fn kernel_over_all_others_of_its_stream_changes_nothing() {
    let whole = with_edited(|_| ()).run(&["check", "run", "-f", "json"]);
    let expected = judgement(report(&whole));
    let sandbox = with_edited(|events| {
        let mut wrong = kernels(events).next().unwrap().clone();
        let end_us =
            kernels(events).map(|k| k["ts"].as_f64().unwrap() + k["dur"].as_f64().unwrap());
        let end_us = end_us.fold(0.0, f64::max);
        let ts_us = wrong["ts"].as_f64().unwrap() - 1.0;
        wrong["ts"] = json!(ts_us);
        wrong["dur"] = json!(end_us - ts_us);
        wrong["args"]["correlation"] = json!(900_000_000);
        events.push(wrong);
    });
    let output = sandbox.run(&["check", "run", "-f", "json"]);
    assert_eq!(output.status.code(), whole.status.code(), "{}", stderr(&output));
    let report = report(&output);
    let warnings = report["warnings"].as_array().unwrap();
    assert!(
        warnings.iter().any(|w| w["code"] == "enclosing-work" && w["count"] == 1),
        "{warnings:?}"
    );
    assert_eq!(judgement(report), expected);
}

#[test]
fn kernel_of_a_thousand_seconds_is_told() {
    // The kernel is alone on its stream. Other kernels on the stream would show that its times are wrong.
    let sandbox = with_edited(|events| {
        let kernel = kernels(events).next().unwrap();
        kernel["dur"] = json!(1e9);
        kernel["args"]["stream"] = json!(99);
        kernel["tid"] = json!(99);
    });
    let output = sandbox.run(&["check", "run", "-f", "json", "--all"]);
    let report = report(&output);
    assert_eq!(report["recording"]["kind"], "outlier-times");
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["code"] == "TQ014"));
    let high = findings.iter().filter(|finding| finding["confidence"] == "high");
    let high: Vec<_> = high.map(|finding| &finding["code"]).collect();
    assert!(high.iter().all(|code| code.as_str().unwrap().starts_with("TQ")), "{high:?}");
    let text = sandbox.run(&["check", "run"]);
    let text = String::from_utf8(text.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("alone makes the recording 1000 s long"), "{text}");
}

#[test]
fn truncated_traces_are_judged_only_on_request() {
    let sandbox = with_edited(|_| ());
    let whole = std::fs::read(sandbox.path(TRACE)).unwrap();
    sandbox.write(TRACE, &whole[..whole.len() * 6 / 10]);
    let output = sandbox.run(&["check", "run"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!output.stdout.is_empty(), "the report on the rest is printed");
    let error = stderr(&output);
    assert!(error.contains("error: run is damaged"), "{error}");
    assert!(error.contains("the file is truncated"), "{error}");
    assert!(error.contains("--allow-damaged"), "{error}");
    let allowed = sandbox.run(&["check", "run", "--allow-damaged"]);
    // The cut leaves the operators of all steps, but only the launches of the first step, and not all its kernels: no step counts,
    // and no finding is severe enough to fail.
    assert_eq!(allowed.status.code(), Some(0), "{}", stderr(&allowed));
    assert_eq!(allowed.stdout, output.stdout);
    let json = report(&sandbox.run(&["check", "run", "-f", "json", "--exit-zero"]));
    assert_eq!(json["damaged_files"][0]["is_truncated"], true);
    let other = with_edited(|_| ());
    let before = other.path("run");
    let diff = |more: &[&str]| {
        let arguments = [&["diff", before.to_str().unwrap(), "run"], more].concat();
        sandbox.run(&arguments)
    };
    assert_eq!(diff(&["--steps", "3"]).status.code(), Some(2));
    assert_eq!(diff(&["--steps", "3", "--allow-damaged"]).status.code(), Some(0));
    let without_selection = diff(&["--allow-damaged"]);
    assert_eq!(without_selection.status.code(), Some(2));
    let error = stderr(&without_selection);
    assert!(error.contains("the run after has no step to compare"), "{error}");
}

#[test]
fn invalid_events_are_damage_beyond_one_percent() {
    let spoil = |share: usize| {
        with_edited(|events| {
            let count = events.len() / share;
            let timed = events.iter_mut().filter(|event| event["cat"] == "cpu_op");
            timed.take(count).for_each(|event| event["dur"] = json!(-1));
        })
        .run(&["check", "run"])
    };
    assert_eq!(spoil(200).status.code(), Some(1));
    let output = spoil(50);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("(2 %) are invalid"), "{}", stderr(&output));
}

#[test]
fn traces_without_a_usable_event_are_not_a_pass() {
    let sandbox = with_edited(|events| {
        let timed = events.iter_mut().filter(|event| event["ph"] == "X");
        timed.for_each(|event| event["dur"] = json!("NaN"));
    });
    assert_eq!(sandbox.run(&["check", "run"]).status.code(), Some(2));
    assert_eq!(sandbox.run(&["check", "run", "--exit-zero"]).status.code(), Some(2));
}
