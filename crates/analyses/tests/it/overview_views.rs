//! Overview and tensor cores on runs small enough to count by hand.

use crate::support::{Run, rows};

const FLOAT: &str = r#"["float","float"]"#;
const BFLOAT16: &str = r#"["c10::BFloat16","c10::BFloat16"]"#;

/// One step of 1000 ns on an H100.
fn run() -> Run {
    let mut run = Run::default();
    run.rank(0).device(0, 1 << 30).step(0, 1, 0, 1_000, true);
    run
}

/// An operator with one kernel of 100 ns.
fn op(run: &mut Run, ts: i64, name: &str, types: &str, kernel: &str, tensor_cores: &str) {
    run.op(0, name, ts, 50)
        .with_input_types(types)
        .kernel_on(0, "computation", (0, 7), ts, 100, Some((ts + 1, 5)), Some(1), kernel)
        .launched_by_op()
        .on_tensor_cores(tensor_cores);
}

const SHARES: [&str; 5] = ["used_ns", "eligible_ns", "missed_ns", "unclear_ns", "missed_ratio"];

#[test]
fn fp32_matmul_off_tensor_cores_is_missed_time() {
    let mut run = run();
    op(&mut run, 0, "aten::mm", FLOAT, "ampere_sgemm_128x64_nn", "no");
    op(&mut run, 100, "aten::relu", FLOAT, "relu_kernel", "no");
    op(&mut run, 200, "aten::mm", FLOAT, "cutlass_80_tensorop_s1688gemm", "yes");
    assert_eq!(rows(&run.open(), "gpu_tensor_cores", &SHARES), ["100 200 100 0 0.1"]);
}

/// The plugin advises mixed precision if no name is in its list, whatever the inputs.
#[test]
fn matmul_with_16_bit_inputs_is_not_missed_time() {
    let mut run = run();
    op(&mut run, 0, "aten::mm", BFLOAT16, "my_gemm", "unknown");
    op(&mut run, 100, "aten::convolution_backward", BFLOAT16, "batched_transpose_16x32_half", "no");
    assert_eq!(rows(&run.open(), "gpu_tensor_cores", &SHARES), ["0 200 0 0 0"]);
}

#[test]
fn matmul_of_unknown_type_is_unclear() {
    let mut run = run();
    op(&mut run, 0, "aten::mm", "", "some_kernel", "no");
    op(&mut run, 100, "aten::mm", FLOAT, "my_gemm", "unknown");
    // Types were not recorded, but cuBLAS says it.
    op(&mut run, 200, "aten::addmm", "", "ampere_sgemm_128x64_nn", "no");
    run.kernel_on(0, "computation", (0, 7), 300, 100, None, Some(1), "k")
        .on_tensor_cores("unknown");
    assert_eq!(rows(&run.open(), "gpu_tensor_cores", &SHARES), ["0 300 100 300 0.1"]);
}

/// Layout changes next to a matmul on tensor cores are not matmuls.
#[test]
fn call_with_tensor_core_kernels_is_not_missed_time() {
    let mut run = run();
    op(&mut run, 0, "aten::cudnn_convolution", FLOAT, "sm80_xmma_fprop_tf32f32", "yes");
    run.kernel_on(0, "computation", (0, 7), 100, 50, Some((7, 2)), Some(1), "nchwToNhwcKernel")
        .launched_by_op()
        .on_tensor_cores("no");
    assert_eq!(rows(&run.open(), "gpu_tensor_cores", &SHARES), ["100 150 0 0 0"]);
}

#[test]
fn operators_include_kernels_of_nested_operators() {
    let mut run = run();
    run.op(0, "aten::linear", 0, 100);
    run.op(0, "aten::addmm", 10, 50).at_depth(1).with_input_types(BFLOAT16);
    run.kernel_on(0, "computation", (0, 7), 20, 30, Some((20, 5)), Some(1), "nvjet_hsh")
        .launched_by_op()
        .on_tensor_cores("yes");
    run.op(0, "custom::op", 200, 50);
    run.kernel_on(0, "computation", (0, 7), 210, 10, Some((210, 5)), Some(1), "k")
        .launched_by_op()
        .on_tensor_cores("unknown");
    let columns = ["name", "eligible", "device_total_ns", "used_total_ns", "used_self_ratio"];
    assert_eq!(
        rows(&run.open(), "op_tensor_cores", &columns),
        ["aten::addmm yes 30 30 1", "aten::linear yes 30 30 -", "custom::op unknown 10 0 0"]
    );
}

#[test]
fn gpu_summary_gives_reasons_for_absent_values() {
    let mut run = run();
    run.kernel(0, "computation", 0, 500, None).with_occupancy(0.5, f64::NAN).on_tensor_cores("no");
    let columns = ["name", "compute_capability", "kernel_busy_ratio", "sm_efficiency_ratio"];
    let session = run.open();
    assert_eq!(rows(&session, "gpu_summary", &columns), ["H100 9.0 0.5 0.25"]);
    assert_eq!(
        rows(&session, "gpu_summary", &["occupancy_ratio", "missing"]),
        ["- no kernel has an occupancy in the trace"]
    );
}

#[test]
fn gpu_summary_has_no_compute_capability_of_an_unknown_device() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 1_000, true);
    run.kernel(0, "computation", 0, 500, None);
    let columns = ["name", "compute_capability", "kernel_busy_ratio"];
    assert_eq!(rows(&run.open(), "gpu_summary", &columns), ["- - 0.5"]);
}

#[test]
fn sm_efficiency_ranges_of_equal_value_are_merged() {
    let mut run = run();
    run.kernel(0, "computation", 0, 100, None).with_occupancy(0.5, 0.5);
    run.kernel(0, "computation", 100, 100, None).with_occupancy(0.5, 0.5);
    run.kernel(0, "computation", 150, 100, None).with_occupancy(0.75, 0.5);
    run.kernel(0, "computation", 300, 10, None).with_occupancy(0.75, 0.5);
    let columns = ["ts_ns", "dur_ns", "sm_efficiency_ratio"];
    assert_eq!(
        rows(&run.open(), "gpu_sm_efficiency_series", &columns),
        ["0 150 0.5", "150 50 1", "200 50 0.75", "300 10 0.75"]
    );
}

#[test]
fn run_configuration_describes_the_run() {
    let mut run = run();
    run.annotation(0, "DataParallel.forward", 0, 100).annotation(0, "gloo:all_reduce", 200, 100);
    run.kernel(0, "computation", 0, 10, None);
    run.kernel_on(0, "computation", (1, 7), 0, 10, None, None, "k");
    let columns = [
        "device_type",
        "device_count",
        "device_names",
        "backend",
        "parallelism",
        "data_parallel_count",
        "gpu_collective_count",
        "slow_collective_count",
    ];
    assert_eq!(
        rows(&run.open(), "run_configuration", &columns),
        ["GPU 2 H100 gloo DataParallel 1 0 1"]
    );
}

/// The views that say how much of a step communicates and does not compute.
#[test]
fn views_of_exposed_communication_agree() {
    let columns =
        ["measured_on", "comm_ns", "overlap_ns", "exposed_ns", "exposed_ratio", "window_ns"];
    for (gloo, expected) in
        [(true, "both 980 180 800 0.4 2000"), (false, "device 180 0 180 0.093264 1930")]
    {
        let mut run = Run::default();
        run.rank(0).step(0, 1, 0, 1_000, false).step(0, 2, 1_000, 1_000, true);
        for (step, start) in [(1, 0), (2, 1_000)] {
            run.kernel_in_step(0, step, start + 40, 550, (start + 20, 10));
            run.kernel_on(
                0,
                "communication",
                (0, 20),
                start + 880,
                90,
                Some((start + 25, 5)),
                Some(step),
                "ncclDevKernel_AllReduce",
            );
            if gloo {
                run.annotation(0, "gloo:all_reduce", start + 500, 400);
                run.annotation(0, "gloo:all_reduce", start + 900, 90);
            } else {
                // A library that only enqueues.
                run.annotation(0, "nccl:all_reduce", start + 500, 400);
            }
        }
        let session = run.open();
        assert_eq!(rows(&session, "comm_exposed", &columns), [expected]);
        let by_step = rows(&session, "comm_overview_by_step", &["communication_ns", "step_ns"]);
        let exposed = if gloo { "400 1000" } else { "90 1000" };
        assert_eq!(by_step, [exposed, exposed]);
        if gloo {
            let columns = ["communication_ns", "communication_ratio"];
            assert_eq!(rows(&session, "step_breakdown", &columns), ["400 0.4"]);
        }
    }
}

#[test]
fn host_communication_is_exposed_outside_operators() {
    let mut run = Run::default();
    run.rank(0).without_device();
    run.step(0, 1, 0, 1_000, true);
    run.annotation(0, "gloo:all_reduce", 100, 400).annotation(0, "gloo:all_reduce", 500, 100);
    run.op(0, "aten::mm", 200, 100).op(0, "aten::add", 250, 150).op(0, "c10d::wait", 0, 1_000);
    let columns = ["measured_on", "comm_ns", "overlap_ns", "exposed_ns", "exposed_ratio"];
    assert_eq!(rows(&run.open(), "comm_exposed", &columns), ["host 500 200 300 0.3"]);
}
