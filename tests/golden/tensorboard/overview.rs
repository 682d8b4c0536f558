//! Overview: steps extended to their device work, GPU utilization, SM efficiency and occupancy.

use trace_model::Value;

use super::{Area, Compare, Differences, RELATIVE, SLACK_US, Worker};
use crate::runs::{Params, Views};
use crate::support::rows::{self, number};

pub(crate) const AREA: Area = Area {
    name: "overview",
    golden: "overview.json",
    comparisons: &[
        ("steps", Compare::Worker(steps)),
        ("Kernel", Compare::Worker(part::<0>)),
        ("Memcpy", Compare::Worker(part::<1>)),
        ("Memset", Compare::Worker(part::<2>)),
        ("Communication", Compare::Worker(part::<3>)),
        ("Runtime", Compare::Worker(part::<4>)),
        ("DataLoader", Compare::Worker(part::<5>)),
        ("CpuOp", Compare::Worker(part::<6>)),
        ("Other", Compare::Worker(part::<7>)),
        ("Total", Compare::Worker(part::<8>)),
        ("gpu_metrics", Compare::Worker(devices)),
        ("gpu_summary", Compare::Worker(summary)),
        ("tensor_cores", Compare::Worker(tensor_cores)),
        ("buckets", Compare::Worker(buckets)),
        ("sm_series", Compare::Worker(sm_series)),
    ],
    exceptions: &[
        ("generated/synth_modern_gpu_annotation", "steps", COPIES),
        ("mi300_resnet_ddp", "steps", COPIES),
        ("mi210_gpu_only", "steps", NO_HOST),
        ("diff_test", "steps", FIRST_STEP),
        ("diff_test", "Total", FIRST_STEP),
        ("diff_test", "gpu_metrics", FIRST_STEP),
        ("mi210_gpu_only", "gpu_metrics", NO_HOST),
        ("ns_resolution", "gpu_metrics", DOUBLES),
        ("b200_eager", "gpu_metrics", NO_BLOCK_FITS),
        ("critical_path_alexnet", "gpu_metrics", NO_BLOCK_FITS),
        ("diff_control", "gpu_metrics", NO_BLOCK_FITS),
        ("h100_bert", "gpu_metrics", NO_BLOCK_FITS),
        ("h100_qwen", "gpu_metrics", NO_BLOCK_FITS),
        ("nccl_rank", "gpu_metrics", NO_BLOCK_FITS),
        ("resnet50_workers0", "gpu_metrics", NOT_COUNTED),
        ("resnet50_workers4", "gpu_metrics", NOT_COUNTED),
        ("mi300_bert", "gpu_metrics", GRID),
        ("mi300_qwen", "gpu_metrics", GRID),
        ("mi300_resnet_ddp", "gpu_metrics", GRID),
        ("mi300_torch_compile_triton", "gpu_metrics", GRID),
        ("amd_minitoy", "tensor_cores", NOT_LISTED),
        ("b200_eager", "tensor_cores", NOT_LISTED),
        ("critical_path_alexnet", "tensor_cores", NOT_LISTED),
        ("diff_control", "tensor_cores", "communicating kernels are no part of the kernel time"),
        ("generated/synth_modern_gpu_annotation", "tensor_cores", NOT_LISTED),
        ("generated/synth_modern_no_gpu_annotation", "tensor_cores", NOT_LISTED),
        ("generated/synth_tc_nvjet", "tensor_cores", NOT_LISTED),
        ("h100_bert", "tensor_cores", NOT_LISTED),
        ("h100_qwen", "tensor_cores", NOT_LISTED),
        ("mi210_gpu_only", "tensor_cores", NOT_LISTED),
        ("mi300_bert", "tensor_cores", NOT_LISTED),
        ("mi300_qwen", "tensor_cores", NOT_LISTED),
        ("mi300_resnet_ddp", "tensor_cores", NOT_LISTED),
        ("mi300_torch_compile_triton", "tensor_cores", NOT_LISTED),
        ("nccl_rank", "tensor_cores", NOT_LISTED),
        ("vllm_decode_graph", "tensor_cores", NOT_LISTED),
        ("generated/synth_modern_gpu_annotation", "Memcpy", COPIES),
        ("generated/synth_modern_gpu_annotation", "Memset", COPIES),
        ("generated/synth_modern_gpu_annotation", "Communication", COPIES),
        ("mi300_resnet_ddp", "DataLoader", COPIES),
        ("nccl_rank", "Runtime", NCCL),
        ("ns_resolution", "Memset", DOUBLES),
        ("ns_resolution", "CpuOp", DOUBLES),
        ("ns_resolution", "Other", DOUBLES),
        ("generated/synth_full_kernel", "Memcpy", SATURATED),
        ("generated/synth_full_kernel", "Runtime", SATURATED),
        ("generated/synth_full_kernel", "CpuOp", SATURATED),
        ("generated/synth_full_kernel", "Other", SATURATED),
        ("generated/synth_modern_gpu_annotation", "Kernel", COPIES),
        ("generated/synth_modern_gpu_annotation", "Runtime", COPIES),
        ("generated/synth_modern_gpu_annotation", "DataLoader", COPIES),
        ("generated/synth_modern_gpu_annotation", "CpuOp", COPIES),
        ("generated/synth_modern_gpu_annotation", "Other", COPIES),
        ("generated/synth_modern_gpu_annotation", "Total", COPIES),
        ("mi300_resnet_ddp", "Kernel", COPIES),
        ("mi300_resnet_ddp", "Memcpy", COPIES),
        ("mi300_resnet_ddp", "Memset", COPIES),
        ("mi300_resnet_ddp", "Communication", COPIES),
        ("mi300_resnet_ddp", "Runtime", COPIES),
        ("mi300_resnet_ddp", "CpuOp", COPIES),
        ("mi300_resnet_ddp", "Other", COPIES),
        ("mi300_resnet_ddp", "Total", COPIES),
        ("mi210_gpu_only", "Kernel", NO_HOST),
        ("mi210_gpu_only", "Runtime", NO_HOST),
        ("mi210_gpu_only", "Other", NO_HOST),
        ("mi210_gpu_only", "Total", NO_HOST),
        ("ns_resolution", "Kernel", DOUBLES),
        ("ns_resolution", "Memcpy", DOUBLES),
        ("ns_resolution", "Runtime", DOUBLES),
        ("diff_control", "Kernel", NCCL),
        ("diff_control", "Memcpy", NCCL),
        ("diff_control", "Memset", NCCL),
        ("diff_control", "Communication", NCCL),
        ("diff_control", "Runtime", NCCL),
        ("diff_control", "CpuOp", NCCL),
        ("diff_test", "Kernel", NCCL),
        ("diff_test", "Memcpy", NCCL),
        ("diff_test", "Memset", NCCL),
        ("diff_test", "Communication", NCCL),
        ("diff_test", "Runtime", NCCL),
        ("diff_test", "CpuOp", NCCL),
        ("nccl_rank", "Kernel", NCCL),
        ("nccl_rank", "Memcpy", NCCL),
        ("nccl_rank", "Memset", NCCL),
        ("nccl_rank", "Communication", NCCL),
        ("nccl_rank", "CpuOp", NCCL),
        ("rank_non_gpu", "Communication", COLLECTIVES),
        ("rank_non_gpu", "CpuOp", COLLECTIVES),
        ("b200_eager", "steps", ENGINE),
        ("b200_eager", "Total", ENGINE),
        ("generated/cpu_nosteps", "steps", RECURRING),
        ("generated/cpu_nosteps", "CpuOp", RECURRING),
        ("generated/cpu_nosteps", "Other", RECURRING),
        ("generated/cpu_nosteps", "Total", RECURRING),
        ("vllm_decode_graph", "steps", ENGINE),
        ("vllm_decode_graph", "Runtime", ENGINE),
        ("vllm_decode_graph", "CpuOp", ENGINE),
        ("vllm_decode_graph", "Total", ENGINE),
        ("vllm_decode_graph", "gpu_metrics", ENGINE),
        ("b200_eager", "Kernel", B200),
        ("b200_eager", "Communication", B200),
        ("b200_eager", "Runtime", B200),
        ("b200_eager", "CpuOp", B200),
        ("h100_bert", "Runtime", DRIVER),
        ("h100_bert", "CpuOp", DRIVER),
        ("h100_qwen", "Runtime", DRIVER),
        ("h100_qwen", "CpuOp", DRIVER),
    ],
    at_least: 2_000,
};

const FIRST_STEP: &str = "the plugin takes 39 ms of the work of the step before, which ends after an early copy of the \
     first step, for the first step";
const COPIES: &str = "the plugin takes the device's copy of a step mark for another step";
const NO_HOST: &str = "without host events the plugin's window is inverted: -1.8e19 us";
const DOUBLES: &str =
    "absolute times in doubles: the plugin loses a quarter of a microsecond an event";

const SATURATED: &str = "once a category has covered the whole step, the plugin starts the next from the whole step again";
const NCCL: &str = "NCCL's kernels compute, to the plugin: it looks for collectives by external id, which \
     kernels launched below record_param_comms do not share; and all_to_all, SendRecv are not in its list";
const COLLECTIVES: &str = "nccl:all_to_all is not in the plugin's list of collectives";
const DRIVER: &str =
    "launches through the driver (cuda_driver: Triton, cuBLAS) are no calls to the plugin";
const B200: &str = "launches through the driver; nccl:_all_gather_base is not in the plugin's list";

const ENGINE: &str = "the plugin does not know the marks of inference servers: it takes the whole recording as one step";

const RECURRING: &str =
    "the plugin finds no steps where nothing marks them: it takes the whole recording as one step";

const NOT_COUNTED: &str = "the plugin counts a first step that does not compare with the others";
const NO_BLOCK_FITS: &str =
    "an occupancy of 0 of kernels that hold more than one warp in a hundred is no number";
const GRID: &str =
    "AMD: SM efficiency computed from the grid, where the trace has no blocks per SM";
const NOT_LISTED: &str =
    "names of kernels that multiply on tensor cores and are not in the plugin's list";

fn steps(worker: &Worker, found: &mut Differences) {
    let overview = worker.golden("overview.json");
    let Some(steps) = overview["steps"].as_array().filter(|steps| !steps.is_empty()) else {
        return;
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let theirs: Vec<f64> = steps.iter().map(|s| number(&s["end"]) - number(&s["start"])).collect();
    let ours: Vec<f64> = column(worker.views(), "step_time", "dur_ns")
        .into_iter()
        .flatten()
        .map(|ns| ns / 1e3)
        .collect();
    let agree = ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() <= SLACK_US + RELATIVE * b.abs());
    found.check(agree, || format!("steps: ours {ours:?}, theirs {theirs:?}"));
}

/// The plugin's name of a part of a step, and ours.
const PARTS: [(&str, &str); 9] = [
    ("Kernel", "kernel_ns"),
    ("Memcpy", "memcpy_ns"),
    ("Memset", "memset_ns"),
    ("Communication", "communication_ns"),
    ("Runtime", "runtime_ns"),
    ("DataLoader", "dataloader_ns"),
    ("CpuOp", "cpu_exec_ns"),
    ("Other", "other_ns"),
    ("Total", "step_ns"),
];

/// One part of every step, and of the mean step.
fn part<const PART: usize>(worker: &Worker, found: &mut Differences) {
    let (theirs, ours) = PARTS[PART];
    let overview = worker.golden("overview.json");
    let mut check = |what: &str, ours: Option<f64>, expected: Option<f64>| {
        let slack = SLACK_US + RELATIVE * expected.unwrap_or(0.0).abs();
        found.close(&format!("{what} {theirs}"), ours.map(|ns| ns / 1e3), expected, slack);
    };
    let Some(steps) = overview["steps"].as_array().filter(|steps| !steps.is_empty()) else {
        return;
    };
    let by_step = column(worker.views(), "step_breakdown_by_step", ours);
    for (i, step) in steps.iter().enumerate() {
        let ours = by_step.get(i).copied().flatten();
        check(&format!("step {i}"), ours, step["cost_us"][theirs].as_f64());
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let values: Vec<f64> = values.collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let all = mean(&mut by_step.iter().copied().flatten());
    check("mean", all, overview["average_us"][theirs].as_f64());
    // Our mean leaves out a first step that does not compare with the others.
    let is_counted =
        "SELECT CAST(is_counted AS INT) FROM step_breakdown_by_step ORDER BY rank, ts_ns";
    let is_counted = rows::numbers(&worker.views().sql(is_counted));
    let counted = by_step.iter().zip(&is_counted).filter(|(_, counts)| counts[0] != 0.0);
    let counted = mean(&mut counted.filter_map(|(ns, _)| *ns));
    let own = column(worker.views(), "step_breakdown", ours).first().copied().flatten();
    check("counted mean", own, counted.map(|ns| ns / 1e3));
}

fn devices(worker: &Worker, found: &mut Differences) {
    let metrics = worker.golden("gpu_metrics.json");
    let Some(expected) = metrics["per_gpu"].as_object() else { return };
    let views = worker.views();
    let ids = column(views, "gpu_utilization", "device");
    for (device, theirs) in expected {
        let row = ids.iter().position(|id| id.map(|id| id.to_string()) == Some(device.clone()));
        for (metric, name, scale) in [
            ("kernel_busy_ratio", "utilization", 1.0),
            ("sm_efficiency_ratio", "est_sm_efficiency", 1.0),
            ("occupancy_ratio", "est_achieved_occupancy_pct", 100.0),
        ] {
            let ours = row
                .and_then(|row| column(views, "gpu_utilization", metric)[row])
                .map(|v| v * scale);
            let theirs = theirs[name].as_f64();
            let slack = 10.0 * RELATIVE * theirs.unwrap_or(0.0).abs().max(1.0);
            found.close(&format!("device {device} {name}"), ours, theirs, slack);
        }
    }
}

/// Numbers of a column, in the view's own order.
fn column(views: &Views, view: &str, column: &str) -> Vec<Option<f64>> {
    let table = views.table(view);
    let index = table.index(column).unwrap();
    table
        .rows
        .iter()
        .map(|row| match &row[index] {
            Value::Null => None,
            value => value.as_f64(),
        })
        .collect()
}

/// Name, memory and capability as the plugin prints them.
fn summary(worker: &Worker, found: &mut Differences) {
    let overview = worker.golden("overview.json");
    let Some(lines) = overview["gpu_summary"].as_array() else { return };
    let table = worker.views().table("gpu_summary");
    let cell = |row: Option<&Vec<Value>>, name: &str| {
        row.map_or(Value::Null, |row| row[table.index(name).unwrap()].clone())
    };
    let mut row = None;
    for line in lines {
        let (title, theirs) = (line["title"].as_str().unwrap(), line["value"].as_str().unwrap());
        if let Some(device) = title.strip_prefix("GPU ").and_then(|t| t.strip_suffix(':')) {
            let at = table.index("device").unwrap();
            row = table.rows.iter().find(|row| row[at].to_string() == device);
            found.check(row.is_some(), || format!("no device {device}"));
        }
        let ours = match title {
            "Name" => cell(row, "name").to_string(),
            "Memory" => {
                let bytes = cell(row, "total_memory_bytes").as_f64().unwrap_or(f64::NAN);
                let gib = (bytes / f64::from(1 << 30) * 100.0).round() / 100.0;
                format!("{gib:?} GB")
            }
            "Compute Capability" => cell(row, "compute_capability").to_string(),
            _ => continue,
        };
        // A name that the trace gives as empty is absent here.
        let agree = ours == theirs || (theirs.is_empty() && ours == "-");
        found.check(agree, || format!("{title}: ours {ours}, theirs {theirs}"));
    }
}

/// Share of all kernel time: the plugin's donut, and not its summary, which counts only kernels that it could
/// attach to an operator.
fn tensor_cores(worker: &Worker, found: &mut Differences) {
    let Some(theirs) = worker.golden("gpu_metrics.json")["kernel_tc_used_ratio"].as_f64() else {
        return;
    };
    let views = worker.views();
    let sum = |name| -> f64 { column(views, "gpu_tensor_cores", name).into_iter().flatten().sum() };
    let ours = sum("used_ns") / sum("kernel_ns");
    found.close("tensor cores", Some(ours), Some(theirs), 1e-3);
}

/// The plugin's buckets start with the recording, ours at multiples of their length. So ours are a hundred
/// times as fine, and added up.
fn buckets(worker: &Worker, found: &mut Differences) {
    let metrics = worker.golden("gpu_metrics.json");
    let Some(devices) = metrics["per_gpu"].as_object() else { return };
    for (device, theirs) in devices {
        let Some(buckets) = theirs["utilization_buckets"].as_array() else { continue };
        let at = |i: usize| buckets[i][0].as_f64().unwrap();
        let count = buckets.len() - 1;
        if count < 2 {
            continue;
        }
        let length_us = at(1) - at(0);
        let mut params = Params::default();
        params.set("utilization_bucket_us", length_us / 100.0);
        let views = worker.run().views_with(&params);
        let start_us = start_us(&views);
        let read = |name| column(&views, "gpu_utilization_series", name);
        let (devices, starts) = (read("device"), read("ts_ns"));
        let busy = read("kernel_busy_ns");
        let mut sums = vec![0.0; count];
        for row in 0..devices.len() {
            if devices[row].map(|d| d.to_string()).as_deref() == Some(device) {
                let us = starts[row].unwrap() / 1e3 - start_us;
                let bucket = ((us / length_us) as usize).min(count - 1);
                sums[bucket] += busy[row].unwrap() / 1e3;
            }
        }
        for (i, sum) in sums.iter().enumerate() {
            let length = at(i + 1) - at(i);
            let what = format!("device {device} bucket {i}");
            found.close(&what, Some(sum / length), buckets[i][1].as_f64(), 0.021);
        }
    }
}

/// The start of the plugin's buckets on our clock.
fn start_us(views: &Views) -> f64 {
    let query = "SELECT CAST(coalesce(
            (SELECT min(ts_ns) FROM spans WHERE name = 'PyTorch Profiler (0)'),
            (SELECT min(ts_ns) FROM events WHERE dur_ns IS NOT NULL)
        ) AS DOUBLE)";
    number(&views.sql(query)) / 1e3
}

/// The first twenty stretches. The plugin cuts one wherever a kernel starts or ends; ours go on while the value
/// stays.
fn sm_series(worker: &Worker, found: &mut Differences) {
    let metrics = worker.golden("gpu_metrics.json");
    let Some(devices) = metrics["per_gpu"].as_object() else { return };
    let views = worker.views();
    let read = |name| column(views, "gpu_sm_efficiency_series", name);
    let (ids, starts, lengths) = (read("device"), read("ts_ns"), read("dur_ns"));
    let values = read("sm_efficiency_ratio");
    for (device, theirs) in devices {
        let Some(first) = theirs["sm_efficiency_first"].as_array() else { continue };
        let mine: Vec<usize> = (0..ids.len())
            .filter(|&row| ids[row].map(|id| id.to_string()).as_deref() == Some(device))
            .collect();
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        // The plugin takes the residue of +x and -x for a value.
        for range in first.iter().filter(|range| number(&range[2]) > 1e-9) {
            let (from, to) = (number(&range[0]), number(&range[1]));
            let (from, to) = (from - number(&first[0][0]), to - number(&first[0][0]));
            let around = mine.iter().find(|&&row| {
                let start = (starts[row].unwrap() - starts[mine[0]].unwrap()) / 1e3;
                start <= from + SLACK_US && start + lengths[row].unwrap() / 1e3 >= to - SLACK_US
            });
            let ours = around.and_then(|&row| values[row]);
            found.close(&format!("{from} to {to}"), ours, Some(number(&range[2])), 1e-6);
        }
    }
}
