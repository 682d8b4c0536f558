//! GPU Kernel: calls and durations by name, and by shape of the launch and operator.
//!
//! The plugin counts the whole recording, and so do we here; our views leave out what the last step launched
//! unless asked (docs/evidence/differences.md, "The last step").

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;
use trace_model::{MetricTable, Value};

use super::{Area, Compare, Differences, SLACK_US, Worker};

pub(crate) const AREA: Area = Area {
    name: "kernel",
    golden: "kernel.json",
    comparisons: &[
        ("by_name", Compare::Worker(by_name)),
        ("means", Compare::Worker(means)),
        ("tensor_cores", Compare::Worker(tensor_cores)),
        ("by_properties", Compare::Worker(by_properties)),
        ("eligible", Compare::Worker(eligible)),
    ],
    exceptions: &[
        ("ns_resolution", "by_properties", DOUBLES),
        (
            "critical_path_alexnet",
            "by_properties",
            "ids collide: uniform_'s kernel goes to clamp_min_",
        ),
        (
            "mi300_resnet_ddp",
            "by_properties",
            "four of six launches hang under the roots of threads",
        ),
    ],
    at_least: 5_000,
};

const DOUBLES: &str =
    "absolute times in doubles: the plugin loses a quarter of a microsecond an execution";

/// The plugin's table as maps from column to value.
fn theirs(worker: &Worker, table: &str) -> Vec<HashMap<String, Json>> {
    let golden = worker.golden("kernel.json");
    let (Some(columns), Some(rows)) =
        (golden[table]["columns"].as_array(), golden[table]["rows"].as_array())
    else {
        return Vec::new();
    };
    let names: Vec<&str> = columns.iter().filter_map(Json::as_str).collect();
    rows.iter()
        .map(|row| {
            let values = row.as_array().unwrap().iter().cloned();
            names.iter().map(|name| (*name).to_owned()).zip(values).collect()
        })
        .collect()
}

fn ours(worker: &Worker, view: &str) -> Arc<MetricTable> {
    worker.views_of_recording().table(view)
}

/// Rows by the texts in some columns; an absent text is empty.
fn by_key<'a>(table: &'a MetricTable, key: &[&str]) -> HashMap<Vec<String>, Vec<&'a [Value]>> {
    let at: Vec<usize> = key.iter().map(|name| table.index(name).unwrap()).collect();
    let mut rows: HashMap<Vec<String>, Vec<&[Value]>> = HashMap::new();
    for row in &table.rows {
        let key = at.iter().map(|&i| text(&row[i])).collect();
        rows.entry(key).or_default().push(row);
    }
    rows
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn number(row: &[Value], table: &MetricTable, column: &str) -> Option<f64> {
    row[table.index(column).unwrap()].as_f64()
}

/// Calls, sum, longest and shortest: over all rows of ours that fall into one of theirs.
fn durations(
    what: &str,
    theirs: &HashMap<String, Json>,
    ours: Option<&Vec<&[Value]>>,
    table: &MetricTable,
    found: &mut Differences,
) {
    type Fold = fn(f64, f64) -> f64;
    let columns: [(&str, &str, f64, Fold); 4] = [
        ("Calls", "call_count", 1.0, |a, b| a + b),
        ("Total Duration (us)", "sum_ns", 1e3, |a, b| a + b),
        ("Max Duration (us)", "max_ns", 1e3, f64::max),
        ("Min Duration (us)", "min_ns", 1e3, f64::min),
    ];
    for (name, column, unit, fold) in columns {
        let ours = ours
            .and_then(|rows| rows.iter().filter_map(|row| number(row, table, column)).reduce(fold));
        found.close(
            &format!("{what} {name}"),
            ours.map(|v| v / unit),
            theirs[name].as_f64(),
            SLACK_US,
        );
    }
}

fn by_name(worker: &Worker, found: &mut Differences) {
    let table = ours(worker, "gpu_kernels");
    let rows = by_key(&table, &["name"]);
    for kernel in theirs(worker, "by_name") {
        let name = kernel["Name"].as_str().unwrap_or_default().to_owned();
        durations(&name, &kernel, rows.get(&vec![name.clone()]), &table, found);
    }
}

fn means(worker: &Worker, found: &mut Differences) {
    let table = ours(worker, "gpu_kernels");
    let rows = by_key(&table, &["name"]);
    for kernel in theirs(worker, "by_name") {
        let name = kernel["Name"].as_str().unwrap_or_default().to_owned();
        let Some(row) = rows.get(&vec![name.clone()]).map(|rows| rows[0]) else { continue };
        for (theirs, column, scale) in [
            ("Mean Blocks Per SM", "mean_blocks_per_sm", 1.0),
            ("Mean Est. Achieved Occupancy (%)", "mean_occupancy_ratio", 100.0),
        ] {
            // Not in the table if no kernel of the trace has it.
            let Some(expected) = kernel.get(theirs).and_then(Json::as_f64) else { continue };
            let ours = number(row, &table, column).map(|v| v * scale);
            // An occupancy of 0 where one block alone makes more: to us, none.
            if expected == 0.0 && ours.is_none() {
                continue;
            }
            found.close(&format!("{name} {theirs}"), ours, Some(expected), 0.0051);
        }
    }
}

/// In names of kernels that multiply on tensor cores, and are not in the plugin's list.
const NOT_LISTED: [&str; 12] = [
    "nvjet",
    "_wmma_",
    "flash_fwd_kernel",
    "fmhaSm100",
    "_sm100f",
    "xmma_fprop_implicit_gemm",
    "xmma_dgrad_implicit_gemm",
    "xmma_wgrad_implicit_gemm",
    "MmaTensorOp",
    "_MI16x16x",
    "_MI32x32x",
    "_gtcx",
];
/// As above, on AMD.
const NOT_LISTED_AMD: [&str; 5] = ["_xdl_", "xdlops", "attn_fwd", "mfma", "_matmul_ogs"];

fn tensor_cores(worker: &Worker, found: &mut Differences) {
    let table = ours(worker, "gpu_kernels");
    let rows = by_key(&table, &["name"]);
    let at = table.index("tensor_cores").unwrap();
    for kernel in theirs(worker, "by_name") {
        let name = kernel["Name"].as_str().unwrap_or_default().to_owned();
        let Some(row) = rows.get(&vec![name.clone()]).map(|rows| rows[0]) else { continue };
        let is_listed = !NOT_LISTED.iter().chain(&NOT_LISTED_AMD).any(|part| name.contains(part));
        let (ours, theirs) = (text(&row[at]), kernel["Tensor Cores Used"].as_str().unwrap());
        let expected = if is_listed { theirs } else { "Yes" };
        found.check((ours == "yes") == (expected == "Yes"), || {
            format!("{name}: ours {ours}, theirs {theirs}")
        });
    }
}

/// Kernels that the plugin attached to an operator: others it hangs under the root of each thread, or under
/// the first module.
fn by_properties(worker: &Worker, found: &mut Differences) {
    let table = ours(worker, "kernel_properties");
    let columns = ["name", "op_name", "grid", "block", "registers", "shared_memory_bytes"];
    let rows = by_key(&table, &columns);
    for kernel in theirs(worker, "by_properties_and_op") {
        let key = properties(&kernel);
        if is_operator(&key[1]) {
            durations(&key.join(" | "), &kernel, rows.get(&key), &table, found);
        }
    }
}

fn is_operator(name: &str) -> bool {
    name != "CallTreeRoot" && !name.starts_with("nn.Module: ") && !name.starts_with("ProfilerStep#")
}

/// As ours: what is absent is `None` or 0 to the plugin.
fn properties(kernel: &HashMap<String, Json>) -> Vec<String> {
    let text = |column: &str| kernel[column].as_str().unwrap_or_default().to_owned();
    let mut key: Vec<String> =
        ["Name", "Operator", "Grid", "Block", "Register Per Thread", "Shared Memory"]
            .map(text)
            .to_vec();
    for shape in &mut key[2..4] {
        if shape == "None" {
            shape.clear();
        }
    }
    // No kernel has no registers.
    if key[4] == "0" {
        key[4].clear();
        key[5].clear();
    }
    key
}

/// Operators that multiply, and are not in the plugin's list.
const NOT_LISTED_OPS: [&str; 4] = [
    "aten::convolution_backward",
    "aten::miopen_convolution",
    "aten::_flash_attention_forward",
    "vllm::moe_forward",
];

/// NVIDIA devices without tensor cores have a compute capability below 7.0. AMD devices report 9 and above.
const BEFORE_TENSOR_CORES: &str = "SELECT device FROM devices WHERE compute_major < 7";

fn eligible(worker: &Worker, found: &mut Differences) {
    let table = ours(worker, "kernel_properties");
    let rows = by_key(&table, &["op_name"]);
    let at = table.index("op_eligible").unwrap();
    // The plugin applies its list of operators regardless of the device.
    let has_units = !worker
        .views_of_recording()
        .sql(BEFORE_TENSOR_CORES)
        .iter()
        .any(|batch| batch.num_rows() > 0);
    for kernel in theirs(worker, "by_properties_and_op") {
        let op = kernel["Operator"].as_str().unwrap_or_default().to_owned();
        let is_listed = kernel["Op is Tensor Cores eligible"].as_str().unwrap() == "Yes";
        let theirs = has_units && (is_listed || NOT_LISTED_OPS.contains(&op.as_str()));
        let Some(rows) = rows.get(&vec![op.clone()]) else { continue };
        let ours = rows.iter().any(|row| text(&row[at]) == "yes");
        found.check(ours == theirs, || format!("{op}: ours {ours}, theirs {theirs}"));
    }
}
