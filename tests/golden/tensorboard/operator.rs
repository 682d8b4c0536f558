//! Operators by name, by name and input shape, and by call stack.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_advisor::arrow::array::{Array, ArrayRef, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Int64Type};

use super::{Area, Compare, Differences, RELATIVE, SLACK_US, Worker};
use crate::runs::Views;

pub(crate) const AREA: Area = Area {
    name: "operator",
    golden: "operator.json",
    comparisons: &[
        ("operators", Compare::Worker(operators)),
        ("calls", Compare::Worker(|worker, found| column(worker, found, 0))),
        ("host_total", Compare::Worker(|worker, found| column(worker, found, 1))),
        ("host_self", Compare::Worker(|worker, found| column(worker, found, 2))),
        ("device_total", Compare::Worker(|worker, found| column(worker, found, 3))),
        ("device_self", Compare::Worker(|worker, found| column(worker, found, 4))),
        ("stacks", Compare::Worker(stacks)),
        ("distinct_stacks", Compare::Worker(distinct_stacks)),
    ],
    exceptions: &[
        ("b200_eager", "host_self", DRIVER),
        ("b200_eager", "device_total", DRIVER),
        ("b200_eager", "device_self", DRIVER),
        ("critical_path_alexnet", "host_self", IDS),
        ("critical_path_alexnet", "device_total", IDS),
        ("critical_path_alexnet", "device_self", IDS),
        ("diff_control", "host_self", IDS),
        ("diff_control", "device_total", IDS),
        ("diff_control", "device_self", IDS),
        ("diff_control", "calls", EMPTY),
        ("diff_test", "host_self", IDS),
        ("diff_test", "device_total", IDS),
        ("diff_test", "device_self", IDS),
        ("diff_test", "calls", EMPTY),
        ("diff_control", "host_total", EMPTY),
        ("generated/cpu_gpt_stack", "operators", LOST),
        ("generated/cpu_gpt_stack", "calls", LOST),
        ("generated/cpu_gpt_stack", "host_total", LOST),
        ("generated/cpu_gpt_stack", "host_self", LOST),
        ("generated/synth_intersecting_ops", "operators", DROPPED),
        ("generated/synth_intersecting_ops", "host_self", DROPPED),
        ("generated/synth_modern_gpu_annotation", "host_self", DRIVER),
        ("generated/synth_modern_gpu_annotation", "device_total", DRIVER),
        ("generated/synth_modern_gpu_annotation", "device_self", DRIVER),
        ("generated/synth_modern_no_gpu_annotation", "host_self", DRIVER),
        ("generated/synth_modern_no_gpu_annotation", "device_total", DRIVER),
        ("generated/synth_modern_no_gpu_annotation", "device_self", DRIVER),
        ("generated/synth_optree", "distinct_stacks", INSIDE),
        ("h100_bert", "host_self", DRIVER),
        ("h100_bert", "device_total", DRIVER),
        ("h100_bert", "device_self", DRIVER),
        ("h100_qwen", "host_self", DRIVER),
        ("h100_qwen", "device_total", DRIVER),
        ("h100_qwen", "device_self", DRIVER),
        ("mi300_resnet_ddp", "operators", LOST),
        ("mi300_resnet_ddp", "calls", LOST),
        ("mi300_resnet_ddp", "host_total", LOST),
        ("mi300_resnet_ddp", "host_self", LOST),
        ("mi300_resnet_ddp", "device_total", LOST),
        ("mi300_resnet_ddp", "device_self", LOST),
        ("nccl_rank", "host_self", NESTING),
        ("ns_resolution", "host_self", NESTING),
        ("ns_resolution", "calls", DROPPED),
        ("rank_non_gpu", "calls", EMPTY),
        ("rank_non_gpu", "host_total", EMPTY),
    ],
    at_least: 25_000,
};

const DRIVER: &str = "the plugin ignores launches through the driver (cuLaunchKernel)";
const IDS: &str = "the External id of a launch is its correlation id (torch 1.12 to 2.0): the plugin gives no \
                   work to operators, or work to any operator";
const NESTING: &str = "launches made inside a collective count twice for the plugin; those with the id of \
                       another operator do not count where they happen";
const LOST: &str =
    "the plugin loses backward operators without an arrow from their forward operator";
const INSIDE: &str =
    "an operator inside another, without a stack of its own, has the other's for us";
const DROPPED: &str = "the plugin drops an operator that outlasts the one around it, if by a nanosecond; \
                       doubles of absolute microseconds round to a quarter of one";
const EMPTY: &str = "an operator of no length at the end of another lies inside it for us, beside it for the \
                     plugin, so that fewer calls have nothing inside but one of the same name";

/// Columns of ours and theirs: whole numbers of calls, then nanoseconds against microseconds.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("call_count", "calls", "calls"),
    ("host_total_ns", "host_total", "host_total_duration"),
    ("host_self_ns", "host_self", "host_self_duration"),
    ("device_total_ns", "device_total", "device_total_duration"),
    ("device_self_ns", "device_self", "device_self_duration"),
];

/// The five numbers of each row, by name and shape or stack.
type Rows = BTreeMap<(String, String), [f64; 5]>;

/// The rows of one of our views; times in microseconds. `None` for the second key where absent.
fn ours(views: &Views, view: &str, key: &str) -> Rows {
    let sums: Vec<String> = COLUMNS.iter().map(|(ours, ..)| (*ours).to_owned()).collect();
    let query = format!("SELECT name, {key} AS key, {} FROM {view}", sums.join(", "));
    let mut rows = Rows::new();
    for batch in views.sql(&query).iter() {
        let text = |i: usize| cast(batch.column(i), &DataType::Utf8).unwrap();
        let (names, keys) = (text(0), text(1));
        let numbers: Vec<ArrayRef> =
            (2..7).map(|i| cast(batch.column(i), &DataType::Int64).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let of = |array: &ArrayRef| {
                let array = array.as_string::<i32>();
                if array.is_null(row) { String::new() } else { array.value(row).to_owned() }
            };
            let value =
                |column: usize| numbers[column].as_primitive::<Int64Type>().value(row) as f64;
            let entry = rows.entry((of(&names), shape(&of(&keys)))).or_default();
            for (column, sum) in entry.iter_mut().enumerate() {
                *sum += if column == 0 { value(0) } else { value(column) / 1e3 };
            }
        }
    }
    rows
}

/// A shape without regard to spaces; the plugin writes `[]` where it was not recorded.
fn shape(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    if text.is_empty() { "[]".to_owned() } else { text }
}

fn theirs(rows: &Json, key: Option<&str>, unrounded: bool) -> Rows {
    let text = |row: &Json, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let rows = rows.as_array().into_iter().flatten();
    rows.map(|row| {
        let numbers = COLUMNS.map(|(_, exact, rounded)| {
            // Runs on the CPU alone have no columns for the device.
            row[if unrounded { exact } else { rounded }].as_f64().unwrap_or(f64::NAN)
        });
        let key = key.map_or_else(String::new, |key| text(row, key));
        ((text(row, "name"), shape(&key)), numbers)
    })
    .collect()
}

/// Both ways of grouping: `(name, our rows, their rows, theirs are rounded)`.
fn groupings(worker: &Worker) -> Vec<(&'static str, Rows, Rows, bool)> {
    let golden = worker.golden("operator.json");
    if golden["by_name"].as_array().is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let views = worker.views();
    let by_name = theirs(&golden["by_name_unrounded"], None, true);
    let by_shape = theirs(&golden["by_name_input_shape"], Some("input_shape"), false);
    vec![
        ("", ours(views, "op_by_name", "CAST(NULL AS VARCHAR)"), by_name, false),
        ("shape ", ours(views, "op_by_shape", "input_dims"), by_shape, true),
    ]
}

fn operators(worker: &Worker, found: &mut Differences) {
    for (what, ours, theirs, _) in groupings(worker) {
        let (ours, theirs): (Vec<_>, Vec<_>) = (ours.keys().collect(), theirs.keys().collect());
        found.check(ours == theirs, || {
            let only = |a: &[&(String, String)], b: &[&(String, String)]| {
                a.iter().filter(|key| !b.contains(key)).map(|key| key.0.clone()).collect::<Vec<_>>()
            };
            let (mine, yours) = (only(&ours, &theirs), only(&theirs, &ours));
            format!("{what}only ours {mine:?}, only theirs {yours:?}")
        });
    }
}

/// A column of the rows that both have.
fn column(worker: &Worker, found: &mut Differences, column: usize) {
    for (what, ours, theirs, is_rounded) in groupings(worker) {
        for (key, theirs) in theirs {
            let Some(ours) = ours.get(&key) else { continue };
            let (calls, ours, theirs) = (ours[0], ours[column], theirs[column]);
            if theirs.is_nan() {
                continue;
            }
            let slack = match column {
                0 => 0.0,
                _ => slack(worker, calls, theirs) + if is_rounded { 0.5 } else { 0.0 },
            };
            let name = COLUMNS[column].0;
            found.close(&format!("{what}{} {name}", key.0), Some(ours), Some(theirs), slack);
        }
    }
}

/// Times since 1970 in doubles of microseconds lose a quarter of one an event.
fn slack(worker: &Worker, calls: f64, theirs: f64) -> f64 {
    let is_absolute = worker.golden("overview.json")["profiler_start_ts"].as_f64() > Some(1e14);
    SLACK_US + RELATIVE * theirs.abs() + if is_absolute { 0.5 * calls } else { 0.0 }
}

fn distinct_stacks(worker: &Worker, found: &mut Differences) {
    let golden = worker.golden("operator_stacks.json");
    let Some(theirs) = golden["distinct_stacks"].as_f64() else { return };
    let ours = ours(worker.views(), "op_by_stack", "call_stack");
    let with_stack = ours.keys().filter(|(_, stack)| stack != "[]").count();
    found.close("distinct stacks", Some(with_stack as f64), Some(theirs), 0.0);
}

fn stacks(worker: &Worker, found: &mut Differences) {
    let golden = worker.golden("operator_stacks.json");
    let Some(sample) = golden["sample"].as_object() else { return };
    let ours = ours(worker.views(), "op_by_stack", "call_stack");
    let rows = sample.values().flat_map(|rows| theirs(rows, Some("call_stack"), false));
    for (key, theirs) in rows {
        for (column, (name, ..)) in COLUMNS.iter().enumerate() {
            let ours = ours.get(&key).map(|row| row[column]);
            let slack = if column == 0 { 0.0 } else { 1.0 };
            found.close(&format!("{} {name}", key.0), ours, Some(theirs[column]), slack);
        }
    }
}
