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
fn operators_that_communicate_are_no_work_of_the_processor() {
    let mut run = Run::default();
    run.rank(0).without_device().step(0, 1, 0, 1_000, true);
    run.op(0, "gloo:recv", 0, 600).op(0, "c10d::allreduce_", 600, 200).op(0, "aten::add_", 800, 50);
    let session = run.open();
    let columns = [
        "top_op_name",
        "top_op_ratio",
        "communication_ns",
        "communication_ratio",
        "other_op_ratio",
        "has_collectives",
    ];
    assert_eq!(rows(&session, "op_cpu_work", &columns), ["aten::add_ 0.05 800 0.8 0.05 true"]);
    let mut run = Run::default();
    run.rank(0).without_device().step(0, 1, 0, 1_000, true).op(0, "gloo:recv", 0, 600);
    assert_eq!(rows(&run.open(), "op_cpu_work", &["top_op_name", "top_op_ratio"]), ["- 0"]);
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
fn the_time_of_the_host_is_that_of_its_busiest_thread() {
    let mut run = Run::default();
    run.rank(0).without_device().step_from("trace", 0, 0, 0, 1_000, true);
    run.op_on(0, 1, "aten::normal_", 0, 400).op_on(0, 1, "aten::normal_", 400, 300);
    run.op_on(0, 1, "aten::mul", 700, 20);
    for start in [720, 820] {
        run.call(0, "cudaFree", start, 90);
    }
    run.call(0, "cudaLaunchKernel", 910, 5);
    // Another thread works less.
    run.op_on(0, 7, "aten::copy_", 0, 500);
    let session = run.open();
    let columns = [
        "name",
        "kind",
        "call_count",
        "self_ns",
        "outside_count",
        "host_ns",
        "thread_count",
        "rank_launch_count",
    ];
    assert_eq!(
        rows(&session, "trace_host_time", &columns),
        [
            "aten::mul operator 1 20 0 905 2 1",
            "aten::normal_ operator 2 700 0 905 2 1",
            "cudaFree call 2 180 2 905 2 1",
            "cudaLaunchKernel call 1 5 1 905 2 1",
        ]
    );
}

#[test]
fn launches_before_a_wait_are_counted() {
    let counted = |waits: &[(&str, i64)]| {
        let mut run = Run::default();
        run.rank(0).without_device().step_from("trace", 0, 0, 0, 1_000, true);
        for ts_ns in [10, 20, 40] {
            run.call(0, "cudaLaunchKernel", ts_ns, 5);
        }
        for &(name, ts_ns) in waits {
            run.call(0, name, ts_ns, 1);
        }
        rows(&run.open(), "trace_recording", &["launch_count", "waited_launch_count", "wait_name"])
    };
    assert_eq!(counted(&[]), ["3 0 -"]);
    let stream = ("cudaStreamSynchronize", 30);
    assert_eq!(counted(&[stream]), ["3 2 cudaStreamSynchronize"]);
    // One that waits for the device decides.
    let device = ("cudaDeviceSynchronize", 17);
    assert_eq!(counted(&[stream, device]), ["3 1 cudaDeviceSynchronize"]);
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

/// A chain of two element-wise operators of 100 us each, which begins at `ts_ns` on the thread of operators.
fn chain(run: &mut Run, names: [&str; 2], ts_ns: i64) {
    const DIMS: &str = "[[1000, 1000], [1000, 1000], [1000, 1000]]";
    const TYPES: &str = r#"["float","float","float"]"#;
    for (name, ts_ns) in names.into_iter().zip([ts_ns, ts_ns + 100_000]) {
        run.op(0, name, ts_ns, 100_000).with_input_dims(DIMS).with_input_types(TYPES);
    }
}

#[test]
fn chains_belong_to_who_runs_them() {
    let mut run = Run::default();
    run.rank(0).without_device().step_from("trace", 0, 0, 0, 2_000_000, true);
    chain(&mut run, ["aten::mul", "aten::add"], 0);
    // Other operators separate chains.
    run.op(0, "aten::nonzero", 250_000, 20_000);
    // The loss is an operator around its parts.
    run.op(0, "aten::binary_cross_entropy_with_logits", 300_000, 210_000);
    chain(&mut run, ["aten::mul", "aten::sub"], 300_000);
    run.op(0, "aten::nonzero", 550_000, 20_000);
    run.annotation(0, "Optimizer.step#SGD.step", 600_000, 300_000).annotation_on(2);
    chain(&mut run, ["aten::mul_", "aten::add_"], 600_000);
    run.op(0, "aten::nonzero", 1_000_000, 20_000);
    // An update outside of any range is known by its operators.
    chain(&mut run, ["aten::add_", "aten::addcdiv_"], 1_100_000);
    let session = run.open();
    let mut owners = rows(&session, "roofline_cpu_chain_calls", &["owner", "name"]);
    owners.sort();
    assert_eq!(
        owners,
        [
            "loss aten::mul",
            "loss aten::sub",
            "model aten::add",
            "model aten::mul",
            "optimizer aten::add_",
            "optimizer aten::add_",
            "optimizer aten::addcdiv_",
            "optimizer aten::mul_",
        ]
    );
    let columns = ["chain_ns", "chain_ratio", "optimizer_chain_ns", "optimizer_chain_ratio"];
    assert_eq!(rows(&session, "op_cpu_efficiency", &columns), ["400000 0.2 400000 0.2"]);
    let columns = ["chain_owner", "optimizer_chain_name"];
    assert_eq!(rows(&session, "op_cpu_efficiency", &columns), ["model add_ > addcdiv_"]);
}

/// Steps of 10 ms with eight additions of 100 us each, of which the given ones take 2 ms longer.
fn additions(delayed: &[(i64, i64)]) -> Run {
    let mut run = Run::default();
    run.rank(0).without_device().with_shapes();
    for step in 0..3 {
        let start = step * 10_000_000;
        run.step(0, step, start, 10_000_000, step == 2);
        for call in 0..8 {
            let name = if call % 2 == 0 { "aten::add" } else { "aten::mul" };
            let delay_ns = if delayed.contains(&(step, call)) { 2_000_000 } else { 0 };
            run.op(0, name, start + call * 1_200_000, 100_000 + delay_ns)
                .with_input_types(r#"["float", "float"]"#)
                .with_input_dims("[[64, 64], [64, 64]]");
        }
    }
    run
}

#[test]
fn calls_are_delayed_if_they_take_longer_than_others_with_the_same_inputs() {
    let session = additions(&[(0, 2), (1, 3), (2, 2)]).open();
    let columns = ["name", "ts_ns", "self_dur_ns", "usual_ns", "delay_ns"];
    assert_eq!(
        rows(&session, "op_cpu_delayed_calls", &columns),
        [
            "aten::add 2400000 2100000 100000 2000000",
            "aten::mul 13600000 2100000 100000 2000000",
            "aten::add 22400000 2100000 100000 2000000",
        ]
    );
    let columns =
        ["delayed_call_count", "delayed_op_count", "delay_ns", "delay_ratio", "delayed_name"];
    assert_eq!(rows(&session, "op_cpu_efficiency", &columns), ["3 2 6000000 0.2 aten::add"]);
    // Where half of the calls take longer, the usual time is not known.
    let half: Vec<(i64, i64)> =
        (0..3).flat_map(|step| [0, 1, 2, 3].map(|call| (step, call))).collect();
    let session = additions(&half).open();
    assert_eq!(rows(&session, "op_cpu_delayed_calls", &["name"]), [""; 0]);
}

#[test]
fn an_optimizer_that_calls_the_model_is_not_charged_for_its_passes() {
    let mut run = Run::default();
    run.rank(0).without_device();
    // As Lightning does: each step ends in a call of the optimizer, between forward and backward.
    let backward = |run: &mut Run, ts_ns: i64| {
        run.op(0, "autograd::engine::evaluate_function: MulBackward0", ts_ns, 100);
    };
    run.step(0, 0, 0, 1_000, false).step(0, 1, 1_000, 1_000, true);
    backward(&mut run, 0);
    run.annotation(0, "Optimizer.step#SGD.step", 600, 700);
    backward(&mut run, 1_000);
    run.annotation(0, "Optimizer.step#SGD.step", 1_700, 300);
    let session = run.open();
    let phases = ["step", "phase", "ts_ns", "dur_ns"];
    assert_eq!(
        rows(&session, "host_phases", &phases),
        [
            "0 backward 0 100",
            "0 other 100 500",
            "0 forward 600 400",
            "1 backward 1000 100",
            "1 optimizer 1100 200",
            "1 other 1300 400",
            // The recording ends before the backward pass of this call.
            "1 forward 1700 300",
        ]
    );
}
