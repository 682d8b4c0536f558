//! Views of device activity on tiny runs, with expectations worked out by hand.

use query::Params;

use crate::support::{Run, rows, table};

/// Rank 0: compute 0..100 and 50..120 on two streams, comm 100..160, copy 200..220.
fn mixed() -> Run {
    let mut run = Run::default();
    run.rank(0)
        .kernel_on(0, "computation", (0, 7), 0, 100, None, None, "a")
        .kernel_on(0, "computation", (0, 8), 50, 70, None, None, "b")
        .kernel_on(0, "communication", (0, 9), 100, 60, None, None, "ncclDevKernel")
        .memcpy(0, 200, 20, 4_000, None);
    run
}

#[test]
fn temporal_breakdown_adds_up() {
    let columns = ["kernel_time_ns", "idle_ns", "compute_ns", "non_compute_ns", "idle_ratio"];
    // Busy 0..160 and 200..220; computing 0..120.
    assert_eq!(
        rows(&mixed().open(), "gpu_temporal_breakdown", &columns),
        ["220 40 120 60 0.181818"]
    );
}

#[test]
fn kernel_breakdown_separates_what_overlaps() {
    assert_eq!(
        rows(&mixed().open(), "gpu_kernel_breakdown", &["kernel_type", "sum_ns", "ratio"]),
        [
            "communication 40 0.222222",
            "computation 100 0.555556",
            "computation overlapping communication 20 0.111111",
            "memory 20 0.111111",
        ]
    );
}

#[test]
fn communication_is_hidden_or_exposed() {
    let columns =
        ["comm_ns", "overlap_ns", "exposed_ns", "overlap_ratio", "exposed_ratio", "window_ns"];
    assert_eq!(rows(&mixed().open(), "comm_overlap", &columns), ["60 20 40 0.333333 0.181818 220"]);
    let mut silent = Run::default();
    silent.rank(0).kernel(0, "computation", 0, 10, None);
    assert_eq!(rows(&silent.open(), "comm_overlap", &columns), ["0 0 0 - 0 10"]);
}

#[test]
fn device_work_leaves_out_the_last_step_and_unlinked_work() {
    let run = || {
        let mut run = Run::default();
        run.rank_with_cut(0, 2, 1_000)
            .step(0, 1, 0, 1_000, false)
            .step(0, 2, 1_000, 1_000, true)
            .kernel_in_step(0, 1, 100, 50, (50, 10))
            .kernel_in_step(0, 2, 1_100, 50, (1_000, 10))
            .kernel(0, "computation", 300, 50, None);
        run
    };
    assert_eq!(rows(&run().open(), "device_activities", &["ts_ns"]), ["100"]);
    let mut params = Params::default();
    params.set("include_last_step", true);
    let session = run().open_with(&params);
    assert_eq!(rows(&session, "device_activities", &["ts_ns"]), ["100", "1100"]);
    // Complete steps are another matter: both are.
    assert_eq!(
        rows(&session, "device_windows", &["start_ns", "end_ns", "step_count"]),
        ["0 2000 2"]
    );
}

#[test]
fn utilization_clips_work_to_complete_steps() {
    let mut run = Run::default();
    // Steps 100..200 and 200..300 on the host; the second one's kernel runs until 320.
    run.rank(0)
        .step(0, 1, 100, 100, false)
        .ready_at(120)
        .step(0, 2, 200, 100, true)
        .kernel(0, "computation", 50, 70, None)
        .kernel_in_step(0, 1, 140, 40, (110, 5))
        .with_occupancy(0.5, 0.25)
        .kernel_in_step(0, 2, 280, 40, (210, 5))
        .with_occupancy(2.0, 0.75)
        .memcpy(0, 200, 20, 1, None);
    let columns = [
        "window_ns",
        "kernel_busy_ns",
        "busy_ns",
        "idle_ns",
        "busy_ratio",
        "sm_efficiency_ratio",
        "occupancy_ratio",
        "mean_blocks_per_sm",
        "step_count",
        "unlinked_ratio",
    ];
    // A kernel from before the steps ends inside: the first step begins when it has ended, at 120.
    // Window 120..320; kernels 80; SM time 40 * 0.5 + 40 * 1; occupancy (0.25 + 0.75) / 2.
    let session = run.open();
    assert_eq!(
        rows(&session, "gpu_utilization", &columns),
        ["200 80 100 100 0.5 0.3 0.5 1.25 2 0"]
    );
    assert_eq!(
        rows(&session, "gpu_utilization_by_step", &["step", "step_ns", "busy_ns", "busy_ratio"]),
        ["1 80 40 0.5", "2 120 60 0.5"]
    );
}

#[test]
fn idle_breakdown_of_streams_has_categories() {
    let mut run = Run::default();
    // Stream 7: 0..10; gap 40 launched late; gap 20 launched early; gap 50_000 launched early.
    run.rank(0)
        .kernel(0, "computation", 0, 10, Some((-10, 5)))
        .kernel(0, "computation", 50, 10, Some((20, 5)))
        .kernel(0, "computation", 80, 10, Some((30, 5)))
        .kernel(0, "computation", 50_090, 10, Some((40, 5)))
        // Another device has a stream of the same number.
        .kernel_on(0, "computation", (1, 7), 60, 10, Some((0, 5)), None, "k");
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "gpu_idle_breakdown",
            &["device", "stream", "idle_category", "idle_ns", "gap_count"]
        ),
        ["0 7 host_wait 40 1", "0 7 kernel_wait 20 1", "0 7 other 50000 1"]
    );
}

#[test]
fn idle_causes_partition_idle_time() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .op(0, "aten::add", 0, 0)
        // 0..100 is idle: loading until 60, then the host.
        .annotation(0, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 60)
        .kernel(0, "computation", 100, 100, Some((90, 5)))
        // 200..250: the launch had returned by then.
        .kernel(0, "computation", 250, 50, Some((95, 5)))
        // 300..400: a synchronization was in flight when the device drained at 300.
        .kernel(0, "computation", 400, 50, Some((380, 5)))
        // 450..480: no launch in the trace.
        .kernel(0, "computation", 480, 20, None)
        // 500..600: a copy that blocks its caller, then nothing to do until the next launch.
        .memcpy(0, 500, 50, 8, Some((485, 70)))
        .kernel(0, "computation", 600, 10, Some((580, 10)));
    run.call(0, "cudaStreamSynchronize", 150, 160);
    let columns = [
        "window_ns",
        "idle_ns",
        "dataloader_ns",
        "host_ns",
        "device_wait_ns",
        "sync_ns",
        "unattributed_ns",
    ];
    let session = run.open();
    // 550..600 is idle after the copy, whose call returns at 555: a synchronization in all but name.
    // 610..1000: nothing follows, so the cause cannot be told.
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["1000 720 60 40 50 150 420"]);
    assert_eq!(
        rows(&session, "device_idle_gaps", &["ts_ns", "dur_ns"]),
        ["0 100", "200 50", "300 100", "450 30", "550 50", "610 390"]
    );
}

#[test]
fn call_that_returns_when_the_device_drains_is_a_sync() {
    for (dur_ns, sync_ns) in [(99, 0), (100, 50), (300, 50)] {
        let mut run = Run::default();
        run.rank(0)
            .step_from("trace", 0, 0, 0, 200, true)
            .op(0, "aten::add", 0, 0)
            .kernel(0, "computation", 0, 100, Some((-10, 5)))
            .kernel(0, "computation", 150, 50, Some((140, 5)));
        run.call(0, "hipDeviceSynchronize", 0, dur_ns);
        let expected = format!("{sync_ns} {}", 50 - sync_ns);
        assert_eq!(rows(&run.open(), "gpu_idle_causes", &["sync_ns", "host_ns"]), [expected]);
    }
}

#[test]
fn kernels_are_summed_by_name() {
    let mut run = Run::default();
    run.rank(0)
        .kernel_on(0, "computation", (0, 7), 0, 10, None, None, "gemm")
        .with_occupancy(1.0, 0.5)
        .kernel_on(0, "computation", (0, 7), 20, 30, None, None, "gemm")
        .with_occupancy(3.0, f64::NAN)
        .kernel_on(0, "communication", (0, 7), 60, 60, None, None, "nccl")
        .memcpy(0, 200, 10, 100, None)
        .memcpy(0, 300, 30, 300, None)
        .memset(0, 400, 5);
    let columns =
        ["name", "kind", "call_count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns", "ratio"];
    let session = run.open();
    assert_eq!(
        rows(&session, "gpu_kernels", &columns),
        ["gemm computation 2 40 20 10 30 14.142136 0.4", "nccl communication 1 60 60 60 60 - 0.6"]
    );
    assert_eq!(
        rows(&session, "gpu_kernels", &["name", "mean_blocks_per_sm", "mean_occupancy_ratio"]),
        ["gemm 2.5 0.5", "nccl - -"]
    );
    assert_eq!(
        rows(
            &session,
            "gpu_copies",
            &["name", "category", "call_count", "sum_ns", "bytes", "bandwidth_gb_per_s"]
        ),
        [
            "Memcpy DtoH (Device -> Pageable) memcpy 2 40 400 10",
            "Memset (Device) memset 1 5 64 12.8"
        ]
    );
}

#[test]
fn short_kernels_cost_the_gaps_before_them() {
    let run = || {
        let mut run = Run::default();
        // Gaps of 1 us, before a long kernel and before a short one; both launched late: Python for the first
        // half, and from the end of the launch on the way.
        run.rank(0)
            .step_from("trace", 0, 0, 0, 206_000, true)
            .kernel(0, "computation", 0, 1_000, Some((-10, 5)))
            .kernel(0, "computation", 2_000, 200_000, Some((1_500, 5)))
            .kernel(0, "computation", 203_000, 1_000, Some((202_500, 5)))
            // No kernel.
            .memcpy(0, 205_000, 1_000, 8, Some((204_500, 5)));
        run
    };
    let columns = ["kernel_count", "short_count", "short_ratio", "short_gap_ns", "busy_ratio"];
    assert_eq!(rows(&run().open(), "kernel_sizes", &columns), ["3 2 0.666667 500 0.985437"]);
    let mut params = Params::default();
    params.set("short_kernel_us", 1_000);
    assert_eq!(rows(&run().open_with(&params), "kernel_sizes", &columns), ["3 3 1 1000 0.985437"]);
}

#[test]
fn queue_length_counts_launched_unstarted_work() {
    let mut run = Run::default();
    run.rank(0)
        .kernel(0, "computation", 10, 5, Some((0, 2)))
        .kernel(0, "computation", 30, 5, Some((5, 2)))
        // Launched and started at the same moment: the launch counts first.
        .kernel(0, "computation", 50, 5, Some((50, 2)));
    let session = run.open();
    assert_eq!(
        rows(&session, "queue_length_series", &["ts_ns", "queue_length", "dur_ns"]),
        ["0 1 5", "5 2 5", "10 1 20", "30 0 20", "50 1 0", "50 0 -"]
    );
    let columns = [
        "sample_count",
        "mean_length",
        "min_length",
        "p25_length",
        "p50_length",
        "p75_length",
        "max_length",
    ];
    assert_eq!(rows(&session, "queue_length", &columns), ["6 0.833333 0 0.25 1 1 2"]);
    assert_eq!(rows(&session, "queue_length", &["full_ns", "full_ratio"]), ["0 0"]);
}

#[test]
fn queue_length_times_a_full_queue() {
    let mut run = Run::default();
    run.rank(0).kernel(0, "computation", 10, 5, Some((0, 2))).kernel(
        0,
        "computation",
        30,
        5,
        Some((5, 2)),
    );
    let mut params = Params::default();
    params.set("max_queue_length", 2);
    assert_eq!(
        rows(&run.open_with(&params), "queue_length", &["full_ns", "full_ratio"]),
        ["5 0.166667"]
    );
}

#[test]
fn launch_delay_is_measured_to_the_kernel_start() {
    let mut run = Run::default();
    run.rank(0)
        .kernel(0, "computation", 20, 100, Some((0, 10)))
        // Starts before its launch has returned.
        .kernel(0, "computation", 205, 3, Some((200, 10)))
        .kernel(0, "computation", 400_000, 3, Some((210_000, 60_000)));
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "kernel_launch_stats",
            &["launch_name", "launch_dur_ns", "device_dur_ns", "launch_delay_ns"]
        ),
        [
            "cudaLaunchKernel 10 100 10",
            "cudaLaunchKernel 10 3 0",
            "cudaLaunchKernel 60000 3 130000"
        ]
    );
    let columns = [
        "launch_count",
        "short_count",
        "runtime_outlier_count",
        "delay_outlier_count",
        "median_delay_ns",
    ];
    assert_eq!(rows(&session, "kernel_launch_summary", &columns), ["3 1 1 1 10"]);
}

/// Sums of floating-point numbers round differently in another order of rows.
#[test]
fn means_over_kernels_do_not_depend_on_the_order_of_events() {
    let kernels: Vec<(i64, i64, f64)> = (0..60)
        .map(|i| (i * 1_000, 100 + 7 * i, 0.1 * (i % 13 + 1) as f64 + 0.01 * i as f64))
        .collect();
    let means = |kernels: &[(i64, i64, f64)]| {
        let mut run = Run::default();
        run.rank(0).step(0, 1, 0, 70_000, true);
        for &(ts_ns, dur_ns, blocks_per_sm) in kernels {
            let kernel = run.kernel(0, "computation", ts_ns, dur_ns, None);
            kernel.with_occupancy(blocks_per_sm, blocks_per_sm / 7.0);
        }
        let session = run.open();
        [
            ("gpu_kernels", ["mean_blocks_per_sm", "mean_occupancy_ratio"]),
            ("kernel_properties", ["mean_blocks_per_sm", "mean_occupancy_ratio"]),
            ("gpu_utilization", ["mean_blocks_per_sm", "occupancy_ratio"]),
        ]
        .map(|(view, columns)| {
            let table = table(&session, view);
            // All digits, unlike `rows`.
            columns.map(|column| format!("{:?}", table.rows[0][table.index(column).unwrap()]))
        })
    };
    let reversed: Vec<_> = kernels.iter().rev().copied().collect();
    assert_eq!(means(&kernels), means(&reversed));
}
