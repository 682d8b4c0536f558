//! Modules, and those of Lightning.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_advisor::arrow::array::{Array, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

use super::{Area, Compare, Differences, RELATIVE, SLACK_US, Worker};
use crate::support::rows::number;

pub(crate) const AREA: Area = Area {
    name: "module",
    golden: "module.json",
    comparisons: &[
        ("modules", Compare::Worker(modules)),
        ("occurences", Compare::Worker(|worker, found| column(worker, found, 0))),
        ("operators", Compare::Worker(|worker, found| column(worker, found, 1))),
        ("host_duration", Compare::Worker(|worker, found| column(worker, found, 2))),
        ("self_host_duration", Compare::Worker(|worker, found| column(worker, found, 3))),
        ("device_duration", Compare::Worker(|worker, found| column(worker, found, 4))),
        ("self_device_duration", Compare::Worker(|worker, found| column(worker, found, 5))),
    ],
    exceptions: &[
        ("b200_eager", "device_duration", DRIVER),
        ("b200_eager", "self_device_duration", DRIVER),
        ("b200_eager", "self_host_duration", NO_ID),
        ("h100_bert", "device_duration", DRIVER),
        ("h100_bert", "self_device_duration", DRIVER),
        ("h100_bert", "self_host_duration", NO_ID),
        ("h100_qwen", "device_duration", DRIVER),
        ("h100_qwen", "self_device_duration", DRIVER),
        ("h100_qwen", "self_host_duration", NO_ID),
        ("mi300_bert", "self_host_duration", NO_ID),
        ("mi300_qwen", "self_host_duration", NO_ID),
        ("mi300_resnet_ddp", "self_host_duration", NO_ID),
        ("vllm_decode_graph", "device_duration", NO_ID),
        ("vllm_decode_graph", "self_device_duration", NO_ID),
        ("vllm_decode_graph", "self_host_duration", NO_ID),
    ],
    at_least: 5_000,
};

const DRIVER: &str = "the plugin ignores launches through the driver (cuLaunchKernel)";
const NO_ID: &str = "the plugin gives every launch without External id, wherever it is, to the first module: \
                     negative self times, 97 % of the kernels of replayed graphs";

/// Columns of the plugin's, and ours; the first two are counts.
const COLUMNS: [(&str, &str); 6] = [
    ("occurences", "count(*)"),
    ("operators", "sum(operator_count)"),
    ("host_duration", "sum(host_total_ns) / 1e3"),
    ("self_host_duration", "sum(host_self_ns) / 1e3"),
    ("device_duration", "sum(device_total_ns) / 1e3"),
    ("self_device_duration", "sum(device_self_ns) / 1e3"),
];

type Rows = BTreeMap<String, [f64; 6]>;

/// The plugin's rows by name: it adds up all calls of an instance, wherever in the tree.
fn theirs(worker: &Worker) -> Rows {
    fn walk(node: &Json, rows: &mut Rows) {
        let name = node["name"].as_str().unwrap_or_default().to_owned();
        rows.insert(name, COLUMNS.map(|(theirs, _)| node[theirs].as_f64().unwrap_or(f64::NAN)));
        for child in node["children"].as_array().into_iter().flatten() {
            walk(child, rows);
        }
    }
    let golden = worker.golden("module.json");
    let mut rows = Rows::new();
    let roots = golden["module_view"]["data"].as_array().into_iter().flatten();
    for root in roots {
        walk(root, &mut rows);
    }
    rows
}

/// Ours on the thread of the first call: the plugin leaves out what the backward pass calls again
/// (checkpointing).
fn ours(worker: &Worker) -> Rows {
    let view = if worker.trace.contains("lightning") { "lightning_calls" } else { "module_calls" };
    let sums: Vec<&str> = COLUMNS.iter().map(|(_, ours)| *ours).collect();
    let query = format!(
        "SELECT name, {} FROM {view} WHERE class <> '[hook]'
         AND thread = (SELECT thread FROM {view} ORDER BY ts_ns, event_id LIMIT 1) GROUP BY name",
        sums.join(", ")
    );
    let batches = worker.views().sql(&query);
    let names = batches.iter().flat_map(|batch| {
        let names = cast(batch.column(0), &DataType::Utf8).unwrap();
        let names = names.as_string::<i32>();
        (0..names.len()).map(|row| names.value(row).to_owned()).collect::<Vec<_>>()
    });
    let values = batches.iter().flat_map(|batch| {
        let columns: Vec<_> =
            (1..7).map(|i| cast(batch.column(i), &DataType::Float64).unwrap()).collect();
        let value = |row: usize| {
            std::array::from_fn(|i| columns[i].as_primitive::<Float64Type>().value(row))
        };
        (0..batch.num_rows()).map(value).collect::<Vec<[f64; 6]>>()
    });
    names.zip(values).collect()
}

fn modules(worker: &Worker, found: &mut Differences) {
    let theirs = theirs(worker);
    if theirs.is_empty() {
        return;
    }
    let view = if worker.trace.contains("lightning") { "lightning_modules" } else { "module_tree" };
    let query = format!("SELECT count(DISTINCT name) FROM {view}");
    let ours = number(&worker.views().sql(&query));
    found.close("distinct modules", Some(ours), Some(theirs.len() as f64), 0.0);
}

fn column(worker: &Worker, found: &mut Differences, column: usize) {
    let theirs = theirs(worker);
    if theirs.is_empty() {
        return;
    }
    let ours = ours(worker);
    for (name, theirs) in theirs {
        let ours = ours.get(&name);
        let calls = ours.map_or(0.0, |row| row[0]);
        // Times since 1970 in doubles of microseconds lose a quarter of one an event.
        let slack = match column {
            0 | 1 => 0.0,
            _ => SLACK_US + RELATIVE * theirs[column].abs() + 0.5 * calls,
        };
        let what = format!("{name} {}", COLUMNS[column].0);
        found.close(&what, ours.map(|row| row[column]), Some(theirs[column]), slack);
    }
}
