//! Our views against what Holistic Trace Analysis 0.5.0 computed on the traces of the corpus.
//!
//! Where the corpus has numbers from HTA without its rounding to microseconds, those count; what it
//! prints with few digits is compared to those. What differs on purpose is listed
//! in [`EXCEPTIONS`] with the reason; an exception that is no longer one fails too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compare;
mod device;
mod launches;
mod run;
#[path = "../support/corpus.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use compare::{Differences, Golden, Run};
use ingest::{NoProgress, Options, read_run};
use serde_json::Value as Json;
use support::{corpus, goldens};

/// `(trace, analysis, reason)`; a trace `*` stands for all. An analysis may name one part of the
/// comparison: `memory_bw_summary: max`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("*", "time_blocked_full_queue_10: ratio", SHARE),
    ("*", "time_blocked_full_queue_100: ratio", SHARE),
    ("*", "time_blocked_full_queue_1024: ratio", SHARE),
    ("b200_eager", "temporal_breakdown", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_kernels", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_kernels_all", TRITON),
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

#[test]
fn views_agree_with_hta() {
    let Some(corpus) = corpus() else { return };
    let mut differences: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for (trace, golden) in goldens(&corpus.join("golden")) {
        let folder = corpus.join("traces").join(&trace);
        let dataset = read_run(&folder, &Options::default(), &NoProgress)
            .unwrap_or_else(|e| panic!("{trace}: {e}"));
        let run = Run::new(dataset.tables);
        let golden = Golden::open(&golden);
        for (analysis, compare) in ANALYSES {
            let Some(expected) = golden.read(analysis) else { continue };
            let mut found = Differences::new(&golden);
            compare(&run, &expected, &mut found);
            *compared.entry(analysis).or_default() += found.compared;
            for (part, lines) in found.lines {
                let about = if part.is_empty() {
                    (*analysis).to_owned()
                } else {
                    format!("{analysis}: {part}")
                };
                differences.entry((trace.clone(), about)).or_default().extend(lines);
            }
        }
    }
    for (analysis, _) in ANALYSES {
        let values = compared.get(analysis).copied().unwrap_or(0);
        assert!(values > 0, "{analysis}: nothing compared: is the corpus complete?");
    }

    let mut needed: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut report = String::new();
    for ((trace, about), lines) in &differences {
        let excuse = EXCEPTIONS.iter().find(|(t, a, _)| (*t == trace || *t == "*") && a == about);
        match excuse {
            Some(&(trace, about, _)) => _ = needed.insert((trace, about)),
            None => writeln!(report, "{trace} {about}:\n  {}", lines.join("\n  ")).unwrap(),
        }
    }
    for (trace, about, _) in EXCEPTIONS.iter().filter(|(t, a, _)| !needed.contains(&(*t, *a))) {
        writeln!(report, "{trace} {about}: agrees now, remove the exception").unwrap();
    }
    assert!(report.is_empty(), "\n{report}");
}
