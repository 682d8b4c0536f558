//! Views that HTA has too, on tiny runs, with expectations worked out by hand.

use query::Params;

use crate::support::{Run, rows};

const DURATIONS: [&str; 7] =
    ["name", "call_count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns"];

fn with(name: &str, value: f64) -> Params {
    let mut params = Params::default();
    params.set(name, analyses::catalog().parse_param(name, &value.to_string()).unwrap());
    params
}

#[test]
fn annotation_breakdown_sums_by_name_and_side() {
    let run = || {
        let mut run = Run::default();
        run.rank_with_cut(0, 2, 1_000)
            .step(0, 1, 0, 1_000, false)
            .step(0, 2, 1_000, 500, true)
            .annotation(0, "forward", 0, 100)
            .annotation(0, "forward", 200, 300)
            .annotation(0, "forward", 1_000, 50)
            .annotation(0, "backward", 600, 400)
            .annotation(0, "forward", 150, 80)
            .as_device_annotation();
        run
    };
    let columns = [&["on_device"][..], &DURATIONS, &["ratio"]].concat();
    assert_eq!(
        rows(&run().open(), "annotation_breakdown", &columns),
        [
            "false backward 1 400 400 400 400 - 0.4",
            "false forward 2 400 200 100 300 141.421356 0.4",
            "true forward 1 80 80 80 80 - 1",
        ]
    );
    let mut params = Params::default();
    params.set("include_last_step", true);
    assert_eq!(
        rows(&run().open_with(&params), "annotation_breakdown", &["name", "call_count"]),
        ["backward 1", "forward 3", "forward 1"]
    );
}

#[test]
fn annotation_kernels_go_to_the_innermost_annotation() {
    let mut run = Run::default();
    run.rank(0)
        .rank(1)
        .annotation(0, "host", 0, 1_000)
        .annotation(0, "step", 100, 500)
        .as_device_annotation()
        .annotation(0, "forward", 200, 100)
        .as_device_annotation()
        .annotation(1, "other rank", 0, 1_000)
        .as_device_annotation()
        .kernel(0, "computation", 50, 20, None)
        .kernel(0, "computation", 100, 50, None)
        .kernel(0, "computation", 250, 100, None)
        .memcpy(0, 400, 10, 1, None)
        .kernel(1, "computation", 10, 10, None);
    let session = run.open();
    assert_eq!(
        rows(&session, "kernel_annotations", &["rank", "ts_ns", "annotation"]),
        ["0 50 -", "0 100 step", "0 250 forward", "0 400 step", "1 10 other rank"]
    );
    let columns = ["rank", "name", "kernel_count", "sum_ns", "computation_ns", "memory_ns"];
    assert_eq!(
        rows(&session, "annotation_kernels", &columns),
        ["0 forward 1 100 100 0", "0 step 2 60 50 10", "0 - 1 20 20 0", "1 other rank 1 10 10 0"]
    );
}

#[test]
fn memory_bandwidth_adds_up_concurrent_copies() {
    let mut run = Run::default();
    run.rank(0)
        // 0.1 and 0.2 GB/s: their sum less both is 2.8e-17 in doubles.
        .memcpy(0, 0, 10_000, 1_000, None)
        .memcpy(0, 5_000, 10_000, 2_000, None)
        // 3 GB/s, right after the pause; and one right behind it.
        .memcpy(0, 20_000, 1_000, 3_000, None)
        .memcpy(0, 21_000, 1_000, 1_000, None)
        .memset(0, 500, 64);
    let session = run.open();
    let columns = ["kind", "ts_ns", "dur_ns", "running_count", "bandwidth_gb_per_s"];
    assert_eq!(
        rows(&session, "memory_bandwidth_series", &columns),
        [
            "DtoH 0 5000 1 0.1",
            "DtoH 5000 5000 2 0.3",
            "DtoH 10000 5000 1 0.2",
            "DtoH 15000 5000 0 0",
            "DtoH 20000 1000 1 3",
            "DtoH 21000 1000 1 1",
            "DtoH 22000 - 0 0",
            "memset 500 64 1 1",
            "memset 564 - 0 0",
        ]
    );
    let columns = [
        "kind",
        "busy_ns",
        "mean_over_time_gb_per_s",
        "sample_count",
        "mean_gb_per_s",
        "min_gb_per_s",
        "p50_gb_per_s",
        "max_gb_per_s",
    ];
    assert_eq!(
        rows(&session, "memory_bandwidth", &columns),
        // 7000 bytes in 17 us.
        ["DtoH 17000 0.411765 5 0.92 0.1 0.3 3", "memset 64 1 1 1 1 1 1"]
    );
    // A residue would be less than what is printed above.
    let table = crate::support::table(&session, "memory_bandwidth_series");
    let at = |column| table.index(column).unwrap();
    for row in &table.rows {
        let (running, bandwidth) = (&row[at("running_count")], &row[at("bandwidth_gb_per_s")]);
        assert_eq!(running.as_f64() == Some(0.0), bandwidth.as_f64() == Some(0.0));
    }
}

#[test]
fn kernels_are_compared_across_ranks() {
    let mut run = Run::default();
    run.rank(0).rank(1).rank(2);
    for (rank, dur_ns) in [(0, 10), (0, 30), (1, 60), (2, 50)] {
        run.kernel_on(rank, "computation", (0, 7), 0, dur_ns, None, None, "gemm");
    }
    run.kernel_on(1, "computation", (0, 7), 100, 5, None, None, "relu");
    let session = run.open();
    let columns = [&DURATIONS[..], &["rank_count", "missing_count"]].concat();
    assert_eq!(
        rows(&session, "gpu_kernels_across_ranks", &columns),
        ["gemm 4 150 37.5 10 60 22.173558 3 0", "relu 1 5 5 5 5 - 1 2"]
    );
    let columns = [
        "mean_rank_ns",
        "min_rank_ns",
        "max_rank_ns",
        "std_rank_ns",
        "fastest_rank",
        "slowest_rank",
        "spread_ratio",
    ];
    assert_eq!(
        rows(&session, "gpu_kernels_across_ranks", &columns),
        ["50 40 60 10 0 1 0.4", "5 5 5 - 1 1 0"]
    );
}

#[test]
fn top_kernels_others_count_executions() {
    let run = || {
        let mut run = Run::default();
        run.rank(0);
        for (name, dur_ns) in [("a", 400), ("a", 200), ("b", 300), ("c", 60), ("d", 30), ("d", 10)]
        {
            run.kernel_on(0, "computation", (0, 7), 0, dur_ns, None, None, name);
        }
        run.kernel_on(0, "communication", (0, 7), 0, 5, None, None, "nccl");
        run
    };
    let columns = [&["kind", "place", "name_count"][..], &DURATIONS, &["ratio"]].concat();
    let mut params = with("num_kernels", 2.0);
    params.set("duration_ratio", 1.0);
    assert_eq!(
        rows(&run().open_with(&params), "gpu_top_kernels", &columns),
        [
            "communication 1 1 nccl 1 5 5 5 5 - 1",
            "computation 1 1 a 2 600 300 200 400 141.421356 0.6",
            "computation 2 1 b 1 300 300 300 300 - 0.3",
            "computation 3 2 - 3 100 33.333333 10 60 25.166115 0.1",
        ]
    );
    // Half of the time is reached with the first.
    let mut params = with("num_kernels", 3.0);
    params.set("duration_ratio", 0.5);
    assert_eq!(
        rows(&run().open_with(&params), "gpu_top_kernels", &["name", "name_count", "sum_ns"]),
        ["nccl 1 5", "a 1 600", "- 3 400"]
    );
    assert_eq!(
        rows(&run().open(), "gpu_top_kernels", &["name", "name_count"]),
        ["nccl 1", "a 1", "b 1", "c 1", "d 1"]
    );
}

#[test]
fn idle_intervals_count_gaps_of_zero() {
    let mut run = Run::default();
    run.rank(0)
        .kernel(0, "computation", 0, 10, Some((-10, 5)))
        .kernel(0, "computation", 10, 10, Some((-9, 2)))
        .kernel(0, "computation", 30, 10, Some((-8, 2)))
        // Overlaps the one before.
        .kernel(0, "computation", 35, 10, Some((-7, 2)))
        .kernel(0, "computation", 100, 10, Some((90, 2)));
    let columns =
        ["idle_category", "interval_count", "mean_ns", "std_ns", "min_ns", "p50_ns", "max_ns"];
    let session = run.open();
    assert_eq!(
        rows(&session, "gpu_idle_intervals", &columns),
        ["host_wait 1 55 - 55 55 55", "kernel_wait 2 5 7.071068 0 5 10"]
    );
    assert_eq!(
        rows(&session, "gpu_idle_breakdown", &["idle_category", "gap_count", "idle_ns"]),
        ["host_wait 1 55", "kernel_wait 1 10"]
    );
}

#[test]
fn kernel_launch_stats_flag_outliers() {
    let run = || {
        let mut run = Run::default();
        run.rank(0)
            .kernel(0, "computation", 20, 10, Some((0, 10)))
            .kernel(0, "computation", 50, 9, Some((30, 10)))
            .memcpy(0, 3_000, 10, 8, Some((100, 2_000)));
        run
    };
    let columns =
        ["category", "launch_delay_ns", "is_short", "is_runtime_outlier", "is_delay_outlier"];
    assert_eq!(
        rows(&run().open(), "kernel_launch_stats", &columns),
        [
            "kernel 10 false false false",
            "kernel 10 true false false",
            "memcpy 900 true false false"
        ]
    );
    let mut params = with("runtime_cutoff_us", 1.0);
    params.set("launch_delay_cutoff_us", 0);
    assert_eq!(
        rows(&run().open_with(&params), "kernel_launch_stats", &columns),
        ["kernel 10 false false true", "kernel 10 true false true", "memcpy 900 false true true"]
    );
}

/// `linear` 0..100 holds `t` 10..20 and `addmm` 30..90, which launches; another call of `linear` follows
/// at once.
fn operators() -> Run {
    let mut run = Run::default();
    run.rank(0)
        .op(0, "aten::linear", 0, 100)
        .op(0, "aten::t", 10, 10)
        .at_depth(1)
        .op(0, "aten::addmm", 30, 60)
        .at_depth(1)
        .kernel_on(0, "computation", (0, 7), 60, 40, Some((40, 5)), None, "gemm")
        .launched_by_op()
        .kernel_on(0, "computation", (0, 7), 100, 7, Some((50, 5)), None, "bias")
        .launched_by_op()
        .op(0, "aten::linear", 100, 50)
        .kernel_on(0, "computation", (0, 7), 130, 20, Some((120, 5)), None, "gemm")
        .launched_by_op()
        // Takes no time, and yet launches.
        .op(0, "aten::relu", 150, 0)
        .kernel_on(0, "computation", (0, 7), 160, 3, Some((150, 0)), None, "relu")
        .launched_by_op()
        .op(0, "aten::addmm", 200, 60)
        .kernel_on(0, "computation", (0, 7), 240, 42, Some((220, 5)), None, "gemm")
        .launched_by_op()
        .kernel_on(0, "computation", (0, 7), 290, 7, Some((230, 5)), None, "bias")
        .launched_by_op()
        .kernel_on(0, "computation", (0, 7), 300, 1, None, None, "gemm");
    run
}

#[test]
fn op_device_time_includes_nested_operators() {
    let columns = [
        "name",
        "call_count",
        "host_total_ns",
        "device_total_ns",
        "device_self_ns",
        "launch_count",
    ];
    assert_eq!(
        rows(&operators().open(), "op_device_time", &columns),
        [
            "aten::addmm 2 120 96 96 4",
            "aten::linear 2 150 67 20 1",
            "aten::relu 1 0 3 3 1",
            "aten::t 1 10 0 0 0",
        ]
    );
}

#[test]
fn op_kernels_group_by_kernel_sequence() {
    let columns = [
        "name",
        "kernel_sequence",
        "kernel_count",
        "call_count",
        "device_ns",
        "mean_launch_delay_ns",
        "mean_runtime_delay_ns",
    ];
    let session = operators().open();
    assert_eq!(
        rows(&session, "op_kernels", &columns),
        [
            // 10 and 20 to the launch, 20 and 20 from there.
            "aten::addmm gemm -> bias 2 2 96 15 20",
            "aten::linear gemm 1 1 20 20 10",
            "aten::relu relu 1 1 3 0 10",
        ]
    );
    assert_eq!(
        rows(&session, "kernel_launchers", &["name", "op_name", "call_count", "sum_ns", "ratio"]),
        [
            "bias aten::addmm 2 14 1",
            "gemm aten::addmm 2 82 0.796117",
            "gemm aten::linear 1 20 0.194175",
            "gemm - 1 1 0.009709",
            "relu aten::relu 1 3 1",
        ]
    );
}

/// In each of two steps of 1000 ns, rank 2 starts a collective late; a short one is not looked at.
fn late() -> Run {
    let mut run = Run::default();
    for rank in 0..3 {
        run.rank(rank);
        for step in 0..2_i64 {
            let start = step * 1_000;
            let late = if rank == 2 { 300 } else { i64::from(rank) * 10 };
            run.step(rank, step, start, 1_000, step == 1);
            for (name, ts, dur) in
                [("ncclDevKernel", 100 + late, 400 - late), ("rcclShort", 600 + late, 9)]
            {
                run.kernel_on(
                    rank,
                    "communication",
                    (rank, 9),
                    start + ts,
                    dur,
                    Some((start + 50, 5)),
                    Some(step),
                    name,
                );
            }
        }
    }
    run
}

#[test]
fn potential_stragglers_start_the_dominant_collective_late() {
    let columns =
        ["rank", "is_candidate", "name", "step_count", "late_count", "late_ratio", "mean_late_ns"];
    assert_eq!(
        rows(&late().open(), "comm_potential_stragglers", &columns),
        [
            "2 true ncclDevKernel 2 2 1 300",
            "1 true ncclDevKernel 2 2 1 10",
            "0 false ncclDevKernel 2 0 0 0",
        ]
    );
    let columns = ["rank", "place", "is_candidate"];
    assert_eq!(
        rows(
            &late().open_with(&with("num_candidates", 1.0)),
            "comm_potential_stragglers",
            &columns
        ),
        ["2 1 true", "1 2 false", "0 3 false"]
    );
    // Nothing is as long as all of a step.
    assert!(
        rows(
            &late().open_with(&with("long_collective_ratio", 1.0)),
            "comm_potential_stragglers",
            &columns
        )
        .is_empty()
    );
}

#[test]
fn potential_stragglers_need_a_common_clock() {
    let mut run = late();
    run.clock("relative");
    assert!(rows(&run.open(), "comm_potential_stragglers", &["rank"]).is_empty());
}

#[test]
fn step_selection_drops_the_last_step() {
    let run = || {
        let mut run = Run::default();
        run.rank_with_cut(0, 2, 1_000)
            .rank(1)
            .step(0, 5, 0, 1_000, false)
            .step(0, 6, 1_000, 500, true)
            .step_from("trace", 1, 0, 0, 70, true)
            .op(0, "aten::mm", 999, 10)
            .op(0, "aten::mm", 1_000, 10)
            .kernel_in_step(0, 6, 1_100, 50, (1_050, 10))
            .kernel_in_step(0, 5, 1_200, 50, (900, 10));
        run
    };
    let steps = ["rank", "step", "is_last", "is_analyzed"];
    let events = ["rank", "stored_in", "event_count", "analyzed_count"];
    let session = run().open();
    assert_eq!(
        rows(&session, "step_selection", &steps),
        ["0 5 false true", "0 6 true false", "1 0 true true"]
    );
    assert_eq!(
        rows(&session, "trace_window", &events),
        ["0 cpu_ops 2 1", "0 kernels 2 1", "0 runtime_calls 2 1"]
    );
    let mut params = Params::default();
    params.set("include_last_step", true);
    let session = run().open_with(&params);
    assert_eq!(rows(&session, "step_selection", &["is_analyzed"]), ["true", "true", "true"]);
    assert_eq!(
        rows(&session, "trace_window", &events),
        ["0 cpu_ops 2 2", "0 kernels 2 2", "0 runtime_calls 2 2"]
    );
}
