//! Replays of graphs with their captures, and hardware counters.

use crate::support::{Run, rows};

/// A graph of three kernels, of which the first two were captured from `aten::mm`: 100..200, 150..250, 300..400 us.
fn replayed_twice() -> Run {
    let mut run = Run::default();
    run.rank(0).step(0, 0, 0, 10_000, true);
    for start in [0, 1_000] {
        run.kernel(0, "gemm", start + 100, 100, Some((start + 10, 5)))
            .kernel(0, "gemm", start + 150, 100, Some((start + 11, 5)))
            .kernel(0, "computation", start + 300, 100, Some((start + 12, 5)))
            .launched_by_graph(3);
    }
    run
}

#[test]
fn graph_replays_separate_gaps_from_work() {
    let mut run = replayed_twice();
    run.captured_from(3, "aten::mm", "[[2, 2], [2, 2]]");
    let columns = [
        "launch_ts_ns",
        "kernel_count",
        "matched_count",
        "confidence",
        "dur_ns",
        "busy_ns",
        "gap_ns",
        "sum_ns",
        "delay_ns",
    ];
    assert_eq!(
        rows(&run.open(), "graph_replays", &columns),
        ["1010 3 3 exact 300 250 50 300 90"],
        "the other launch has no row in graph_matches"
    );
}

#[test]
fn graph_operators_count_each_replay_of_a_captured_call() {
    let mut run = replayed_twice();
    run.captured_from(3, "aten::mm", "[[2, 2], [2, 2]]");
    let session = run.open();
    let columns = ["op_name", "call_count", "kernel_count", "sum_ns", "ratio"];
    assert_eq!(rows(&session, "graph_operators", &columns), ["aten::mm 3 3 300 1"]);
    let columns = ["capture", "node_order", "op_name", "call_count", "sum_ns"];
    assert_eq!(
        rows(&session, "graph_node_times", &columns),
        ["0 0 aten::mm 1 100", "0 1 aten::mm 1 100", "0 2 aten::mm 1 100"]
    );
    let columns = ["sum_ns", "busy_ns", "operator_ns", "replay_ns", "replay_node_ns", "unowned_ns"];
    assert_eq!(rows(&session, "gpu_time_coverage", &columns), ["600 500 300 300 300 300"]);
}

#[test]
fn hardware_counters_are_averaged_over_samples_in_kernels() {
    let mut run = Run::default();
    run.rank(0).kernel(0, "computation", 100, 100, None);
    // The sample at the end of the kernel is idle.
    for (ts_ns, value) in [(50, 0.0), (100, 60.0), (150, 80.0), (200, 20.0)] {
        run.hardware_counter(0, "sm__throughput", ts_ns, value);
    }
    let columns =
        ["device", "name", "sample_count", "mean", "min", "max", "busy_sample_count", "busy_mean"];
    assert_eq!(
        rows(&run.open(), "gpu_hardware_counters", &columns),
        ["0 sm__throughput 4 40 0 80 2 70"]
    );
}

#[test]
fn gpu_modules_divide_the_time_of_a_device_by_module() {
    let mut run = replayed_twice();
    run.without_capture(3);
    run.in_module(3, "layers.0.attention").in_module(1, "layers.0.mlp");
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "gpu_modules",
            &["module", "kernel_count", "sum_ns", "ratio", "replay_ns", "name"]
        ),
        [
            "layers.0.attention 2 200 0.333333 200 gemm",
            "layers.0.mlp 1 100 0.166667 100 computation",
            "- 3 300 0.5 0 gemm",
        ]
    );
    assert_eq!(
        rows(&session, "graph_coverage", &["marked_replay_ratio", "module", "module_replay_ratio"]),
        ["0.5 layers.0.attention 0.333333"]
    );
}
