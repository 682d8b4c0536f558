//! Comparisons of memory: snapshots of programs that differ in one known way (`tests/fixtures/memory/planted`), and
//! traces with allocator events.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use trace_advisor::Run;
use trace_advisor::compare::{Diff, MemoryDiff, Outcome, Unit};
use trace_demo::Bottleneck;

use super::{codes, compare, demo, judge, sums};
use crate::support::sandbox::Sandbox;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/memory").join(path)
}

fn planted(program: &str) -> PathBuf {
    fixture(&format!("planted/{program}.pickle.gz"))
}

fn open(program: &str) -> Run {
    Run::open(planted(program)).unwrap()
}

/// The peak that the allocator counted.
fn peak(program: &str) -> i64 {
    let text = std::fs::read(fixture("planted/planted.json")).unwrap();
    let json: Json = serde_json::from_slice(&text).unwrap();
    json["peaks_bytes"][program].as_i64().unwrap()
}

/// The comparison of two programs, whose owners have to add up.
fn memory_of(before: &str, after: &str) -> (Diff, MemoryDiff) {
    let diff = compare(&open(before), &open(after));
    let memory = diff.memory.clone().unwrap();
    for device in &memory.devices {
        let holders: Vec<_> = memory.holders_of(device).collect();
        assert_eq!(holders.iter().map(|h| h.before_bytes).sum::<i64>(), device.before_bytes);
        assert_eq!(holders.iter().map(|h| h.after_bytes).sum::<i64>(), device.after_bytes);
    }
    (diff, memory)
}

#[test]
fn snapshots_are_compared_by_owner_and_place() {
    let (diff, memory) = memory_of("activations_checkpointed", "activations");
    assert_eq!(diff.summary.unit, Unit::Memory);
    assert_eq!(diff.verdict.outcome, Outcome::Regression, "{}", diff.verdict.reason);
    let [device] = memory.devices.as_slice() else { panic!("{:?}", memory.devices) };
    let peaks = (device.before_bytes, device.after_bytes);
    assert_eq!(peaks, (peak("activations_checkpointed"), peak("activations")));
    let (owner, before, after) = &memory.owners(device)[0];
    assert_eq!(owner, "activation");
    assert!(after - before > 30_000_000, "{before} {after}");
    let place = memory.holders[0].place.as_deref().unwrap();
    assert!(place.starts_with("planted.py:"), "{place}");
    let (before, after) = (open("activations_checkpointed"), open("activations"));
    assert_eq!(codes(&judge(&diff, &before, &after)), ["RG003"]);

    let (back, _) = memory_of("activations", "activations_checkpointed");
    assert_eq!(back.verdict.outcome, Outcome::Improvement, "{}", back.verdict.reason);
    assert_eq!(codes(&judge(&back, &after, &before)), [""; 0]);
    let (same, _) = memory_of("activations", "activations");
    assert_eq!(same.verdict.outcome, Outcome::Unchanged, "{}", same.verdict.reason);
}

/// Two batches tell the peak of a third.
#[test]
fn two_batches_separate_what_is_fixed() {
    let (_, memory) = memory_of("activations_half_batch", "activations");
    let batch = memory.devices[0].batch.unwrap();
    assert!((batch.batch_ratio - 2.0).abs() < 1e-4, "{batch:?}");
    let quarter = batch.fixed_bytes as f64 + 0.5 * batch.batch_bytes as f64;
    let measured = peak("activations_quarter_batch") as f64;
    assert!((quarter / measured - 1.0).abs() < 0.005, "{quarter} {measured}");
    let (_, memory) = memory_of("optimizer_state_none", "optimizer_state");
    assert_eq!(memory.devices[0].batch, None, "the batch is the same");
}

#[test]
fn traces_with_allocator_events_are_compared_by_memory_too() {
    let run = demo(Bottleneck::None, false);
    let diff = compare(&run, &run);
    assert_ne!(diff.summary.unit, Unit::Memory);
    let memory = diff.memory.unwrap();
    let peaks = sums(
        &run,
        "SELECT rank, device, peak_allocated_bytes FROM memory_summary WHERE peak_allocated_bytes IS NOT NULL",
    );
    assert_eq!(memory.devices.len(), peaks.len());
    for device in &memory.devices {
        let recorded = peaks[&(i64::from(device.rank), i64::from(device.device))];
        assert_eq!((device.before_bytes, device.after_bytes), (recorded, recorded));
    }
}

#[test]
fn a_snapshot_and_a_trace_without_memory_have_nothing_in_common() {
    let sandbox = Sandbox::new();
    let (snapshot, trace) = (planted("activations"), fixture("../cpu/small_graph.json.gz"));
    let output = sandbox.run(&["diff", trace.to_str().unwrap(), snapshot.to_str().unwrap()]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("no events with a time"), "{stderr}");
}

#[test]
fn memory_that_grows_fails_the_command() {
    let sandbox = Sandbox::new();
    let [small, large] =
        ["activations_half_batch", "activations"].map(|p| planted(p).to_str().unwrap().to_owned());
    let run = |before: &str, after: &str, options: &[&str]| {
        let output = sandbox.run(&[&["diff", before, after][..], options].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(run(&small, &large, &[]).0, Some(0));
    assert_eq!(run(&small, &large, &["--fail-on", "regression"]).0, Some(1));
    assert_eq!(run(&small, &large, &["--fail-on-memory", "10"]).0, Some(1));
    assert_eq!(run(&small, &large, &["--fail-on-memory", "200"]).0, Some(0));
    assert_eq!(run(&large, &small, &["--fail-on-memory", "0"]).0, Some(0));
    let (code, text) = run(&small, &large, &["-f", "junit", "--fail-on-memory", "10"]);
    assert_eq!(code, Some(1));
    assert!(text.contains(r#"name="peak memory""#) && text.contains("<failure"), "{text}");
    let (_, json) = run(&small, &large, &["-f", "json"]);
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(json["unit"], "memory");
    assert_eq!(json["memory"]["devices"][0]["moment"], "peak");
    let (_, csv) = run(&small, &large, &["-f", "csv"]);
    assert!(csv.starts_with("rank,memory,owner,place,before_place,before_bytes"), "{csv}");
    for format in ["markdown", "github"] {
        let (_, text) = run(&small, &large, &["-f", format]);
        assert!(text.contains("activation"), "{format}: {text}");
    }
}

/// The first screen of a comparison of snapshots, at two widths.
#[test]
fn snapshots_are_compared_on_a_screen() {
    let sandbox = Sandbox::new();
    for program in ["activations_half_batch", "activations"] {
        let to = sandbox.path(&format!("{program}.pickle.gz"));
        std::fs::copy(planted(program), to).unwrap();
    }
    let text = sandbox.transcript(&[
        "diff",
        "activations_half_batch.pickle.gz",
        "activations.pickle.gz",
        "--limit",
        "4",
    ]);
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
        prepend_module_to_snapshot => false,
    }, { insta::assert_snapshot!("diff_memory", text) });
}
