//! Markers of Composer and Determined: steps, phases, data loading, and metrics of the machine.

use crate::support::trainers::{Series, sampled};
use crate::support::{Run, rows};

const MS: i64 = 1_000_000;

#[test]
fn composer_markers_make_steps_and_phases() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    for batch in 0..2 {
        let start = batch * 1_000;
        run.composer_step(0, batch, start, 600, 300)
            .composer(0, "event/train_batch", batch, (start + 610, start + 890))
            .composer(0, "event/forward", batch, (start + 620, start + 700))
            .composer(0, "event/loss", batch, (start + 700, start + 705))
            .composer(0, "event/backward", batch, (start + 710, start + 860));
    }
    // The end of the epoch.
    run.composer(0, "event/dataloader", 2, (2_000, 2_050));
    let session = run.open();
    let columns = [
        "source",
        "epoch",
        "batch",
        "ts_ns",
        "step_ns",
        "loader_ns",
        "batch_ns",
        "train_batch_ns",
        "forward_ns",
        "loss_ns",
        "backward_ns",
        "outside_train_batch_ns",
        "optimizer_ns",
        "microbatch_count",
    ];
    assert_eq!(
        rows(&session, "trainer_steps", &columns),
        [
            "composer 0 0 0 900 600 300 280 80 5 150 20 - 1",
            "composer 0 1 1000 900 600 300 280 80 5 150 20 - 1"
        ]
    );
    // Loader and batch, without the 5 ns between them.
    let columns = [
        "step",
        "source",
        "step_ns",
        "dataloader_ns",
        "forward_ns",
        "backward_ns",
        "optimizer_ns",
        "other_ns",
        "dataloader_idle_ns",
    ];
    assert_eq!(
        rows(&session, "step_phases_by_step", &columns),
        ["0 composer 900 600 80 150 - 70 600", "1 composer 900 600 80 150 - 70 600"]
    );
    let columns =
        ["step_count", "dataloader_ratio", "forward_ratio", "optimizer_ratio", "has_device"];
    assert_eq!(rows(&session, "step_phases", &columns), ["2 0.666667 0.088889 - -"]);
    let columns = ["name", "is_part", "phase_count", "total_ns", "total_ratio"];
    assert_eq!(
        rows(&session, "trainer_phases", &columns),
        [
            "event/loss false 2 10 0.005556",
            "event/forward false 2 160 0.088889",
            "event/backward false 2 300 0.166667",
            "event/train_batch false 2 560 0.311111",
            "event/batch true 2 600 0.333333",
            "event/dataloader true 3 1250 0.694444",
        ]
    );
}

#[test]
fn loader_wait_of_old_composer_ends_at_the_batch() {
    let mut run = Run::default();
    run.rank(0)
        .without_profiler()
        .composer(0, "dataloader/train", 3, (0, 990))
        .composer(0, "event/batch", 3, (400, 980))
        .step_from("composer", 0, 3, 0, 980, true);
    let session = run.open();
    assert_eq!(
        rows(&session, "trainer_steps", &["loader_ns", "loader_marker_ns", "batch_ns"]),
        ["400 990 580"]
    );
    assert_eq!(rows(&session, "host_waits", &["cause", "ts_ns", "end_ns"]), ["dataloader 0 400"]);
    assert_eq!(
        rows(&session, "step_phases_by_step", &["step_ns", "dataloader_ns", "other_ns"]),
        ["980 400 580"]
    );
}

/// A mark of the loader also holds a wait for the other ranks.
#[test]
fn torch_loader_calls_take_precedence_over_markers() {
    let mut run = Run::default();
    run.rank(0)
        .without_device()
        .composer(0, "event/dataloader", 3, (0, 500))
        .annotation(0, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 10, 100)
        .composer(0, "event/batch", 3, (510, 900))
        // The optimizer calls the model.
        .annotation(0, "Optimizer.step#Adam.step", 520, 370)
        .composer(0, "event/train_batch", 3, (540, 880))
        .op(0, "autograd::engine::evaluate_function: MmBackward0", 700, 100)
        .step(0, 3, 0, 950, true);
    let session = run.open();
    assert_eq!(rows(&session, "host_waits", &["ts_ns", "end_ns"]), ["10 110"]);
    assert_eq!(rows(&session, "loader_fetches", &["source", "wait_ns"]), ["torch 100"]);
    let columns = ["dataloader_ns", "forward_ns", "backward_ns", "optimizer_ns", "other_ns"];
    assert_eq!(rows(&session, "step_phases_by_step", &columns), ["100 180 100 90 480"]);
    assert_eq!(rows(&session, "trainer_steps", &["optimizer_ns"]), ["30"]);
    assert_eq!(rows(&session, "step_phases", &["has_device"]), ["false"]);
}

#[test]
fn determined_timings_make_steps_and_phases() {
    let mut run = Run::default();
    run.rank(0).without_profiler().determined(0, "train_batch", 1, (0, 90));
    for i in 0..3 {
        let start = 100 + 200 * i;
        run.determined(0, "dataloader_next", i + 1, (start, start + 100));
        if i < 2 {
            run.determined(0, "to_device", i + 2, (start + 100, start + 110))
                .determined(0, "train_batch", i + 2, (start + 110, start + 190))
                .determined(0, "train_batch.backward", i + 2, (start + 140, start + 170))
                .step_from("determined", 0, i + 2, start, 190, false);
        }
    }
    let throughput = Series { agent: "agent-a", ..sampled("throughput", "samples/s") };
    for batch in [2, 3] {
        // 16 samples in 95 ns.
        run.sample_in_batch(0, throughput, 200 * batch - 105, batch, 16e9 / 95.0);
    }
    // A range of the program with the same name.
    run.annotation(0, "train_batch", 0, 1_000);
    let session = run.open();
    let columns =
        ["source", "batch", "loader_ns", "batch_ns", "train_batch_ns", "forward_ns", "backward_ns"];
    assert_eq!(
        rows(&session, "trainer_steps", &columns),
        ["determined 2 100 90 80 30 30", "determined 3 100 90 80 30 30"]
    );
    // All timings, also those without a complete step: 300 of 300 + 20 + 250.
    let columns = ["step_count", "dataloader_ratio", "dataloader_idle_ratio", "has_device"];
    assert_eq!(rows(&session, "step_phases", &columns), ["3 0.526316 0.526316 -"]);
    let columns = ["step_ns", "forward_ns", "backward_ns", "optimizer_ns", "other_ns"];
    assert_eq!(
        rows(&session, "step_phases_by_step", &columns),
        ["190 30 30 - 30", "190 30 30 - 30"]
    );
    // 3 batches of 16 in 570 ns.
    assert_eq!(
        rows(
            &session,
            "trainer_throughput",
            &["batch_count", "batch_sample_count", "samples_per_s", "throughput_loss_ratio"]
        ),
        ["3 16 84210526.315789 0.5"]
    );
}

/// Two workers that need 83 ms a batch, a step of 35 ms: 2.4 would do on average, and 3.1 with a margin.
#[test]
fn fetch_period_gives_the_missing_workers() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    let mut now = 0;
    for batch in 0..16 {
        let wait = if batch % 2 == 0 { 12 * MS } else { MS };
        run.composer_step(0, batch, now, wait, 34 * MS);
        now += wait + 35 * MS;
    }
    let session = run.open();
    let columns = [
        "fetch_count",
        "late_count",
        "pattern",
        "fetch_period",
        "worker_count",
        "worker_batch_ns",
        "delivery_ns",
        "workers_needed_count",
        "workers_more_count",
        "workers_if_single_count",
    ];
    assert_eq!(
        rows(&session, "loader_fetches", &columns),
        ["16 8 periodic 2 2 83000000 41500000 4 2 -"]
    );
    let columns =
        ["wait_mean_ns", "wait_median_ns", "wait_max_ns", "batch_median_ns", "compute_ns"];
    assert_eq!(
        rows(&session, "loader_fetches", &columns),
        ["6500000 6500000 12000000 34000000 35000000"]
    );
    let columns = ["worker_count", "workers_more_count", "dataloader_workers"];
    assert_eq!(rows(&session, "step_phases", &columns), ["2 2 multi-process"]);
    assert_eq!(
        rows(&session, "loader_fetches_by_step", &["batch", "wait_ns", "is_late", "is_outlier"])
            [..2],
        ["0 12000000 true false", "1 1000000 false false"]
    );
}

#[test]
fn loader_without_workers_gives_the_needed_workers() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    let mut now = 0;
    for batch in 0..8 {
        // Rank 0 wrote a checkpoint meanwhile.
        let wait = if batch == 5 { 1_389 * MS } else { 82 * MS };
        run.composer_step(0, batch, now, wait, 34 * MS);
        now += wait + 35 * MS;
    }
    let session = run.open();
    let columns = [
        "late_count",
        "outlier_count",
        "pattern",
        "fetch_period",
        "worker_count",
        "workers_needed_count",
        "workers_if_single_count",
    ];
    assert_eq!(rows(&session, "loader_fetches", &columns), ["1 1 irregular - - - -"]);
    assert_eq!(
        rows(
            &session,
            "loader_fetches",
            &["wait_ratio", "wait_median_ratio", "wait_without_largest_ratio"]
        ),
        ["0.8783 0.706897 0.706897"]
    );
    for (view, flag) in
        [("loader_fetches_by_step", "is_outlier"), ("trainer_steps", "is_loader_outlier")]
    {
        assert_eq!(rows(&session, view, &["batch", flag])[4..6], ["4 false", "5 true"], "{view}");
    }
}

fn metrics(samples: &[f64], series: Series<'_>) -> Run {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    for (i, &value) in samples.iter().enumerate() {
        run.sample(0, series, i as i64 * 500 * MS, value);
    }
    run
}

#[test]
fn cumulative_counters_become_nonnegative_rates() {
    let series = Series { device: "vda", is_cumulative: true, ..sampled("disk_write", "bytes") };
    let session = metrics(&[1e12, 1e12 + 50.0, 1e12 + 50.0, 10.0, 110.0], series).open();
    assert_eq!(
        rows(&session, "system_metrics", &["device", "value", "unit", "delta"]),
        [
            "vda - bytes/s -",
            "vda 100 bytes/s 50",
            "vda 0 bytes/s 0",
            "vda - bytes/s -",
            "vda 200 bytes/s 100"
        ]
    );
    let columns = ["sample_count", "mean_value", "min_value", "p50_value", "max_value", "total"];
    assert_eq!(rows(&session, "system_metrics_summary", &columns), ["3 75 0 100 200 150"]);
}

#[test]
fn warm_up_and_tail_samples_are_left_out() {
    let cpu = sampled("cpu_util", "percent");
    let columns = ["sample_count", "flawed_count", "mean_value", "raw_mean_value"];
    // Composer, recorded from the start.
    let session = metrics(&[0.0, 50.0, 70.0], cpu).open();
    assert_eq!(rows(&session, "system_metrics_summary", &columns), ["2 1 60 40"]);
    // Composer, recorded later.
    let session = metrics(&[40.0, 50.0, 0.0], cpu).open();
    assert_eq!(rows(&session, "system_metrics_summary", &columns), ["3 0 30 30"]);
    // Determined from 0.30 on averages the zero into its first report, and ends early.
    let mut run = metrics(&[60.0, 75.0, 76.0], Series { agent: "a", ..cpu });
    run.sample(0, Series { agent: "a", ..cpu }, 1_100 * MS, 15.0);
    let session = run.open();
    assert_eq!(rows(&session, "system_metrics_summary", &columns), ["2 2 75.5 56.5"]);
}

#[test]
fn machines_and_gpus_are_separate_series() {
    let mut run = Run::default();
    run.rank(0).rank(1).without_profiler();
    for (rank, agent) in [(0, "agent-a"), (1, "agent-b")] {
        for (device, util, free) in [("GPU-0", 60.0, 50e9), ("GPU-1", 40.0, 48e9)] {
            for i in 0..4 {
                let of = |metric, unit| Series { agent, device, ..sampled(metric, unit) };
                run.sample(rank, of("gpu_util", "percent"), i * 500 * MS, util + i as f64).sample(
                    rank,
                    of("gpu_memory_free", "bytes"),
                    i * 500 * MS,
                    free - 1e9 * i as f64,
                );
            }
        }
    }
    let session = run.open();
    let columns = [
        "rank",
        "agent",
        "device",
        "gpu_util_ratio",
        "below_busiest_ratio",
        "gpu_count",
        "least_free_memory_bytes",
    ];
    assert_eq!(
        rows(&session, "system_gpus", &columns),
        [
            "0 agent-a GPU-0 0.615 0 2 47000000000",
            "0 agent-a GPU-1 0.415 0.325203 2 45000000000",
            "1 agent-b GPU-0 0.615 0 2 47000000000",
            "1 agent-b GPU-1 0.415 0.325203 2 45000000000",
        ]
    );
    assert_eq!(
        rows(
            &session,
            "system_metrics_by_agent",
            &["metric", "agent", "agent_count", "mean_value", "below_highest_ratio"]
        )[2..],
        ["gpu_util agent-a 2 51.5 0", "gpu_util agent-b 2 51.5 0"]
    );
    let columns = [
        "agent",
        "cpu_util_ratio",
        "machine_count",
        "busy_metric",
        "busy_ratio",
        "below_busiest_ratio",
    ];
    assert_eq!(
        rows(&session, "system_hosts", &columns),
        ["agent-a - 2 gpu_util 0.515 0", "agent-b - 2 gpu_util 0.515 0"]
    );
}

#[test]
fn system_hosts_predict_when_memory_is_full() {
    let free: Vec<f64> = (0..20).map(|i| 10e9 - 1e8 * f64::from(i)).collect();
    let session = metrics(&free, sampled("host_memory_free", "bytes")).open();
    let columns = [
        "cpu_util_ratio",
        "memory_sample_count",
        "memory_free_bytes",
        "memory_growth_bytes",
        "memory_slope_bytes",
        "memory_rise_ratio",
        "memory_full_ns",
    ];
    // 0.1 GB each half second.
    assert_eq!(
        rows(&session, "system_hosts", &columns),
        ["- 20 8100000000 1600000000 200000000 1 40500000000"]
    );
}

#[test]
fn callbacks_and_unpaired_events_are_counted_by_name() {
    let mut run = Run::default();
    run.rank(0)
        .without_profiler()
        .composer_step(0, 0, 0, 100, 895)
        .composer(0, "callback/SpeedMonitor/event/batch_end", 0, (1_000, 1_030))
        .composer(0, "callback/SpeedMonitor/event/epoch_end", 0, (1_030, 1_050))
        .composer(0, "algorithm/LabelSmoothing/event/before_loss", 0, (300, 310))
        .half_event(0, "E", "event/batch", 1, 2_000)
        .half_event(0, "B", "event/epoch", 1, 2_100);
    let session = run.open();
    let columns = ["kind", "class", "event", "total_ns", "class_total_ns", "step_ratio"];
    assert_eq!(
        rows(&session, "trainer_callbacks", &columns),
        [
            "algorithm LabelSmoothing before_loss 10 10 0.01005",
            "callback SpeedMonitor batch_end 30 50 0.030151",
            "callback SpeedMonitor epoch_end 20 50 0.020101",
        ]
    );
    let columns = ["name", "pair_count", "orphan_end_count", "open_begin_count"];
    assert_eq!(
        rows(&session, "trainer_markers", &columns)[3..],
        ["event/batch 1 1 0", "event/dataloader 1 0 0", "event/epoch 0 0 1"]
    );
}

#[test]
fn saves_are_pauses_before_the_next_batch() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    for batch in 1..=5 {
        let pause = if batch == 4 { 42 * MS } else { 100_000 };
        run.half_event(0, "E", "event/batch", batch, batch * 100 * MS).half_event(
            0,
            "E",
            "callback/JSONTraceHandler/event/batch_end",
            batch,
            batch * 100 * MS + pause,
        );
    }
    // The last one of a run leaves no mark.
    run.half_event(0, "E", "event/batch", 6, 600 * MS);
    assert_eq!(
        rows(&run.open(), "trainer_profile_pauses", &["batch_count", "pause_ns", "median_ns"]),
        ["4 42000000 100000"]
    );
}

#[test]
fn metrics_correlate_with_step_time() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    let (cpu, gpu) = (sampled("cpu_util", "percent"), sampled("gpu_util", "percent"));
    let mut now = 0;
    run.sample(0, cpu, now, 1.0).sample(0, gpu, now, 1.0).sample(
        0,
        sampled("swap_used", "bytes"),
        now,
        5.0,
    );
    for batch in 0..9 {
        let wait = (1 + batch * batch % 7) * MS;
        run.composer_step(0, batch, now, wait, 10 * MS - 5);
        now += wait + 10 * MS;
        // The sampler looks when a step is over.
        run.sample(0, cpu, now, wait as f64).sample(0, gpu, now, 1e9 - wait as f64).sample(
            0,
            sampled("swap_used", "bytes"),
            now,
            5.0,
        );
    }
    let session = run.open();
    assert_eq!(
        rows(&session, "system_metrics_by_step", &["metric", "step", "step_ns", "mean_value"])[..2],
        ["cpu_util 0 11000000 1000000", "cpu_util 1 12000000 2000000"]
    );
    assert_eq!(
        rows(
            &session,
            "system_metrics_correlation",
            &["metric", "step_count", "pearson", "spearman"]
        ),
        ["cpu_util 9 1 1", "gpu_util 9 -1 -1", "swap_used 9 - -"]
    );
}

#[test]
fn disk_saturation_is_measured_during_loader_waits() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    let disk = |device| Series { device, ..sampled("disk_read", "bytes/s") };
    for batch in 0..10 {
        let start = batch * 100 * MS;
        run.composer_step(0, batch, start, 60 * MS, 30 * MS);
        for (at, rate) in [(0, 1e6), (60, 200e6), (95, 1e6)] {
            run.sample(0, disk("vda"), start + at * MS, rate).sample(
                0,
                disk("vdb"),
                start + at * MS,
                2e6,
            );
        }
    }
    assert_eq!(
        rows(
            &run.open(),
            "system_input_limits",
            &["device", "highest_value", "wait_ns", "plateau_ratio", "dataloader_ratio"]
        ),
        ["vda 200000000 600000000 1 0.666667", "vdb 2000000 600000000 0 0.666667"]
    );
}

#[test]
fn extreme_values_give_rows() {
    let mut run = Run::default();
    run.rank(0).without_profiler();
    let wild = [1e300, -1e300, f64::MAX, 0.0, f64::INFINITY, 1e19];
    for (i, &value) in wild.iter().enumerate() {
        let at = i as i64 * 10;
        for metric in ["host_memory_free", "gpu_memory_free", "gpu_util", "cpu_util", "throughput"]
        {
            run.sample_in_batch(0, sampled(metric, "bytes"), at, i64::MAX, value);
        }
        run.composer(0, "event/dataloader", i64::MAX, (at, at + 1))
            .composer(0, "event/batch", i64::MAX, (at + 1, at + 2))
            .determined(0, "train_batch", i64::MIN, (at, at + 1))
            .half_event(0, "E", "event/batch", i64::MIN, at)
            .annotation(0, "event/batch", at, 1)
            .with_annotation_args("{\"batch\":");
    }
    let session = run.open();
    for module in analyses::catalog().views() {
        session.analyze(&module.name).unwrap_or_else(|e| panic!("{}: {e}", module.name));
    }
}
