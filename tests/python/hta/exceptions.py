"""Where HTA and this package differ on purpose. Each reason names its paragraph in docs/evidence/differences.md."""

from __future__ import annotations

TYPES = "**Kernel types (`gpu_kernel_breakdown`).**"
TOP = "**Top kernels (`gpu_top_kernels`).**"
OPERATORS = "**Operators and their kernels (`op_kernels`).**"
WAITS = "**A waiting stream is not busy.**"
LAUNCHES = "**Launches (`queue_length`, `kernel_launch_stats`).**"
TIES = "**Ties.**"
STRAGGLERS = "**Stragglers (`comm_potential_stragglers`).**"
EMPTY = "**Empty rows.**"
ANNOTATIONS = "**Annotations (`annotation_breakdown`)**"
ORDER = "**Order of events closer than 0.25 us.**"
ROUNDING = "**Rounding (all nanosecond traces).**"
COUNTERS = "**Hardware counters (`cupti_counters`, `cupti_flops`).**"
PATH = "**Critical path (`hta_critical_path`, `hta_critical_path_edges`).**"
STREAM_0 = "**Trace diff (`advisor diff --hta`, `compare_traces`).**"

#: Reason for a difference by trace and call.
EXCEPTIONS: dict[tuple[str, str], str] = {
    # HTA truncates each interval, and counts what waits on a stream.
    ("critical_path_alexnet", "kernel_types"): WAITS,
    ("critical_path_alexnet", "kernel_types_without_memory"): WAITS,
    ("critical_path_alexnet", "kernels"): WAITS,
    ("critical_path_alexnet", "temporal_breakdown"): WAITS,
    ("critical_path_alexnet", "top_kernels"): WAITS,
    ("cuda_event_sync_multi_stream", "kernel_types"): WAITS,
    ("cuda_event_sync_multi_stream", "kernel_types_without_memory"): WAITS,
    ("cuda_event_sync_multi_stream", "kernels"): WAITS,
    ("cuda_event_sync_multi_stream", "temporal_breakdown"): WAITS,
    ("cuda_event_sync_multi_stream", "top_kernels"): WAITS,
    ("h100_bert", "kernel_types"): TYPES,
    ("h100_bert", "kernel_types_without_memory"): TYPES,
    ("mi300_bert", "kernel_types"): TYPES,
    ("mi300_bert", "kernel_types_without_memory"): TYPES,
    ("nccl_rank", "kernel_types"): TYPES,
    ("nccl_rank", "kernel_types_without_memory"): TYPES,
    ("ns_resolution", "kernel_types"): TYPES,
    ("ns_resolution", "kernel_types_without_memory"): TYPES,
    ("resnet50_workers0", "kernel_types"): EMPTY,
    # HTA describes sums of names where it puts names together.
    ("diff_control", "top_kernels"): TOP,
    ("h100_bert", "top_kernels"): TOP,
    ("mi300_bert", "top_kernels"): TOP,
    ("nccl_rank", "top_kernels"): TOP,
    ("ns_resolution", "top_kernels"): TOP,
    ("resnet50_workers0", "top_kernels"): TOP,
    ("two_ranks", "top_kernels"): TOP,
    # HTA knows some launching functions, and finds operators on other threads.
    ("h100_bert", "kernel_launch_stats"): LAUNCHES,
    ("h100_bert", "kernel_launch_stats_without_memory"): LAUNCHES,
    ("mi300_bert", "kernel_launch_stats"): LAUNCHES,
    ("mi300_bert", "kernel_launch_stats_without_memory"): LAUNCHES,
    ("mi300_bert", "queue_length_summary"): LAUNCHES,
    ("mi300_bert", "queue_length_time_series"): LAUNCHES,
    ("mi300_bert", "time_spent_blocked_on_full_queue"): LAUNCHES,
    ("cupti_counters", "aten_op_kernels_and_delay"): OPERATORS,
    ("diff_control", "aten_op_kernels_and_delay"): OPERATORS,
    ("mi300_bert", "aten_op_kernels_and_delay"): OPERATORS,
    ("nccl_rank", "aten_op_kernels_and_delay"): OPERATORS,
    ("two_ranks", "aten_op_kernels_and_delay"): OPERATORS,
    # HTA sorts events of the same time in an unstable way.
    ("diff_control", "queue_length_summary"): TIES,
    ("diff_control", "queue_length_time_series"): TIES,
    ("resnet50_workers0", "queue_length_summary"): TIES,
    ("resnet50_workers0", "queue_length_time_series"): TIES,
    # HTA holds times as doubles.
    ("ns_resolution", "idle_interval_stats"): ORDER,
    ("ns_resolution", "idle_time_breakdown"): ORDER,
    ("ns_resolution", "queue_length_time_series"): ORDER,
    ("ns_resolution", "time_spent_blocked_on_full_queue"): ROUNDING,
    # HTA fails.
    ("diff_control", "potential_stragglers"): STRAGGLERS,
    ("h100_bert", "potential_stragglers"): STRAGGLERS,
    ("mi300_bert", "potential_stragglers"): STRAGGLERS,
    ("nccl_rank", "potential_stragglers"): STRAGGLERS,
    ("ns_resolution", "potential_stragglers"): STRAGGLERS,
    ("resnet50_workers0", "potential_stragglers"): STRAGGLERS,
    ("cupti_counters", "comm_comp_overlap"): COUNTERS,
    ("cupti_counters", "idle_interval_stats"): COUNTERS,
    ("cupti_counters", "idle_time_breakdown"): COUNTERS,
    ("cupti_counters", "temporal_breakdown"): COUNTERS,
    ("cupti_counters", "critical_path_breakdown"): PATH,
    ("cupti_counters", "critical_path_edges"): PATH,
    ("cupti_counters", "critical_path_summary"): PATH,
    # Ties of HTA's queue length, and times held as doubles.
    ("diff_control", "critical_path_edges"): PATH,
    ("ns_resolution", "critical_path_edges"): PATH,
    ("resnet50_workers0", "critical_path_breakdown"): PATH,
    ("resnet50_workers0", "critical_path_edges"): PATH,
    ("resnet50_workers0", "critical_path_summary"): PATH,
    # Waits of a context have no stream; HTA takes CUPTI's value for that for one.
    ("critical_path_alexnet", "traces"): PATH,
    # HTA gives work on stream 0 no step.
    ("mi300_bert", "traces"): STREAM_0,
    # Old traces have no category for annotations; they are recognized by name.
    ("resnet50_workers0", "cpu_user_annotation_breakdown"): ANNOTATIONS,
}
