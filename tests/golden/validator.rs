//! Compares our rules about trace quality with the six checks of PyTorch's own validator (`torch.profiler._trace_validator`,
//! 2.15), on each trace of the corpus and on one damaged trace per check.
//!
//! `validator/validate.py` computes `validator/counts.json`. Known differences, besides those in `EXCEPTIONS`:
//!
//! * The validator links a kernel and its launch by `External id`, the id of an operator, and checks only the first kernel and
//!   launch of each id; we link by correlation. So the counts of this check differ.
//! * The validator treats sequence numbers as unique in the process. PyTorch and we count them per thread of the forward pass.
//! * The validator reports a violation for each kernel that runs when a wait for a stream is recorded; we count the wait once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use trace_advisor::{Report, Run, default_rules};

use crate::harness::{self, Case, functions};
use crate::runs;
use crate::support::corpus::corpus;
use crate::support::rows::{Row, rows};

const CHECKED: &str = "validator: traces";

/// A check of the validator, the column that counts the same flaws, and the rules that report them.
struct Check {
    name: &'static str,
    column: &'static str,
    codes: &'static [&'static str],
    has_same_counts: bool,
}

const CHECKS: [Check; 6] = [
    Check {
        name: "_check_gpu_kernel_causality",
        column: "early_count",
        codes: &["TQ009"],
        has_same_counts: false,
    },
    Check {
        name: "_check_stream_wait_corr_id_populated",
        column: "unknown_record_count",
        codes: &["TQ017"],
        has_same_counts: true,
    },
    Check {
        name: "_check_stream_sync_overlap",
        column: "early_wait_count",
        codes: &["TQ017"],
        has_same_counts: false,
    },
    Check {
        name: "_check_stream_wait_corr_id_in_past",
        column: "wrong_record_count",
        codes: &["TQ017"],
        has_same_counts: true,
    },
    // TQ006 reports that no collective has a description, TQ017 that some have none.
    Check {
        name: "_check_nccl_metadata",
        column: "bare_collective_count",
        codes: &["TQ006", "TQ017"],
        has_same_counts: true,
    },
    Check {
        name: "_check_backward_seq_id_uniqueness",
        column: "shared_backward_count",
        codes: &["TQ017"],
        has_same_counts: true,
    },
];

/// Folders whose traces differ in a check, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 4] = [
    (
        "_check_backward_seq_id_uniqueness",
        "inputs/writers_2026/pg_kineto",
        "our demo writes a sequence number into the events of AccumulateGrad, where PyTorch writes none; we ignore it",
    ),
    (
        "_check_gpu_kernel_causality",
        "inputs/writers_2026/pg_kineto",
        "copies start before their launch; the validator checks only kernels",
    ),
    ("_check_gpu_kernel_causality", "traces/generated/synth_full_kernel", NO_EXTERNAL_ID),
    ("_check_gpu_kernel_causality", "traces/generated/synth_priority", NO_EXTERNAL_ID),
];

const NO_EXTERNAL_ID: &str =
    "the trace has no `External id`, by which the validator finds the launch of a kernel";

const COUNTS: &str = include_str!("validator/counts.json");
const BREAKS: &str = include_str!("validator/breaks.json");

pub(crate) fn cases() -> Vec<Case> {
    harness::require(CHECKED, 60);
    let mut folders: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for (file, found) in parsed(COUNTS)["traces"].as_object().unwrap() {
        let (folder, name) = file.rsplit_once('/').unwrap();
        folders.entry(folder.to_owned()).or_default().insert(name.to_owned(), found.clone());
    }
    let mut cases: Vec<Case> = folders
        .into_iter()
        .map(|(folder, files)| {
            let trace = folder.strip_prefix("traces/").unwrap_or(&folder).to_owned();
            Case::of_trace(&trace, "validator", move || traces_agree(&folder, &files))
        })
        .collect();
    cases.extend(functions![damaged_traces_are_told_by_the_rule_of_their_check]);
    cases
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the counts of the checks for each rank, with the file of the rank.
fn counted(run: &Run) -> Vec<Row> {
    let query = "SELECT r.file, l.*, coalesce(t.early_count, 0) AS early_count
        FROM trace_links l
        JOIN ranks r ON r.rank = l.rank
        LEFT JOIN trace_timing t ON t.rank = l.rank";
    rows(run, query)
}

fn count(row: &Row, column: &str) -> u64 {
    row[column].as_f64().unwrap() as u64
}

fn fires(report: &Report, codes: &[&str]) -> bool {
    report.findings.iter().any(|finding| codes.contains(&finding.code.as_str()))
}

fn traces_agree(folder: &str, files: &BTreeMap<String, Value>) {
    let path = corpus().join(folder);
    let Ok(shared) = runs::try_open(&path) else { return };
    let report = runs::report(&path);
    let mut differences = Vec::new();
    for row in counted(&shared.run) {
        let file = row["file"].as_str().unwrap();
        let Some(found) = files.get(file).filter(|found| found.get("error").is_none()) else {
            continue;
        };
        harness::count(CHECKED, 1);
        for check in &CHECKS {
            let (ours, theirs) =
                (count(&row, check.column), found[check.name].as_u64().unwrap_or(0));
            let is_exception =
                EXCEPTIONS.iter().any(|&(name, of, _)| name == check.name && of == folder);
            let agrees =
                if check.has_same_counts { ours == theirs } else { (ours > 0) == (theirs > 0) };
            let is_told = theirs == 0
                || report.as_ref().as_ref().is_ok_and(|report| fires(report, check.codes));
            if (agrees && is_told) == is_exception {
                differences.push(format!("{folder}/{file} {}: {ours}, not {theirs}", check.name));
            }
        }
    }
    assert!(differences.is_empty(), "\n{}", harness::first_lines(&differences));
}

/// Returns whether an event has all `wanted` values.
fn matches(event: &Value, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| match value.as_object() {
        Some(inside) => event.get(key).is_some_and(|event| matches(event, inside)),
        None => event.get(key) == Some(value),
    })
}

/// Returns a trace with the change that an entry of `breaks.json` describes.
fn damaged(change: &Value) -> Value {
    let path: PathBuf = corpus().join(change["trace"].as_str().unwrap());
    let text = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
    let mut trace: Value = serde_json::from_reader(std::io::BufReader::new(text)).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let wanted = change["event"].as_object().unwrap();
    let event = events.iter_mut().find(|event| matches(event, wanted)).unwrap();
    for (key, added) in change.get("add").and_then(Value::as_object).into_iter().flatten() {
        event[key] = (event[key].as_f64().unwrap() + added.as_f64().unwrap()).into();
    }
    for (key, value) in change.get("set_args").and_then(Value::as_object).into_iter().flatten() {
        let args = event["args"].as_object_mut().unwrap();
        match value {
            Value::Null => drop(args.remove(key)),
            value => drop(args.insert(key.clone(), value.clone())),
        }
    }
    trace
}

fn damaged_traces_are_told_by_the_rule_of_their_check() {
    let changes = parsed(BREAKS);
    let broken = parsed(COUNTS)["broken"].clone();
    assert_eq!(changes.as_array().unwrap().len(), CHECKS.len());
    for change in changes.as_array().unwrap() {
        let name = change["check"].as_str().unwrap();
        assert!(broken[name][name].as_u64() > Some(0), "{name}: the validator does not report it");
        let folder = tempfile::tempdir().unwrap();
        let path: &Path = &folder.path().join("trace.json");
        std::fs::write(path, damaged(change).to_string()).unwrap();
        let run = Run::open(path).unwrap();
        let report = run.check(&default_rules()).unwrap();
        let row = counted(&run).swap_remove(0);
        for check in &CHECKS {
            let theirs = broken[name][check.name].as_u64().unwrap_or(0);
            let ours = count(&row, check.column);
            assert_eq!(ours > 0, theirs > 0, "{name}, {}: {ours}, not {theirs}", check.name);
            if check.name == name {
                assert!(fires(&report, check.codes), "{name}: none of {:?} fires", check.codes);
            }
        }
    }
}
