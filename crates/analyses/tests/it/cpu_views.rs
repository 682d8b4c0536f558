//! Programs on the CPU, and what recordings hold, on runs small enough to count by hand.

use crate::support::{Run, rows};

const DOUBLE: &str = r#"["double","double"]"#;

/// Two steps of 1000 ns in which a product takes 300, a slow convolution 200 and a loader 100.
fn run() -> Run {
    let mut run = Run::default();
    run.rank(0).without_device();
    for step in 0..2 {
        let start = step * 1_000;
        run.step(0, step, start, 1_000, step == 1)
            .annotation(
                0,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                start,
                100,
            )
            .op(0, "aten::mm", start + 200, 300)
            .with_input_types(DOUBLE)
            .with_input_dims("[[8, 8], [8, 8]]")
            .op(0, "aten::_slow_conv2d_forward", start + 600, 200)
            // Another thread does not count.
            .op_on(0, 5, "aten::mul", start + 900, 50);
    }
    run
}

#[test]
fn time_on_the_cpu_is_in_operators_loaders_and_python() {
    let session = run().open();
    // The annotations are on the thread of the operators or on another one: only its own loader counts.
    let columns =
        ["step_count", "window_ns", "op_ns", "outer_op_count", "has_collectives", "uses_device"];
    assert_eq!(rows(&session, "op_cpu_work", &columns), ["2 2000 1000 4 false false"]);
    let classes = [
        "top_op_name",
        "top_op_kind",
        "top_op_count",
        "top_op_ns",
        "top_op_ratio",
        "slow_conv_name",
        "slow_conv_ratio",
        "double_ratio",
    ];
    assert_eq!(
        rows(&session, "op_cpu_work", &classes),
        ["aten::mm matmul 2 600 0.3 aten::_slow_conv2d_forward 0.2 0.3"]
    );
    assert_eq!(rows(&session, "op_cpu_work", &["top_op_dims"]), ["[[8, 8], [8, 8]]"]);
}

#[test]
fn ranks_with_a_device_do_not_run_on_the_cpu() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 100, true).op(0, "aten::mm", 0, 10).kernel(
        0,
        "computation",
        0,
        10,
        None,
    );
    let columns = ["has_device", "window_ns", "uses_device", "top_op_name"];
    assert_eq!(rows(&run.open(), "op_cpu_work", &columns), ["true - - -"]);
}

#[test]
fn launches_without_kernels_are_a_device_that_was_not_recorded() {
    let mut run = Run::default();
    run.rank(0).without_device().step_from("trace", 0, 0, 0, 1_000, true).op(
        0,
        "aten::cudnn_convolution",
        0,
        500,
    );
    run.call(0, "cudaLaunchKernel", 10, 5);
    run.call(0, "cudaMemcpyAsync", 20, 5);
    let session = run.open();
    assert_eq!(rows(&session, "op_cpu_work", &["uses_device"]), ["true"]);
    let columns = [
        "op_count",
        "call_count",
        "launch_count",
        "device_event_count",
        "device_op_count",
        "device_op_name",
        "step_count",
    ];
    assert_eq!(
        rows(&session, "trace_recording", &columns),
        ["1 2 1 0 1 aten::cudnn_convolution 0"]
    );
}

#[test]
fn recording_counts_what_other_tools_wrote() {
    let mut run = Run::default();
    run.rank(0).without_device();
    for category in ["sched", "irq", "sched", "overhead"] {
        run.span(0, category, "x", 0, 10);
    }
    let columns = ["op_count", "foreign_event_count", "foreign_kinds", "device_event_count"];
    assert_eq!(rows(&run.open(), "trace_recording", &columns), ["0 3 sched, irq 0"]);
}
