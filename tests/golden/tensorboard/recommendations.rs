//! The plugin's seven recommendations, trace by trace, against the verdicts of the rules that took their place.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Area, Compare, Differences, Worker};
use crate::runs;

pub(crate) const AREA: Area = Area {
    name: "recommendations",
    golden: "overview.json",
    comparisons: &[
        ("R1", Compare::Worker(rule::<0>)),
        ("R2", Compare::Worker(rule::<1>)),
        ("R3", Compare::Worker(rule::<2>)),
        ("R4", Compare::Worker(rule::<3>)),
        ("R5", Compare::Worker(rule::<4>)),
        ("R6", Compare::Worker(rule::<5>)),
        ("R7", Compare::Worker(rule::<6>)),
    ],
    exceptions: &[
        ("critical_path_alexnet", "R5", START_UP),
        ("diff_control", "R4", NCCL),
        ("mi300_resnet_ddp", "R4", NCCL),
        (
            "generated/synth_comm_10pct",
            "R4",
            "exactly 10 %: ours fires at 10 %, the plugin above it",
        ),
        (
            "generated/synth_priority",
            "R5",
            "copies count as use: 64.5 % busy, 43.6 % with a kernel",
        ),
        (
            "mi210_gpu_only",
            "R5",
            "the plugin's window is inverted without host events: 0 %; it is busy 89 %",
        ),
        ("generated/synth_nccl_mismatch", "R4", FEW),
        ("generated/synth_nccl_mismatch", "R5", TAIL),
        ("generated/synth_optree", "R5", FEW),
        ("generated/synth_util_3gpu", "R5", FEW),
        ("generated/synth_util_49p9", "R5", TAIL),
        ("amd_minitoy", "R5", START_UP),
        ("amd_minitoy", "R6", MATRIX),
        ("mi300_bert", "R6", SIXTEEN),
        ("mi300_qwen", "R6", SIXTEEN),
        ("mi300_resnet_ddp", "R6", SIXTEEN),
        ("mi300_torch_compile_triton", "R6", SIXTEEN),
        ("vllm_decode_graph", "R6", SIXTEEN),
        ("generated/synth_modern_gpu_annotation", "R6", NVJET),
        ("generated/synth_modern_no_gpu_annotation", "R6", NVJET),
        ("generated/synth_tc_nvjet", "R6", NVJET),
        ("generated/synth_full_kernel", "R6", UNTYPED),
        ("generated/synth_priority", "R6", UNTYPED),
        (
            "diff_test",
            "R6",
            "CompiledFunction launches volta_sgemm kernels: no operator of the plugin's list",
        ),
        (
            "generated/synth_memory_cpu_vs_gpu",
            "R7",
            "the host's memory, held against that of a GPU",
        ),
    ],
    at_least: 350,
};

const NCCL: &str = "the plugin takes NCCL's kernels for computation";
const MATRIX: &str = "the kernels use matrix cores: Cijk_ with a matrix instruction";
const SIXTEEN: &str = "AMD: inputs are bfloat16, and the kernels use matrix cores";
const NVJET: &str = "nvjet kernels use tensor cores; they are not in the plugin's list";
const UNTYPED: &str = "neither the types of inputs nor the kernel's name say that it is a product of 32-bit \
     floats: unknown";

const FEW: &str = "a handful of GPU activities: the finding is info, the advice is to record again";
const START_UP: &str = "most of the recording is start-up, in which no finding is above medium";
const TAIL: &str = "most of the idle time is after the last work of the recording: unknown";

/// One of the plugin's recommendations and our rule for it.
struct Pair {
    /// Words that only this recommendation has.
    words: &'static str,
    code: &'static str,
    /// Severities that mean what the plugin's threshold means; ours has milder ones below it.
    severities: &'static [&'static str],
}

const ANY: &[&str] = &["info", "low", "medium", "high", "critical"];

const PAIRS: [Pair; 7] = [
    Pair { words: "input data loading", code: "IN001", severities: ANY },
    Pair { words: "instead of DataParallel", code: "CM008", severities: ANY },
    Pair { words: "NCCL backend", code: "CM007", severities: ANY },
    // More than 10 %.
    Pair {
        words: "cost on communication",
        code: "CM001",
        severities: &["medium", "high", "critical"],
    },
    // Less than 50 %.
    Pair { words: "low utilization", code: "GU001", severities: &["critical"] },
    Pair { words: "Tensor Cores eligible", code: "PR001", severities: ANY },
    Pair { words: "limit of device memory", code: "MM001", severities: ANY },
];

fn rule<const RULE: usize>(worker: &Worker, found: &mut Differences) {
    let pair = &PAIRS[RULE];
    let overview = worker.golden("overview.json");
    let Some(advice) = overview["recommendations"].as_array() else { return };
    let theirs = advice.iter().any(|text| text.as_str().unwrap().contains(pair.words));
    let verdicts = verdicts(&worker.path);
    let ours = verdicts.get(pair.code).cloned().unwrap_or_default();
    let fires = pair.severities.contains(&ours.split(':').next().unwrap_or_default());
    found.check(fires == theirs, || {
        format!(
            "{} {}: the plugin {}, {} {ours}",
            worker.trace,
            worker.name,
            if theirs { "fires" } else { "is silent" },
            pair.code
        )
    });
}

/// Severity, `pass`, or why the verdict is unknown; by code.
fn verdicts(path: &Path) -> BTreeMap<String, String> {
    let report = runs::report_with_preview(path);
    let report = report.as_ref().as_ref().unwrap();
    let mut verdicts: BTreeMap<String, String> =
        report.passed.iter().map(|code| (code.clone(), "pass".to_owned())).collect();
    for unknown in &report.unknown {
        verdicts.insert(unknown.code.clone(), format!("unknown: {}", unknown.reason));
    }
    for finding in &report.findings {
        verdicts.insert(finding.code.clone(), finding.severity.as_str().to_owned());
    }
    verdicts
}
