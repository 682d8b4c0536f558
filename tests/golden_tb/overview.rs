//! Overview: steps extended to their device work, GPU utilization, SM efficiency and occupancy.

use analyses::Session;
use trace_model::Value;

use super::{Area, Compare, Differences, RELATIVE, SLACK_US, Worker};

pub(crate) const AREA: Area = Area {
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
    ],
    exceptions: &[
        ("generated/synth_modern_gpu_annotation", "steps", COPIES),
        ("mi300_resnet_ddp", "steps", COPIES),
        ("mi210_gpu_only", "steps", NO_HOST),
        ("mi210_gpu_only", "gpu_metrics", NO_HOST),
        ("ns_resolution", "gpu_metrics", DOUBLES),
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
        ("b200_eager", "Kernel", B200),
        ("b200_eager", "Communication", B200),
        ("b200_eager", "Runtime", B200),
        ("b200_eager", "CpuOp", B200),
        ("h100_bert", "Runtime", DRIVER),
        ("h100_bert", "CpuOp", DRIVER),
        ("h100_qwen", "Runtime", DRIVER),
        ("h100_qwen", "CpuOp", DRIVER),
    ],
    at_least: 150,
};

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

fn steps(worker: &Worker, found: &mut Differences) {
    let overview = worker.golden("overview.json");
    let Some(steps) = overview["steps"].as_array().filter(|steps| !steps.is_empty()) else {
        return;
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or(f64::NAN);
    let theirs: Vec<f64> = steps.iter().map(|s| number(&s["end"]) - number(&s["start"])).collect();
    let ours: Vec<f64> = column(worker.session(), "step_time", "dur_ns")
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
    let by_step = column(worker.session(), "step_breakdown_by_step", ours);
    for (i, step) in steps.iter().enumerate() {
        let ours = by_step.get(i).copied().flatten();
        check(&format!("step {i}"), ours, step["cost_us"][theirs].as_f64());
    }
    let mean = column(worker.session(), "step_breakdown", ours);
    check("mean", mean.first().copied().flatten(), overview["average_us"][theirs].as_f64());
}

fn devices(worker: &Worker, found: &mut Differences) {
    let metrics = worker.golden("gpu_metrics.json");
    let Some(expected) = metrics["per_gpu"].as_object() else { return };
    let session = worker.session();
    let ids = column(session, "gpu_utilization", "device");
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
            let slack = 10.0 * RELATIVE * theirs.unwrap_or(0.0).abs().max(1.0);
            found.close(&format!("device {device} {name}"), ours, theirs, slack);
        }
    }
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
