//! Views of memory snapshots and memory timelines, on numbers that can be checked by hand.

use crate::support::{Run, rows};

#[test]
fn snapshot_segments_split_into_used_and_free_bytes() {
    let mut run = Run::default();
    run.rank(0).snapshot(0);
    let session = run.open();
    let columns = [
        "total_bytes",
        "allocated_bytes",
        "rounding_bytes",
        "pending_bytes",
        "inactive_bytes",
        "split_bytes",
        "largest_free_bytes",
        "free_block_count",
    ];
    assert_eq!(
        rows(&session, "snapshot_segments_usage", &columns),
        ["1000 600 100 0 400 400 300 2"]
    );
    let columns = [
        "reserved_bytes",
        "requested_bytes",
        "returnable_bytes",
        "split_ratio",
        "free_fragmentation_ratio",
    ];
    assert_eq!(rows(&session, "snapshot_fragmentation", &columns), ["1000 500 0 0.4 0.25"]);
}

#[test]
fn snapshot_holders_add_up() {
    let mut run = Run::default();
    run.rank(0).snapshot(0);
    let session = run.open();
    let columns = ["allocated_bytes", "allocation_count", "user_frame"];
    for view in ["snapshot_peak", "snapshot_by_stack", "snapshot_by_frame"] {
        assert_eq!(rows(&session, view, &columns), ["500 1 train.py:7 step"], "{view}");
    }
    assert_eq!(rows(&session, "snapshot_oom_holders", &columns), ["200 1 train.py:7 step"]);
    let columns = ["requested_bytes", "allocated_bytes", "unused_bytes"];
    assert_eq!(rows(&session, "snapshot_oom", &columns), ["5000 200 800"]);
    let curve =
        rows(&session, "snapshot_curve", &["position", "allocated_bytes", "reserved_bytes"]);
    assert_eq!(curve, ["-1 0 -", "0 200 1000", "3 0 1000", "4 500 1000"]);
    let columns = ["category", "allocated_bytes", "ever_allocated_bytes", "allocation_count"];
    assert_eq!(rows(&session, "snapshot_by_category", &columns), ["activation 500 700 2"]);
}

#[test]
fn timeline_categories_add_up_at_the_peak() {
    let mut run = Run::default();
    run.rank(0).timeline(0, &[(100, 0), (100, 30), (20, 60), (20, 0)]);
    let session = run.open();
    let columns = [
        "category",
        "at_peak_bytes",
        "peak_bytes",
        "peak_ts_ns",
        "mean_bytes",
        "start_bytes",
        "end_bytes",
    ];
    let categories = rows(&session, "memory_timeline_categories", &columns);
    assert_eq!(categories[0], "activation 30 60 20 30 0 0");
    assert_eq!(categories[5], "parameter 100 100 0 73 100 20");
    assert_eq!(categories.len(), 8);
    let columns =
        ["dur_ns", "start_bytes", "peak_bytes", "peak_ts_ns", "end_bytes", "unknown_ratio"];
    assert_eq!(rows(&session, "memory_timeline_summary", &columns), ["30 100 130 10 20 0"]);
    let columns = ["since_start_ns", "total_bytes"];
    assert_eq!(
        rows(&session, "memory_timeline_curve", &columns),
        ["0 100", "10 130", "20 80", "30 20"]
    );
}

#[test]
fn segment_map_tiles_segments_and_tells_why_memory_is_free() {
    let mut run = Run::default();
    run.rank(0).snapshot(0);
    let session = run.open();
    let columns = ["moment", "offset_bytes", "bytes", "rounding_bytes", "owner", "place"];
    assert_eq!(
        rows(&session, "memory_segment_map", &columns),
        [
            "end 0 512 12 activation train.py:7 step",
            "end 512 488 0 free_in_used_segments -",
            "oom 0 512 312 activation train.py:7 step",
            "oom 512 488 0 free_too_small -",
            "peak 0 512 12 activation train.py:7 step",
            "peak 512 488 0 free_in_used_segments -",
        ]
    );
    let columns = ["moment", "is_allocated", "owner", "bytes"];
    assert_eq!(
        rows(&session, "memory_owners", &columns),
        [
            "end false free_in_used_segments 400",
            "end false rounding 100",
            "end true activation 500",
            "oom false free_too_small 488",
            "oom false rounding 312",
            "oom true activation 200",
            "peak false free_in_used_segments 488",
            "peak false rounding 12",
            "peak true activation 500",
        ]
    );
    let columns = ["oom_unused_bytes", "oom_unused_owner", "oom_unused_owner_bytes"];
    assert_eq!(rows(&session, "memory_pressure", &columns), ["800 free_too_small 488"]);
}

#[test]
fn flame_graph_and_series_add_up_to_the_peak() {
    let mut run = Run::default();
    run.rank(0).snapshot(0);
    let session = run.open();
    let columns = ["number", "bytes", "self_bytes", "depth", "frame", "folded"];
    assert_eq!(
        rows(&session, "memory_flame_graph", &columns),
        ["0 500 500 0 train.py:7 step train.py:7 step;step"]
    );
    let columns = ["position", "owner", "bytes", "allocated_bytes"];
    assert_eq!(
        rows(&session, "memory_owner_series", &columns),
        ["0 activation 200 200", "3 activation 0 0", "4 activation 500 500"]
    );
}
