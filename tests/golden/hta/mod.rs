//! Our views against what Holistic Trace Analysis 0.5.0 computed on the traces of the corpus.
//!
//! Where the corpus has numbers from HTA without its rounding to microseconds, those count; numbers that it
//! prints with few digits are compared to those digits. Intended differences are listed in [`EXCEPTIONS`] with
//! the reason; a test whose exception is not needed any more fails too.

mod compare;
mod device;
mod launches;
mod run;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use compare::{Differences, Golden, Run};
use serde_json::Value as Json;

use crate::harness::{self, Case, first_lines};
use crate::runs;
use crate::support::corpus::{corpus, goldens};

/// `(trace, analysis, reason)`; a trace `*` stands for all. An analysis may name one part of the
/// comparison: `memory_bw_summary: max`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("*", "time_blocked_full_queue_10: ratio", SHARE),
    ("*", "time_blocked_full_queue_100: ratio", SHARE),
    ("*", "time_blocked_full_queue_1024: ratio", SHARE),
    ("b200_eager", "temporal_breakdown", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_kernels", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_kernels_all", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_types", MULTICAST),
    ("b200_eager", "idle_time_breakdown", NEGATIVE_IDLE),
    ("b200_eager", "idle_interval_stats", NEGATIVE_IDLE),
    ("b200_eager", "queue_length_summary", LAUNCHES),
    ("cpu_only", "cpu_user_annotation_breakdown", ROUNDING),
    ("critical_path_alexnet", "temporal_breakdown", SYNCS),
    ("critical_path_alexnet", "gpu_kernel_breakdown_types", SYNCS),
    ("critical_path_alexnet", "gpu_kernel_breakdown_kernels", SYNCS),
    ("critical_path_alexnet", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("critical_path_simple_add", "temporal_breakdown", SYNCS),
    ("critical_path_simple_add", "gpu_kernel_breakdown_types", SYNCS),
    ("critical_path_simple_add", "gpu_kernel_breakdown_kernels", SYNCS),
    ("critical_path_simple_add", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("critical_path_simple_add", "queue_length_summary", TIES),
    ("cuda_event_sync", "temporal_breakdown", SYNCS),
    ("cuda_event_sync_multi_stream", "temporal_breakdown", SYNCS),
    ("cuda_event_sync_multi_stream", "gpu_kernel_breakdown_types", SYNCS),
    ("cuda_event_sync_multi_stream", "gpu_kernel_breakdown_kernels", SYNCS),
    ("cuda_event_sync_multi_stream", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("diff_control", "queue_length_summary", TIES),
    ("diff_test", "idle_time_breakdown", NEGATIVE_IDLE),
    ("diff_test", "idle_interval_stats", NEGATIVE_IDLE),
    ("diff_test", "memory_bw_summary", RESIDUES),
    ("diff_test", "memory_bw_summary: max", TIES),
    ("diff_test", "queue_length_summary", TIES),
    ("generated/cpu_gpt_stack", "cpu_user_annotation_breakdown", ROUNDING),
    ("h100_qwen", "idle_time_breakdown", UNLINKED),
    ("h100_qwen", "idle_interval_stats", UNLINKED),
    ("mi300_bert", "queue_length_summary", LAUNCHES),
    ("mi300_qwen", "idle_interval_stats", UNLINKED),
    ("mi300_qwen", "queue_length_summary", LAUNCHES),
    ("mi300_qwen", "time_blocked_full_queue_100", LAUNCHES),
    ("mi300_resnet_ddp", "gpu_kernels_with_user_annotations_agg", DOUBLES),
    ("mi300_resnet_ddp", "queue_length_summary", LAUNCHES),
    ("mi300_torch_compile_triton", "temporal_breakdown", TRITON),
    ("mi300_torch_compile_triton", "gpu_kernel_breakdown_types", TRITON),
    ("mi300_torch_compile_triton", "gpu_kernel_breakdown_kernels", TRITON),
    ("mi300_torch_compile_triton", "gpu_kernel_breakdown_kernels_all", TRITON),
    ("mi300_torch_compile_triton", "queue_length_summary", LAUNCHES),
    ("mi300_torch_compile_triton", "time_blocked_full_queue_10", LAUNCHES),
    ("ns_resolution", "idle_time_breakdown", DOUBLES),
    ("ns_resolution", "idle_interval_stats", DOUBLES),
    ("ns_resolution", "queue_length_summary", DOUBLES),
    ("resnet50_workers0", "queue_length_summary", TIES),
    ("resnet50_workers4", "queue_length_summary", TIES),
    ("sglang_decode", "queue_length_summary", LAUNCHES),
    ("triton_example", "temporal_breakdown", TRITON),
    ("triton_example", "gpu_kernel_breakdown_types", TRITON),
    ("triton_example", "gpu_kernel_breakdown_kernels", TRITON),
    ("triton_example", "gpu_kernel_breakdown_kernels_all", TRITON),
    ("two_ranks", "aten_op_kernels_and_delay", TIES),
];

const TRITON: &str =
    "HTA takes the host operators of Triton kernels, which carry `stream: 0`, for device work";
const SYNCS: &str =
    "HTA counts synchronizations recorded on a stream as work, though the stream waits";
const NEGATIVE_IDLE: &str =
    "activities of one stream overlap, which HTA counts as negative idle time";
const UNLINKED: &str =
    "HTA takes the file's first event for the launch of some work whose launch is not in the trace";
const LAUNCHES: &str = "HTA knows some launching functions; we count all but those of graphs";
const TIES: &str = "HTA leaves the order of events in the same microsecond to an unstable sort";
const DOUBLES: &str =
    "HTA holds times since 1970 in doubles: events less than 0.25 us apart lose their order";
const ROUNDING: &str =
    "the corpus has HTA's numbers for this trace only as rounded to microseconds";
const RESIDUES: &str = "HTA counts what rounding leaves of +x and -x as a bandwidth of 1e-14";
const SHARE: &str =
    "HTA divides by the time between first and last event; we, by that in which there are queues";

const MULTICAST: &str =
    "multimem_all_reduce is computation to HTA, which knows NCCL's kernels only";

type Compare = fn(&Run, &Json, &mut Differences);

/// Files of golden numbers, and how our views are compared with them.
const ANALYSES: &[(&str, Compare)] = &[
    ("temporal_breakdown", device::temporal_breakdown),
    ("idle_time_breakdown", device::idle_time_breakdown),
    ("idle_interval_stats", device::idle_intervals),
    ("gpu_kernel_breakdown_types", device::kernel_types),
    ("gpu_kernel_breakdown_kernels", device::top_kernels),
    ("gpu_kernel_breakdown_kernels_all", device::kernels),
    ("gpu_kernel_breakdown_kernels_all", device::kernels_across_ranks),
    ("comm_comp_overlap", device::overlap),
    ("memory_bw_summary", device::memory_bandwidth),
    ("gpu_user_annotation_breakdown", device::device_annotations),
    ("cpu_user_annotation_breakdown", device::host_annotations),
    ("gpu_kernels_with_user_annotations_agg", device::annotated_kernels),
    ("queue_length_summary", launches::queue_length),
    ("time_blocked_full_queue_10", launches::full_queue_10),
    ("time_blocked_full_queue_100", launches::full_queue_100),
    ("time_blocked_full_queue_1024", launches::full_queue_1024),
    ("launch_stats_summary", launches::launches),
    ("launch_stats_nomem_counts", launches::launches_of_kernels),
    ("aten_op_kernels_and_delay", launches::op_kernels),
    ("profiler_steps", run::steps),
    ("load_info", run::events),
    ("potential_stragglers", run::stragglers),
];

/// One test per trace and file of golden numbers.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut names = BTreeSet::new();
    for (trace, folder) in goldens(&corpus().join("golden")) {
        let golden = Golden::open(&folder);
        let analyses: BTreeSet<&str> = ANALYSES.iter().map(|(analysis, _)| *analysis).collect();
        for analysis in analyses.into_iter().filter(|analysis| golden.read(analysis).is_some()) {
            names.insert((trace.clone(), analysis));
            let (of, folder) = (trace.clone(), folder.clone());
            let run = move || compare(&of, analysis, &folder);
            cases.push(Case::of_trace(&trace, analysis, run));
        }
    }
    for (analysis, _) in ANALYSES {
        harness::require(&format!("hta: {analysis}"), 1);
    }
    for (_, about, _) in EXCEPTIONS.iter().filter(|(trace, ..)| *trace == "*") {
        harness::require(&exception_for_all(about), 1);
    }
    cases.push(Case::new("exceptions_name_existing_tests", move || {
        for (trace, about, _) in EXCEPTIONS.iter().filter(|(trace, ..)| *trace != "*") {
            let analysis = analysis_of(about);
            let is_test = names.iter().any(|(of, name)| of == trace && *name == analysis);
            assert!(is_test, "there is no test {trace}::{analysis}: remove the exception");
        }
    }));
    cases
}

/// The analysis of an exception, without the part of the comparison.
fn analysis_of(about: &str) -> &str {
    about.split(": ").next().unwrap_or(about)
}

fn exception_for_all(about: &str) -> String {
    format!("hta: the exception of all traces for {about}")
}

fn compare(trace: &str, analysis: &str, golden: &Path) {
    let run = Run(runs::open(trace));
    let golden = Golden::open(golden);
    let expected = golden.read(analysis).expect("golden numbers");
    let mut found = Differences::new(&golden);
    for (_, compare) in ANALYSES.iter().filter(|(name, _)| *name == analysis) {
        found.about("");
        compare(&run, &expected, &mut found);
    }
    harness::count(&format!("hta: {analysis}"), found.compared);

    let mut report = String::new();
    let mut needed = BTreeSet::new();
    for (part, lines) in &found.lines {
        let about =
            if part.is_empty() { analysis.to_owned() } else { format!("{analysis}: {part}") };
        match EXCEPTIONS.iter().find(|(t, a, _)| (*t == trace || *t == "*") && *a == about) {
            Some(("*", about, _)) => harness::count(&exception_for_all(about), 1),
            Some((_, about, _)) => _ = needed.insert(*about),
            None => {
                let differ = lines.len();
                write!(report, "{trace} {about}, {differ} differences:\n{}", first_lines(lines))
                    .unwrap();
            }
        }
    }
    for (_, about, _) in
        EXCEPTIONS.iter().filter(|(t, a, _)| *t == trace && analysis_of(a) == analysis)
    {
        if !needed.contains(about) {
            writeln!(report, "{trace} {about} agrees now: remove the exception").unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}
