//! Views of steps, ranks and memory on tiny runs, with expectations worked out by hand.

use trace_model::Capability;

use crate::support::{Run, rows};

#[test]
fn step_time_extends_to_launched_work() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 1, 0, 100, false)
        .step(0, 2, 110, 90, false)
        .step(0, 3, 210, 90, true)
        .kernel_in_step(0, 1, 50, 100, (10, 5))
        .kernel_in_step(0, 2, 160, 20, (120, 5))
        .kernel_in_step(0, 3, 230, 100, (220, 5))
        // Its launch straddles the end of the step: it belongs to none.
        .kernel_in_step(0, 3, 500, 100, (295, 10));
    assert_eq!(
        rows(&run.open(), "step_time", &["step", "source", "ts_ns", "dur_ns", "is_last"]),
        [
            "1 profiler_step 0 150 false",
            "2 profiler_step 150 50 false",
            "3 profiler_step 210 120 true"
        ]
    );
}

/// Six steps whose device work ends 400 ns after they do on the host, where the first takes that long and the others
/// 1 us. What ran before the first is unknown.
fn ahead(first_ns: i64) -> Run {
    let mut run = Run::default();
    run.rank(0);
    let mut start_ns = 0;
    for step in 0..6_i64 {
        let dur_ns = if step == 0 { first_ns } else { 1_000 };
        run.step(0, step, start_ns, dur_ns, step == 5);
        run.kernel_in_step(0, step, start_ns + dur_ns + 300, 100, (start_ns + 10, 5));
        start_ns += dur_ns;
    }
    run
}

#[test]
fn first_step_without_earlier_work_is_not_compared() {
    let session = ahead(1_000).open();
    let columns = ["step", "dur_ns", "is_anchored"];
    let times = rows(&session, "step_time", &columns);
    assert_eq!(times[..2], ["0 1400 false", "1 1000 true"]);
    let columns = ["step_count", "mean_ns", "median_ns", "max_ns", "cv_ratio"];
    assert_eq!(rows(&session, "step_time_summary", &columns), ["5 1000 1000 1000 0"]);
    let columns = ["step_count", "outlier_count", "excess_ns", "worst_step"];
    assert_eq!(rows(&session, "step_outliers", &columns), ["5 0 0 -"]);
    // The host runs ahead of the device, so its first step does not show how long the device takes.
    let columns = ["step_count", "first_step_ns", "first_step_ratio"];
    assert_eq!(rows(&session, "run_warmup", &columns), ["6 - -"]);
    assert_eq!(rows(&ahead(2_000).open(), "run_warmup", &columns), ["6 - -"]);
}

#[test]
fn first_step_starts_where_earlier_work_ends() {
    let mut run = Run::default();
    run.rank(0);
    for step in 0..6_i64 {
        let start_ns = step * 1_000;
        run.step(0, step, start_ns, 1_000, step == 5).ready_at(start_ns + 400);
        run.kernel_in_step(0, step, start_ns + 1_300, 100, (start_ns + 10, 5));
    }
    let session = run.open();
    let times = rows(&session, "step_time", &["step", "ts_ns", "dur_ns", "is_anchored"]);
    assert_eq!(times[..2], ["0 400 1000 true", "1 1400 1000 true"]);
    assert_eq!(rows(&session, "step_time_summary", &["step_count", "cv_ratio"]), ["6 0"]);
}

#[test]
fn first_step_of_a_host_that_is_not_ahead_is_compared() {
    // Later steps start 2 % of their time after the host does, and no more.
    let mut run = Run::default();
    run.rank(0);
    for step in 0..3_i64 {
        let start_ns = step * 1_000;
        run.step(0, step, start_ns, 1_000, step == 2);
        run.kernel_in_step(0, step, start_ns + 1_010, 10, (start_ns + 10, 5));
    }
    let times = rows(&run.open(), "step_time", &["step", "ts_ns", "is_anchored"]);
    assert_eq!(times, ["0 0 true", "1 1020 true", "2 2020 true"]);
}

/// One step a count, each with that many kernels.
fn with_counts(counts: &[i64]) -> Run {
    let mut run = Run::default();
    run.rank(0);
    for (i, &count) in counts.iter().enumerate() {
        let (step, start) = (i as i64, i as i64 * 1_000);
        run.step(0, step, start, 900, i + 1 == counts.len());
        for k in 0..count {
            run.kernel_in_step(0, step, start + 10 * k + 5, 1, (start + 10 * k, 1));
        }
    }
    run
}

#[test]
fn step_time_drops_an_incomplete_last_step() {
    for (counts, kept) in [
        (&[10, 10, 8][..], 3),
        (&[10, 10, 7], 2),
        (&[10, 9, 0], 2),
        (&[10, 0, 9], 3),
        (&[10, 0, 0], 1),
        (&[0, 0], 2),
        (&[3], 1),
    ] {
        assert_eq!(
            rows(&with_counts(counts).open(), "step_time", &["step"]).len(),
            kept,
            "{counts:?}"
        );
    }
}

#[test]
fn step_time_summary_has_mean_median_and_outliers() {
    let mut run = Run::default();
    run.rank(0).rank(1);
    for (i, dur_ns) in [100, 100, 110, 90, 100, 400].into_iter().enumerate() {
        run.step(0, i as i64, i as i64 * 1_000, dur_ns, i == 5);
    }
    run.step_from("trace", 1, 0, 0, 70, true);
    let columns = ["rank", "step_count", "mean_ns", "median_ns", "min_ns", "max_ns"];
    let session = run.open();
    assert_eq!(
        rows(&session, "step_time_summary", &columns),
        ["0 6 150 100 90 400", "1 0 70 70 70 70"]
    );
    // Deviations from 100: 0 0 10 10 0 300; their median 5; limit 22.239; 300 of 900 ns stand out.
    let columns = ["std_ns", "cv_ratio", "outlier_excess_ratio"];
    assert_eq!(
        rows(&session, "step_time_summary", &columns),
        ["122.637678 0.817585 0.333333", "- - -"]
    );
}

#[test]
fn step_phases_partition_a_step() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, false)
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 100)
        .op(0, "aten::mm", 200, 50)
        .op(0, "autograd::engine::evaluate_function: MmBackward0", 400, 100)
        .op(0, "MmBackward0", 410, 80)
        .op(0, "autograd::engine::evaluate_function: AccumulateGrad", 550, 50)
        .annotation(0, "Optimizer.step#SGD.step", 700, 200)
        // A step that only infers.
        .step(0, 1, 2_000, 500, true)
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1_900, 200)
        // Runs under half of the first loading.
        .kernel(0, "computation", 0, 50, None);
    let columns = [
        "step",
        "step_ns",
        "dataloader_ns",
        "forward_ns",
        "backward_ns",
        "optimizer_ns",
        "other_ns",
        "dataloader_idle_ns",
    ];
    let session = run.open();
    assert_eq!(
        rows(&session, "step_phases_by_step", &columns),
        ["0 1000 100 300 200 200 200 50", "1 500 100 - - 0 400 100"]
    );
    let columns = [
        "step_count",
        "step_ns",
        "dataloader_ratio",
        "optimizer_ratio",
        "dataloader_idle_ratio",
        "has_device",
        "dataloader_workers",
    ];
    assert_eq!(
        rows(&session, "step_phases", &columns),
        ["2 750 0.133333 0.133333 0.1 true single-process"]
    );
}

#[test]
fn rank_that_waits_least_arrives_last() {
    let mut run = Run::default();
    for rank in 0..3 {
        run.rank(rank);
        for i in 0..4_i64 {
            // Rank 2 is last three times, rank 0 once.
            let last = if i == 3 { 0 } else { 2 };
            let dur_ns = if rank == last { 10 } else { 50 + 10 * i64::from(rank) };
            let start_ns = 100 * i + 80 - dur_ns;
            run.kernel(rank, "communication", start_ns, dur_ns, None).as_collective(
                "allreduce",
                "0",
                16,
            );
        }
        // Not everybody does this one equally often.
        for i in 0..=i64::from(rank) {
            run.kernel(rank, "communication", 500 + 100 * i, 10, None).as_collective(
                "broadcast",
                "0",
                16,
            );
        }
    }
    let columns = [
        "rank",
        "rank_count",
        "collective_count",
        "last_count",
        "last_ratio",
        "caused_wait_ns",
        "own_wait_ns",
    ];
    // With rank 2 last, the others wait 40 and 50: 45 on average. With rank 0 last: 50 and 60.
    assert_eq!(
        rows(&run.open(), "comm_stragglers", &columns),
        ["0 3 4 1 0.25 55 120", "1 3 4 0 0 0 200", "2 3 4 3 0.75 135 60"]
    );
}

/// The end of the recording cuts off what rank 0 ran last: its next collective takes the place of one that is missing.
#[test]
fn waiting_in_steps_that_may_be_incomplete_is_not_known() {
    let mut run = Run::default();
    for rank in 0..2 {
        run.rank_with_cut(rank, 2, 1_000)
            .step(rank, 0, 0, 1_000, false)
            .step(rank, 1, 1_000, 9_000, true);
        let late = 50 * i64::from(rank);
        for (step, start, dur_ns) in [(0, 500 + late, 100 - late), (1, 1_200, 10)] {
            let dur_ns = if (rank, step) == (0, 1) { 6_000 } else { dur_ns };
            let launch = Some((start - 10, 1));
            run.kernel_on(rank, "communication", (0, 7), start, dur_ns, launch, Some(step), "nccl")
                .as_collective("allreduce", "0", 16);
        }
    }
    let session = run.open();
    let columns = ["rank", "step", "matched_count", "wait_ns", "is_complete"];
    assert_eq!(
        rows(&session, "comm_wait_by_step", &columns),
        ["0 0 1 50 true", "0 1 1 5990 false", "1 0 1 0 true", "1 1 1 0 false"]
    );
    assert_eq!(rows(&session, "comm_wait", &["rank", "wait_ns"]), ["0 50", "1 0"]);
    assert_eq!(rows(&session, "comm_stragglers", &["rank", "own_wait_ns"]), ["0 50", "1 0"]);
}

#[test]
fn groups_compare_with_those_that_run_the_same_collectives() {
    let mut run = Run::default();
    // Pairs of ranks; data moves for 100 in each pair but the third, where the first call is an exception as well.
    for rank in 0..8 {
        let pair = rank / 2;
        run.rank(rank).step(rank, 0, 0, 1_000_000, true);
        for call in 0..5 {
            let transfer = match (pair, call) {
                (2, 0) => 1_000,
                (2, _) => 300,
                _ => 100,
            };
            let start = 10_000 * call;
            // The second of a pair is late: the first waits 50.
            let wait = if rank % 2 == 0 { 50 } else { 0 };
            run.kernel(rank, "communication", start - wait, transfer + wait, None)
                .as_collective("all_reduce", &pair.to_string(), 64)
                .in_group(2, "Float");
        }
        // Another kind, of which there is one group.
        run.kernel(rank, "communication", 100_000, 500, None)
            .as_collective("all_gather", "all", 64)
            .in_group(8, "Float");
    }
    let columns = [
        "rank",
        "highest_rank",
        "peer_group_count",
        "slow_group_count",
        "call_count",
        "transfer_ns",
        "peer_transfer_ns",
        "slowdown",
        "excess_ns",
    ];
    assert_eq!(
        rows(&run.open(), "comm_group_speeds", &columns),
        [
            "0 1 3 1 5 500 500 1 0",
            "0 7 0 0 1 500 500 - 0",
            "2 3 3 1 5 500 500 1 0",
            "4 5 3 1 5 1500 500 3 1000",
            "6 7 3 1 5 500 500 1 0",
        ]
    );
}

#[test]
fn host_collectives_count_without_device_communication() {
    let mut run = Run::default();
    for rank in 0..2 {
        run.rank(rank).step(rank, 0, 0, 1_000, true).annotation(
            rank,
            "gloo:all_reduce",
            if rank == 1 { 300 } else { 100 },
            if rank == 1 { 20 } else { 220 },
        );
    }
    assert_eq!(
        rows(
            &run.open(),
            "comm_stragglers",
            &["rank", "last_ratio", "caused_wait_ns", "caused_wait_ratio"]
        ),
        ["0 0 0 0", "1 1 200 0.2"]
    );
}

#[test]
fn memory_peak_is_relative_to_device_memory() {
    let mut run = Run::default();
    run.rank(0)
        .device(0, 1_000)
        .memory_totals(0, 1, 100, 500)
        .memory_totals(0, 2, 400, 600)
        .memory_totals(0, 3, 50, 600)
        .step(0, 0, 0, 100, true)
        .kernel(0, "computation", 0, 25, None);
    let columns = [
        "device",
        "peak_allocated_bytes",
        "peak_reserved_bytes",
        "allocated_ratio",
        "reserved_ratio",
        "busy_ratio",
    ];
    assert_eq!(rows(&run.open(), "memory_peak", &columns), ["0 400 600 0.4 0.6 0.25"]);
}

#[test]
fn trace_quality_lists_missing_data() {
    let mut run = Run::default();
    run.rank_with_cut(0, 3, 0).rank(1).kernel(0, "computation", 0, 30, Some((0, 1))).kernel(
        0,
        "computation",
        50,
        10,
        None,
    );
    run.call(0, "cudaGraphLaunch", 5, 1);
    let columns = [
        "rank",
        "step_count",
        "device_count",
        "kernel_count",
        "early_ratio",
        "unlinked_ratio",
        "graph_launch_count",
        "has_shapes",
    ];
    assert_eq!(
        rows(&run.open(), "trace_quality", &columns),
        ["0 3 1 2 0 0.25 1 false", "1 0 0 0 - - 0 false"]
    );
}

/// On each stream, what comes ahead of the first known launch was launched before the recording; a stream without any
/// known launch tells nothing.
#[test]
fn kernels_launched_before_the_recording_are_not_unlinked() {
    let mut run = Run::default();
    run.rank(0)
        .kernel(0, "computation", 0, 20, None)
        .kernel(0, "computation", 30, 30, Some((10, 1)))
        .kernel(0, "computation", 70, 40, None)
        .kernel_on(0, "computation", (0, 9), 0, 10, None, None, "other");
    let columns = ["early_ratio", "unlinked_ratio", "no_launch_ratio"];
    assert_eq!(rows(&run.open(), "trace_quality", &columns), ["0.2 0.5 0.7"]);
}

#[test]
fn events_view_has_rows_of_all_tables() {
    let mut run = Run::default();
    run.rank(0)
        .op(0, "aten::mm", 0, 5)
        .kernel(0, "computation", 3, 4, None)
        .memory_totals(0, 1, 1, 1);
    assert_eq!(
        rows(&run.open(), "events", &["stored_in", "name", "ts_ns", "dur_ns", "device"]),
        ["cpu_ops aten::mm 0 5 -", "memory_events [memory] 1 - 0", "kernels computation 3 4 0"]
    );
}

#[test]
fn run_capabilities_are_those_of_ranks_and_of_the_run() {
    let mut run = Run::default();
    run.rank(0).holds(0, Capability::Timeline).holds(0, Capability::Steps);
    run.holds(0, Capability::DeviceActivity);
    let columns = ["rank", "capability", "rank_count"];
    let found = rows(&run.open(), "run_capabilities", &columns);
    assert_eq!(found, ["0 device_activity 1", "0 steps 1", "0 timeline 1"]);

    let mut run = Run::default();
    run.rank(0).rank(1).holds(1, Capability::Timeline);
    run.holds(0, Capability::Timeline).holds(1, Capability::Steps);
    let mut found = rows(&run.open(), "run_capabilities", &columns);
    found.sort();
    assert_eq!(found, ["- several_ranks 2", "0 timeline 2", "1 steps 1", "1 timeline 2"]);
}

/// The only row of `run_traits`, some columns.
fn traits(run: Run, columns: &[&str]) -> String {
    let rows = rows(&run.open(), "run_traits", columns);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

const TRAITS: [&str; 8] = [
    "vendor",
    "torch_device",
    "is_training",
    "is_compiled",
    "has_graph_launches",
    "loader_kind",
    "uses_hf_trainer",
    "uses_vllm",
];

#[test]
fn run_traits_of_a_training_with_stacks() {
    let mut run = Run::default();
    run.rank(0)
        .rank(1)
        .with_world_size(8)
        .python_frame(0, "transformers/trainer.py(1780): train", 0, 900)
        .python_frame(0, "torch/utils/data/_utils/fetch.py(47): fetch", 10, 20)
        .op(0, "aten::mm", 100, 10)
        .op(0, "autograd::engine::evaluate_function: MmBackward0", 200, 10)
        .kernel(0, "computation", 100, 50, Some((90, 5)));
    assert_eq!(traits(run, &TRAITS), "nvidia cuda true false false map true false");
}

#[test]
fn run_traits_are_unknown_rather_than_false() {
    // No operator, no frame, no call: a recording of the device alone.
    let mut run = Run::default();
    run.rank(0).kernel(0, "computation", 100, 50, None);
    assert_eq!(traits(run, &TRAITS), "nvidia cuda - - - - - -");
    // Operators, but no frames.
    let mut run = Run::default();
    run.rank(0).op(0, "aten::mm", 100, 10).kernel(0, "computation", 100, 50, Some((90, 5)));
    assert_eq!(traits(run, &TRAITS), "nvidia cuda false false false - - -");
    // A replayed graph may contain any pass.
    let mut run = Run::default();
    run.rank(0).op(0, "aten::mm", 100, 10).kernel(0, "computation", 100, 50, Some((90, 5)));
    run.call(0, "cudaGraphLaunch", 300, 10);
    assert_eq!(traits(run, &TRAITS), "nvidia cuda - false true - - -");
    // Ranks of two vendors.
    let mut run = Run::default();
    run.rank(0).without_device().rank(1);
    assert_eq!(traits(run, &["rank_count", "vendor", "torch_device"]), "2 - -");
}

#[test]
fn run_traits_know_servers_and_loaders() {
    let columns = ["is_training", "uses_vllm", "uses_sglang", "loader_kind", "frameworks"];
    let with = |marks: &[&str], frames: &[&str], stack: &str| {
        let mut run = Run::default();
        run.rank(0).op(0, "aten::mm", 100, 10);
        if !stack.is_empty() {
            run.kernel(0, "computation", 100, 50, None).at_source_line(stack, "a.py:1");
        }
        for mark in marks {
            run.annotation(0, mark, 0, 100);
        }
        for frame in frames {
            run.python_frame(0, frame, 0, 100);
        }
        traits(run, &columns)
    };
    let vllm = "execute_context_0(0)_generation_1(1)";
    assert_eq!(with(&[vllm], &[], ""), "false true - - vLLM");
    assert_eq!(with(&["step[DECODE bs=1]", vllm], &[], ""), "false - true - SGLang");
    assert_eq!(with(&[], &["vllm/v1/worker.py(3): f"], ""), "false true false - vLLM");
    // Its folder for Transformers' configurations is not Transformers.
    let own = ["/opt/vllm/transformers_utils/config.py(3): f"];
    assert_eq!(with(&[], &own, ""), "false true false - vLLM");
    let pipeline = ["transformers/pipelines/pt_utils.py(249): __next__"];
    assert_eq!(with(&[], &pipeline, ""), "false false false pipeline Transformers");
    // Old traces have call stacks in place of frames.
    let stack = "a.py(1): f;torch/utils/data/_utils/fetch.py(28): fetch";
    assert_eq!(with(&[], &[], stack), "false false false iterable -");
    let sampler = ["/x/site-packages/torch/utils/data/sampler.py(252): __iter__"];
    assert_eq!(with(&[], &sampler, ""), "false false false map -");
}

#[test]
fn run_traits_describe_processor_and_optimizer() {
    let columns = ["optimizer", "core_count", "thread_count", "has_fast_bfloat16"];
    let mut run = Run::default();
    run.rank(0).rank(1).without_device();
    for (rank, cores, flags) in [(0, 4, "avx512f avx512_bf16"), (1, 2, "amx_bf16")] {
        run.processor(rank, cores, 2, flags).annotation(rank, "Optimizer.step#AdamW.step", 0, 10);
    }
    assert_eq!(traits(run, &columns), "AdamW 2 2 true");
    // Two classes of optimizers; a processor without the instructions.
    let mut run = Run::default();
    run.rank(0).without_device().processor(0, 2, 1, "avx512f avx512_vnni");
    run.annotation(0, "Optimizer.step#Adam.step", 0, 10);
    run.annotation(0, "Optimizer.step#SGD.step", 20, 10);
    assert_eq!(traits(run, &columns), "- 2 1 false");
    // Nothing was recorded.
    let mut run = Run::default();
    run.rank(0).without_device();
    assert_eq!(traits(run, &columns), "- - - -");
}

#[test]
fn run_traits_name_the_communication() {
    let columns =
        ["collectives", "main_collective", "shards_parameters", "reduction_dtype", "uses_ddp"];
    let with = |kernels: &[(&str, &str, i64, i64)]| {
        let mut run = Run::default();
        run.rank(0).annotation(0, "DistributedDataParallel.forward", 0, 10);
        for (i, &(name, collective, dur_ns, elements)) in kernels.iter().enumerate() {
            let ts_ns = 1_000 * i as i64;
            run.kernel_on(0, "communication", (0, 20), ts_ns, dur_ns, None, None, name);
            if elements > 0 {
                run.as_collective(collective, "0", elements).in_group(8, "BFloat16");
            }
        }
        traits(run, &columns)
    };
    assert_eq!(with(&[]), "- - false - true");
    let (reduce, gather, scatter) =
        ("ncclDevKernel_AllReduce", "ncclDevKernel_AllGather", "ncclDevKernel_ReduceScatter");
    assert_eq!(
        with(&[(reduce, "allreduce", 50, 100), ("ncclDevKernel_SendRecv", "", 90, 0)]),
        "send_recv, all_reduce send_recv false bf16 true"
    );
    assert_eq!(
        with(&[(gather, "", 90, 0), (scatter, "", 50, 0)]),
        "all_gather, reduce_scatter all_gather true - true"
    );
    assert_eq!(with(&[("ncclDevKernel_Generic", "", 90, 0)]), "other - - - true");
}
