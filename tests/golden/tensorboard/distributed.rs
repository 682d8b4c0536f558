//! Distributed: computation and communication by step, waiting and data transfer, the table of collectives.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;
use trace_model::Value;

use super::{Area, Compare, Differences, RELATIVE, Run, SLACK_US};
use crate::runs::{self, SharedRun, Views};

pub(crate) const AREA: Area = Area {
    name: "distributed",
    golden: "distributed.json",
    comparisons: &[
        ("overlap", Compare::Run(overlap)),
        ("wait", Compare::Run(wait)),
        ("calls", Compare::Run(calls)),
        ("bytes", Compare::Run(bytes)),
        ("latency", Compare::Run(latency)),
        ("transfer", Compare::Run(transfer)),
    ],
    exceptions: &[
        ("diff_control", "overlap", NCCL_COMPUTES),
        ("diff_test", "overlap", NCCL_COMPUTES),
        ("mi300_resnet_ddp", "overlap", COPIES),
        ("nccl_rank", "overlap", NCCL_COMPUTES),
        ("ns_resolution", "overlap", NO_KERNELS),
        ("diff_control", "wait", ONE_RANK),
        ("diff_test", "wait", ONE_RANK),
        ("generated/synth_comm_10p1pct", "wait", ONE_RANK),
        ("generated/synth_comm_10pct", "wait", ONE_RANK),
        ("mi300_resnet_ddp", "wait", ONE_RANK),
        ("nccl_rank", "wait", ONE_RANK),
        ("ns_resolution", "wait", ONE_RANK),
        ("generated/ddp_gloo_2rank", "wait", NO_SHAPE),
        ("diff_test", "calls", AFTER_LAST),
        ("mi300_resnet_ddp", "bytes", SHAPES_ONLY),
        ("nccl_rank", "bytes", SHAPES_ONLY),
        ("ns_resolution", "bytes", SHAPES_ONLY),
        ("diff_control", "latency", CALLS),
        ("diff_test", "latency", CALLS),
        ("nccl_rank", "latency", CALLS),
        ("ns_resolution", "latency", NO_KERNELS),
        ("cpu_only", "transfer", ONE_RANK),
        ("diff_control", "transfer", ONE_RANK),
        ("diff_test", "transfer", ONE_RANK),
        ("generated/synth_comm_10p1pct", "transfer", ONE_RANK),
        ("generated/synth_comm_10pct", "transfer", ONE_RANK),
        ("mi300_resnet_ddp", "transfer", ONE_RANK),
        ("nccl_rank", "transfer", ONE_RANK),
        ("ns_resolution", "transfer", ONE_RANK),
        ("generated/ddp_gloo_2rank", "transfer", NO_SHAPE),
        ("generated/ddp_gloo_4rank_straggler", "transfer", POSITION),
    ],
    at_least: 300,
};

const NCCL_COMPUTES: &str =
    "the plugin counts NCCL kernels as computation, host calls as communication";
const COPIES: &str = "the same, and the device's copy of a step mark is a step to the plugin";
const NO_KERNELS: &str =
    "one rank: NCCL runs no kernel, the plugin counts the calls that enqueue nothing";
const ONE_RANK: &str =
    "with one rank the plugin calls all of it data transfer; waiting shows only between ranks";
const NO_SHAPE: &str =
    "one rank recorded no shape of its last all-reduce, so that nothing says it is the other's";
const AFTER_LAST: &str = "the plugin leaves out what comes after the last step";
const SHAPES_ONLY: &str =
    "recorded without shapes: the plugin says 0 bytes, sizes are in record_param_comms";
const CALLS: &str =
    "the plugin takes the host's calls for the collective, alone or with its kernels";
const POSITION: &str = "two threads of ranks 2 and 3 start the broadcasts the other way round: pairs by position differ in size";

/// A run as we read it, and the plugin's numbers of its only span.
struct Both {
    run: Arc<SharedRun>,
    theirs: Json,
    /// Rank of each of the plugin's workers.
    ranks: BTreeMap<String, i64>,
}

/// None where the plugin shows nothing.
fn both(run: &Run) -> Option<Both> {
    let golden = run.golden("distributed.json");
    let spans = golden["profile"].as_object()?;
    let theirs = spans.values().next()?.clone();
    let shared = runs::open_path(&run.folder);
    let mut ranks = BTreeMap::new();
    for worker in run.workers() {
        let file = worker.file.file_name()?.to_string_lossy().into_owned();
        let source = shared.run.info().sources.iter().find(|source| source.file == file);
        if let Some(source) = source {
            ranks.insert(worker.name.split('|').next()?.to_owned(), i64::from(source.rank));
        }
    }
    Some(Both { run: shared, theirs, ranks })
}

/// Rows of a view: text of `keys` to the numbers of `columns`.
fn rows(
    views: &Views,
    view: &str,
    keys: &[&str],
    columns: &[&str],
) -> BTreeMap<Vec<String>, Vec<Option<f64>>> {
    let table = views.table(view);
    let index = |name: &&str| table.index(name).unwrap();
    let (keys, columns): (Vec<usize>, Vec<usize>) =
        (keys.iter().map(index).collect(), columns.iter().map(index).collect());
    let number = |value: &Value| match value {
        Value::Null => None,
        value => value.as_f64(),
    };
    table
        .rows
        .iter()
        .map(|row| {
            let key = keys.iter().map(|&at| match &row[at] {
                Value::Text(text) => text.clone(),
                value => value.as_f64().unwrap_or(f64::NAN).to_string(),
            });
            (key.collect(), columns.iter().map(|&at| number(&row[at])).collect())
        })
        .collect()
}

fn overlap(run: &Run, found: &mut Differences) {
    let columns = ["computation_ns", "overlap_ns", "communication_ns", "other_ns"];
    by_step(run, found, "overlap", "comm_overview_by_step", &columns);
}

fn wait(run: &Run, found: &mut Differences) {
    by_step(run, found, "wait", "comm_wait_by_step", &["transfer_ns", "wait_ns"]);
}

fn by_step(run: &Run, found: &mut Differences, chart: &str, view: &str, columns: &[&str]) {
    let Some(Both { run, theirs, ranks }) = both(run) else { return };
    let ours = rows(run.views(), view, &["rank", "step"], columns);
    let Some(steps) = theirs[chart]["data"].as_object() else { return };
    for (step, workers) in steps.iter().filter(|(step, _)| *step != "all") {
        for (worker, values) in workers.as_object().unwrap() {
            let Some(rank) = ranks.get(worker) else { continue };
            // The plugin gives a collective that reaches past its step to no step.
            let straddles =
                chart == "wait" && steps.get("None").is_some_and(|s| s.get(worker).is_some());
            if straddles {
                continue;
            }
            let row = ours.get(&vec![rank.to_string(), step.clone()]);
            for (at, column) in columns.iter().enumerate() {
                let ours = row.and_then(|row| row[at]).map(|ns| ns / 1e3);
                let theirs = values[at].as_f64();
                let slack = 4.0 * SLACK_US + RELATIVE * theirs.unwrap_or(0.0).abs();
                found.close(&format!("{worker} step {step} {column}"), ours, theirs, slack);
            }
        }
    }
}

fn calls(run: &Run, found: &mut Differences) {
    table(run, found, "call_count", 1, 1.0, 0.0);
}

fn bytes(run: &Run, found: &mut Differences) {
    table(run, found, "input_bytes", 2, 1.0, 0.0);
}

fn latency(run: &Run, found: &mut Differences) {
    table(run, found, "comm_ns", 4, 1e3, SLACK_US);
}

fn transfer(run: &Run, found: &mut Differences) {
    table(run, found, "transfer_ns", 6, 1e3, SLACK_US);
}

/// A column of the table of collectives.
fn table(run: &Run, found: &mut Differences, column: &str, at: usize, unit: f64, slack: f64) {
    let Some(Both { run, theirs, ranks }) = both(run) else { return };
    let keys = ["rank", "backend", "name"];
    let ours = rows(run.views(), "comm_by_name", &keys, &[column, "call_count"]);
    let Some(workers) = theirs["comm_ops"].as_object() else { return };
    for (worker, table) in workers {
        let Some(rank) = ranks.get(worker) else { continue };
        for row in table["rows"].as_array().unwrap() {
            let full = row[0].as_str().unwrap();
            let (backend, name) = full.split_once(':').unwrap();
            let key = vec![rank.to_string(), backend.to_owned(), name.to_owned()];
            let ours = ours.get(&key);
            let theirs = row[at].as_f64();
            // Each range may be off by what doubles lose.
            let calls = ours.and_then(|row| row[1]).unwrap_or(1.0);
            let slack = calls * slack + RELATIVE * theirs.unwrap_or(0.0).abs();
            let ours = ours.and_then(|row| row[0]).map(|value| value / unit);
            found.close(&format!("{worker} {full} {column}"), ours, theirs, slack);
        }
    }
}
