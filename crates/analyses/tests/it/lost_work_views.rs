//! Recordings that lack device work, or to which the profiler adds time: launches without device activity, and gaps between the
//! nodes of traced replays.

use crate::support::{Run, rows};

const STEPS: [&str; 4] = ["step", "is_recorded", "is_anchored", "is_counted"];

/// A run of five steps of 1000 ns on the host, each with ten kernels that start 600 ns after their launch. The kernels of the steps
/// in `lost` are not recorded.
fn steps(lost: &[i64]) -> Run {
    let mut run = Run::default();
    run.rank(0);
    for step in 0..5 {
        run.step(0, step, 1_000 * step, 1_000, step == 4);
        for at in 0..10 {
            let launch_ns = 1_000 * step + 50 * at;
            if lost.contains(&step) {
                run.lost_launch(0, step, launch_ns);
            } else {
                run.kernel_in_step(0, step, launch_ns + 600, 50, (launch_ns, 5));
            }
        }
    }
    run
}

#[test]
fn steps_whose_work_is_lost_do_not_count() {
    let all = ["0 true false false", "1 true true true", "2 true true true", "3 true true true"];
    let of = |lost: &[i64]| rows(&steps(lost).open(), "complete_steps", &STEPS);
    assert_eq!(of(&[])[..4], all);
    // The trace does not show when the device finished the lost work, so the start of the next step is unknown.
    assert_eq!(
        of(&[0, 1])[..4],
        ["0 false true false", "1 false true false", "2 true false false", "3 true true true"]
    );
    // Steps at the end of the recording are not complete in any case.
    assert_eq!(of(&[3, 4]), all[..3]);
    assert_eq!(
        of(&[2])[..4],
        ["0 true false false", "1 true true true", "2 false true false", "3 true false false"]
    );
    // If all steps lack work, they count, and the rule about lost launches reports it.
    let mut all_lack_work = steps(&[]);
    for step in 0..5 {
        all_lack_work.lost_launch(0, step, 1_000 * step + 700);
    }
    assert_eq!(rows(&all_lack_work.open(), "complete_steps", &STEPS)[1..4], all[1..4]);
}

#[test]
fn lost_launches_are_counted_by_where_they_are() {
    let columns = ["launch_count", "lost_count", "early_count", "late_count"];
    let of = |lost: &[i64]| rows(&steps(lost).open(), "trace_lost_launches", &columns);
    assert_eq!(of(&[]), ["50 0 0 0"]);
    assert_eq!(of(&[0, 1]), ["50 20 20 0"]);
    assert_eq!(of(&[4]), ["50 10 0 10"]);
    assert_eq!(of(&[2]), ["50 10 0 0"]);
    let steps_left = ["step_count", "counted_step_count", "early_ns"];
    assert_eq!(rows(&steps(&[0, 1]).open(), "trace_lost_launches", &steps_left), ["5 2 2000"]);
    assert_eq!(
        rows(
            &steps(&[0, 1]).open(),
            "trace_recording",
            &["lost_launch_ratio", "recorded_step_count"]
        ),
        ["0.4 2"]
    );
}

#[test]
fn captured_launches_are_not_lost() {
    let mut run = steps(&[]);
    let mut capture = |calls: &[(&str, i64)]| {
        for &(name, ts_ns) in calls {
            run.call(0, name, ts_ns, 1);
        }
    };
    // The recording begins inside a capture and ends inside another one.
    capture(&[
        ("cudaLaunchKernel", -30),
        ("cudaStreamEndCapture", -20),
        ("cudaStreamBeginCapture", 1_700),
        ("cudaLaunchKernel", 1_710),
        ("cudaStreamEndCapture", 1_720),
        ("cudaStreamBeginCapture", 5_100),
        ("cudaLaunchKernel", 5_110),
    ]);
    assert_eq!(rows(&run.open(), "lost_launches", &["ts_ns"]), Vec::<String>::new());
    let mut run = steps(&[]);
    run.call(0, "cudaStreamBeginCapture", 1_700, 1);
    run.call(0, "cudaStreamEndCapture", 1_720, 1);
    run.call(0, "hipExtModuleLaunchKernel", 1_690, 1);
    run.call(0, "cudaLaunchKernelExC", 1_730, 1);
    run.call(0, "cudaGraphLaunch", 1_740, 1);
    assert_eq!(rows(&run.open(), "lost_launches", &["ts_ns"]), ["1690", "1730"]);
}

#[test]
fn launches_that_share_a_correlation_id_with_recorded_work_are_not_lost() {
    let lost = |add: fn(&mut Run, i64)| {
        let mut run = steps(&[]);
        let call = run.call(0, "cudaLaunchKernel", 1_690, 1);
        add(&mut run, call);
        rows(&run.open(), "lost_launches", &["ts_ns"])
    };
    assert_eq!(lost(|_, _| {}), ["1690"]);
    // This call or a call of another process in the file launched the kernel.
    let shared = lost(|run, call| {
        run.kernel(0, "computation", 2_000, 10, None).correlated(call);
    });
    assert_eq!(shared, Vec::<String>::new());
    // A driver call inside a runtime call is not a separate launch; a call at another time is.
    let nested = lost(|run, _| {
        run.kernel(0, "computation", 2_100, 10, Some((1_800, 5)));
        run.call_with_id_of_launch("cuLaunchKernel", 1_801, 3);
        run.call_with_id_of_launch("cudaLaunchKernel", 2_900, 3);
    });
    assert_eq!(nested, ["1690", "2900"]);
}

#[test]
fn recordings_without_steps_begin_and_end_with_the_work_they_have() {
    let of = |lost: &[i64]| {
        let mut run = Run::default();
        run.rank(0).step_from("trace", 0, 0, 0, 5_000, true);
        for at in 0..5 {
            if lost.contains(&at) {
                run.lost_launch(0, 0, 1_000 * at);
            } else {
                run.kernel_in_step(0, 0, 1_000 * at + 100, 500, (1_000 * at, 5));
            }
        }
        rows(&run.open(), "device_windows", &["start_ns", "end_ns"]).swap_remove(0)
    };
    assert_eq!(of(&[]), "0 5000");
    assert_eq!(of(&[0, 1]), "2000 5000");
    assert_eq!(of(&[3, 4]), "0 2600");
    assert_eq!(of(&[2]), "0 5000");
}

#[test]
fn idle_time_around_lost_launches_is_unrecorded_work() {
    let mut run = Run::step_with_idle_gap((700, 50));
    run.lost_launch(0, 0, 300);
    assert_eq!(
        rows(&run.open(), "idle_gap_causes", &["cause", "dur_ns"]),
        ["python 200", "unrecorded_work 500"],
        "the host is late until the launch whose work is lost"
    );
}

#[test]
fn launches_after_that_of_the_next_activity_delay_nothing_before_it() {
    let causes = |lost_ns: &[i64]| {
        let mut run = Run::step_with_idle_gap((50, 10));
        for &ts_ns in lost_ns {
            run.lost_launch(0, 0, ts_ns);
        }
        rows(&run.open(), "idle_gap_causes", &["cause", "dur_ns"])
    };
    assert_eq!(causes(&[70]), ["dependency 700"]);
    assert_eq!(causes(&[300]), ["dependency 700"]);
    assert_eq!(
        causes(&[30, 70]),
        ["unrecorded_work 700"],
        "the work of the first launch ran between"
    );
}

/// A run with one replay of `nodes` kernels of 16 us, separated by the gaps of `gaps_ns` in turn.
fn replay(nodes: i64, gaps_ns: &[i64]) -> Run {
    let mut run = Run::default();
    run.rank(0).step_from("trace", 0, 0, 0, 1_000_000, true);
    let mut ts_ns = 10_000;
    for node in 0..nodes {
        run.kernel(0, "computation", ts_ns, 16_000, Some((1_000, 2_000)));
        ts_ns += 16_000 + gaps_ns[node as usize % gaps_ns.len()];
    }
    run.launched_by_graph(nodes as usize);
    run
}

#[test]
fn equal_gaps_inside_replays_come_from_the_profiler() {
    let columns = ["gap_count", "gap_ns", "median_gap_ns"];
    let of = |run: Run| rows(&run.open(), "traced_replays", &columns);
    assert_eq!(of(replay(41, &[5_600])), ["40 224000 5600"]);
    assert_eq!(of(replay(41, &[5_600, 5_000, 6_200, 5_900, 30_000])), ["40 421600 5900"]);
    let nothing = Vec::<String>::new();
    assert_eq!(of(replay(15, &[5_600])), nothing, "few gaps");
    assert_eq!(of(replay(41, &[1])), nothing, "short gaps");
    assert_eq!(of(replay(41, &[1_000])), nothing, "gaps that a graph without a profiler has");
    assert_eq!(of(replay(41, &[1_000, 9_000, 3_000])), nothing, "gaps of different lengths");
    let session = replay(41, &[5_600]).open();
    let columns = ["switch_ns", "profiler_ns"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["0 224000"]);
    let session = replay(41, &[1_000, 9_000, 3_000]).open();
    assert_eq!(rows(&session, "gpu_idle_causes", &["profiler_ns"]), ["0"]);
}

/// Returns the burst columns of a run of `step_count` steps of 1 ms that launch `kernel_count` kernels, of which the first starts at
/// `first_ns`.
fn late_work(step_count: i64, kernel_count: i64, first_ns: i64) -> String {
    let mut run = Run::default();
    run.rank(0);
    for step in 0..step_count {
        run.step(0, step, 1_000_000 * step, 1_000_000, step + 1 == step_count);
    }
    for at in 0..kernel_count {
        let step = at % step_count;
        let launch_ns = 1_000_000 * step + at;
        run.kernel_in_step(0, step, first_ns + 10 * at, 10, (launch_ns, 1));
    }
    rows(&run.open(), "trace_bursts", &["waiting_count", "burst_ratio"]).swap_remove(0)
}

#[test]
fn work_that_waits_is_a_burst_if_no_queue_holds_it() {
    assert_eq!(late_work(2, 40, 2_000_000), "40 1", "behind the last step");
    assert_eq!(late_work(2, 1_100, 1_900_000), "1100 1", "more than a queue holds");
    // If the host is ahead, a device that is busy with earlier work starts just as late.
    assert_eq!(late_work(2, 40, 1_900_000), "40 0", "a model that fits into a queue");
    assert_eq!(late_work(2, 40, 500_000), "20 0", "less than a millisecond");
    assert_eq!(late_work(1, 40, 2_000_000), "40 -", "one step");
}

#[test]
fn backward_numbers_of_several_operators_are_contradictory() {
    let mut run = Run::default();
    run.rank(0);
    for (name, sequence) in [("MulBackward0", 7), ("AddBackward0", 7), ("AddBackward0", 8)] {
        let name = format!("autograd::engine::evaluate_function: {name}");
        run.op(0, &name, sequence, 1).with_sequence(sequence);
    }
    // AccumulateGrad has no sequence number of its own.
    let name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    run.op(0, name, 20, 1).with_sequence(8);
    run.op(0, "record_param_comms", 30, 1);
    let columns = [
        "backward_count",
        "shared_backward_count",
        "collective_count",
        "bare_collective_count",
        "flaw_count",
    ];
    assert_eq!(rows(&run.open(), "trace_links", &columns), ["2 1 1 1 1"]);
}
