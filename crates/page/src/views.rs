//! The views that the page reads.

/// The views that the page of a run reads, for
/// [`OpenOptions::later_views`](trace_advisor::OpenOptions::later_views): those that rules read, too, are then computed
/// once.
pub const VIEWS: &[&str] = &[
    "comm_arrivals",
    "comm_by_name",
    "comm_collectives",
    "comm_stragglers",
    "comm_wait_by_step",
    "critical_path_by_step",
    "critical_path_names",
    "critical_path_summary",
    "gpu_idle_causes",
    "gpu_utilization_by_step",
    "idle_gap_causes",
    "idle_source_lines",
    "kernel_by_name",
    "loader_fetches",
    "loader_fetches_by_step",
    "memory_flame_graph",
    "memory_log",
    "memory_owner_series",
    "memory_owners",
    "memory_peak_holders",
    "memory_segment_map",
    "memory_timeline_curve",
    "op_in_steps",
    "op_roofline",
    "snapshot_peak",
    "source_lines",
    "step_breakdown_by_step",
    "step_time",
    "system_metrics_summary",
];
