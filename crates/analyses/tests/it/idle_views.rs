//! Idle time of devices: each case that has a cause of its own, written out by hand.

use crate::support::{Run, rows};

const PARTS: [&str; 4] = ["gap_ts_ns", "cause", "state", "dur_ns"];

fn parts(run: Run) -> Vec<String> {
    rows(&run.open(), "idle_gap_causes", &PARTS)
}

#[test]
fn idle_gap_before_a_late_launch_has_the_cause_on_its_thread() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        // 100..400: loading to 150, an operator 160..360 with calls 200..230 and 240..270 in it, the launch 300..350.
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 90, 60)
        .op_on(0, 1, "aten::mm", 160, 200)
        .kernel(0, "computation", 400, 600, Some((300, 50)));
    run.call(0, "cudaMalloc", 200, 30);
    run.call(0, "cudaMemcpyAsync", 240, 30);
    let session = run.open();
    assert_eq!(
        rows(&session, "idle_gap_causes", &PARTS),
        [
            "100 data_loading data_loading 50",
            "100 python python 10",
            "100 op_dispatch op_dispatch 80",
            "100 allocation allocation 30",
            "100 copy_api copy_api 30",
            "100 launch_api launch_api 50",
            "100 launch_latency - 50",
        ]
    );
    let columns = ["cause", "name", "op_name", "next_name", "next_dur_ns", "step"];
    assert_eq!(
        rows(&session, "idle_gap_causes", &columns)[2..4],
        [
            "op_dispatch aten::mm aten::mm computation 600 -",
            "allocation cudaMalloc aten::mm computation 600 -"
        ]
    );
}

/// The list of calls that take memory is that of `memory_driver_calls`.
#[test]
fn idle_gap_in_memory_calls_is_allocation() {
    for (name, cause) in [
        ("cudaMalloc", "allocation"),
        ("cuMemMap", "allocation"),
        ("hipMemAddressReserve", "allocation"),
        ("cuMemGetInfo", "launch_api"),
    ] {
        let mut run = Run::default();
        run.rank(0)
            .step(0, 0, 0, 100, true)
            .op_on(0, 9, "aten::add", 0, 10)
            .kernel(0, "computation", 0, 10, Some((-20, 10)))
            .kernel(0, "computation", 60, 40, Some((50, 10)));
        run.call(0, name, 10, 40);
        let found = rows(&run.open(), "idle_gap_causes", &["cause", "name", "dur_ns"]);
        assert!(found[0].starts_with(cause), "{name}: {found:?}");
    }
}

/// One long stretch of Python, named after the longest of what runs in it.
#[test]
fn idle_names_say_how_much_a_name_holds() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .op_on(0, 9, "aten::add", 0, 10)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .kernel(0, "computation", 920, 80, Some((900, 10)))
        .annotation(0, "train", -30, 1_030)
        .annotation(0, "preprocess", 95, 800)
        // It calls itself.
        .annotation(0, "preprocess", 97, 790)
        .annotation(0, "normalize", 120, 380)
        .annotation(0, "resize", 500, 350);
    let columns = [
        "top_python_name",
        "top_python_ratio",
        "around_python_name",
        "around_python_ratio",
        "top_dispatch_name",
    ];
    // A gap of 820, with Python from 100 to 900: "normalize" has 380 of the gap, "preprocess" 795.
    assert_eq!(
        rows(&run.open(), "gpu_idle_causes", &columns),
        ["normalize 0.463415 preprocess 0.969512 cudaLaunchKernel"]
    );
    // Where the longest name explains it, no other is given.
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .op_on(0, 9, "aten::add", 0, 10)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .kernel(0, "computation", 920, 80, Some((900, 10)))
        .annotation(0, "train", -30, 1_030)
        .annotation(0, "preprocess", 100, 760);
    let found = rows(&run.open(), "gpu_idle_causes", &columns[..4]);
    assert_eq!(found, ["preprocess 0.926829 - -"]);
    // Without names there are no shares, and a call has its own time.
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .op_on(0, 9, "aten::add", 0, 10)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .kernel(0, "computation", 920, 80, Some((900, 10)));
    let columns =
        ["top_python_name", "top_python_ratio", "top_dispatch_name", "top_dispatch_ratio"];
    assert_eq!(rows(&run.open(), "gpu_idle_causes", &columns), ["- - cudaLaunchKernel 0.5"]);
}

#[test]
fn idle_gap_after_a_sync_is_sync_except_loading() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 0, 100, Some((-300, 10)))
        .op_on(0, 1, "aten::item", -250, 370)
        .op_on(0, 1, "aten::add", 200, 50)
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 130, 20)
        .kernel(0, "computation", 300, 700, Some((230, 10)));
    run.call(0, "cudaStreamSynchronize", -240, 350);
    let session = run.open();
    let columns = ["cause", "state", "dur_ns", "name", "op_name"];
    assert_eq!(
        rows(&session, "idle_gap_causes", &columns),
        [
            "synchronization synchronization 10 cudaStreamSynchronize aten::item",
            "synchronization op_dispatch 40 cudaStreamSynchronize aten::item",
            "synchronization python 60 cudaStreamSynchronize aten::item",
            "data_loading data_loading 20 enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ -",
            "synchronization launch_api 10 cudaStreamSynchronize aten::item",
            "synchronization launch_latency 60 cudaStreamSynchronize aten::item",
        ]
    );
    let columns = ["read_count", "read_ns", "read_op_name", "call_ns", "copy_ns", "wait_count"];
    assert_eq!(rows(&session, "idle_syncs", &columns), ["1 180 aten::item 0 0 1"]);
}

/// Without a wait of 20 ns, the host would be ahead by 20 ns.
#[test]
fn idle_gap_after_a_short_wait_is_sync_for_as_long_as_it_lasted() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .op_on(0, 1, "aten::item", 80, 40)
        .op_on(0, 1, "aten::add", 200, 50)
        .kernel(0, "computation", 300, 700, Some((230, 10)));
    run.call(0, "cudaStreamSynchronize", 90, 20);
    assert_eq!(
        parts(run),
        [
            "100 synchronization synchronization 10",
            "100 synchronization op_dispatch 10",
            "100 python python 80",
            "100 op_dispatch op_dispatch 30",
            "100 launch_api launch_api 10",
            "100 launch_latency - 60",
        ]
    );
}

/// A long wait takes a lead from the host that would also have covered the gap after the next, short one.
#[test]
fn idle_gaps_after_short_waits_belong_to_a_long_one_before() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 2_000, true)
        .kernel(0, "computation", 0, 500, Some((-20, 10)))
        .op_on(0, 1, "aten::item", 90, 420)
        .op_on(0, 1, "aten::item", 610, 60)
        .kernel(0, "computation", 600, 50, Some((580, 10)))
        .kernel(0, "computation", 750, 1_250, Some((730, 10)));
    run.call(0, "cudaStreamSynchronize", 100, 402);
    run.call(0, "cudaStreamSynchronize", 640, 12);
    let idle: Vec<String> = rows(&run.open(), "gpu_idle_causes", &["sync_ns", "idle_ns"]);
    assert_eq!(idle, ["200 200"]);
}

/// Without operators, what the host does after a wait of 3 us is unknown.
#[test]
fn idle_gap_after_a_short_wait_without_operators_has_no_host_events() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 2 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((-20 * US, 10 * US)))
        .kernel(0, "computation", MS, MS, Some((MS - 20 * US, 10 * US)));
    run.call(0, "cudaStreamSynchronize", 99 * US, 3 * US);
    let causes: Vec<String> = rows(&run.open(), "idle_gap_causes", &["cause", "dur_ns"]);
    assert_eq!(
        causes,
        [
            // In the call, and after it.
            "synchronization 2000",
            "synchronization 1000",
            "no_host_events 877000",
            "launch_api 10000",
            "launch_latency 10000",
        ]
    );
}

#[test]
fn idle_gap_with_a_blocked_launch_is_launch_api() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 100, 100, Some((50, 150)))
        .kernel(0, "computation", 300, 100, Some((250, 149)))
        .kernel(0, "computation", 500, 100, None);
    let columns = ["known_count", "blocked_ratio", "wait_count"];
    assert_eq!(rows(&run.open(), "idle_syncs", &columns), ["2 0.5 0"]);
}

/// Autograd launches on a thread of its own: while that does nothing, the loop's thread tells.
#[test]
fn idle_gap_while_the_launch_thread_idles_goes_to_the_loop_thread() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .op_on(0, 1, "aten::ones_like", 100, 40)
        .op_on(0, 5, "autograd::engine::evaluate_function: MmBackward0", 150, 100)
        .kernel(0, "computation", 240, 760, Some((220, 10)));
    run.launched_and_called_by_thread(5);
    let columns = ["cause", "dur_ns", "thread", "name"];
    assert_eq!(
        rows(&run.open(), "idle_gap_causes", &columns),
        [
            "op_dispatch 110 5 autograd::engine::evaluate_function: MmBackward0",
            "python 10 1 -",
            "launch_api 10 5 cudaLaunchKernel",
            "launch_latency 10 - -",
        ]
    );
}

#[test]
fn idle_gap_after_a_timely_launch_is_a_wait_for_other_work() {
    let mut run = Run::default();
    let mut kernel = |kind: &str, stream: i32, ts: i64, dur: i64| {
        run.kernel_on(0, kind, (0, stream), ts, dur, Some((0, 1)), None, kind);
    };
    // Behind its own stream; behind a collective and behind a copy stream, its own stream long done.
    kernel("computation", 7, 10, 90);
    kernel("computation", 7, 105, 95);
    kernel("communication", 20, 100, 50_000);
    kernel("computation", 7, 50_120, 80);
    kernel("computation", 13, 50_150, 50_000);
    kernel("computation", 7, 100_190, 10);
    run.rank(0).step_from("trace", 0, 0, 10, 100_190, true);
    assert_eq!(parts(run), ["50100 collective - 20", "100150 other_stream - 40"],);
}

#[test]
fn idle_gap_in_a_graph_replay_is_unexplained() {
    // A replay of which nothing was recorded: from its launch on the cause is unknown.
    let mut run = Run::step_with_idle_gap((700, 50));
    run.call(0, "cudaGraphLaunch", 300, 40);
    let session = run.open();
    assert_eq!(
        rows(&session, "idle_gap_causes", &PARTS),
        ["100 python python 200", "100 graph_replay - 500"],
        "the host is late until the replay begins"
    );
    let columns = ["idle_ratio", "unattributed_ratio"];
    assert_eq!(rows(&session, "gpu_utilization", &columns), ["0.7 0.5"]);

    // A replay of which a tenth runs by what is recorded.
    let mut run = Run::default();
    run.rank(0).step(0, 0, 0, 1_000, true).op_on(0, 9, "aten::add", 0, 10);
    for ts in [100, 550, 950] {
        run.kernel(0, "computation", ts, 30, Some((50, 20)));
    }
    run.launched_by_graph(3);
    assert_eq!(
        parts(run),
        [
            "0 python python 50",
            "0 graph_replay - 50",
            "130 graph_replay - 420",
            "580 graph_replay - 370",
            "980 recording_end python 20",
        ]
    );
}

#[test]
fn idle_gap_without_launches_is_unexplained() {
    let mut run = Run::default();
    run.rank(0).step_from("trace", 0, 0, 0, 200, true).kernel(0, "computation", 50, 150, None);
    assert_eq!(parts(run), ["0 no_host_events - 50"]);
    let mut run = Run::default();
    run.rank(0).step_from("trace", 0, 0, 0, 200, true).kernel(0, "computation", 50, 150, None);
    run.call(0, "cudaLaunchKernel", 0, 5);
    assert_eq!(parts(run), ["0 unlinked - 50"]);
    // Calls without operators: what is in no call may have been in an operator.
    let mut run = Run::default();
    run.rank(0).step_from("trace", 0, 0, 0, 200, true).kernel(
        0,
        "computation",
        50,
        150,
        Some((30, 10)),
    );
    assert_eq!(
        parts(run),
        ["0 no_host_events - 30", "0 launch_api launch_api 10", "0 launch_latency - 10"]
    );
}

#[test]
fn idle_longest_gap_names_its_cause() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .op_on(0, 1, "aten::mm", 100, 290)
        .kernel(0, "computation", 400, 200, Some((380, 10)))
        .kernel(0, "computation", 610, 390, Some((600, 5)));
    let columns = [
        "ts_ns",
        "dur_ns",
        "step_ratio",
        "cause",
        "cause_ns",
        "name",
        "long_count",
        "is_attributed",
    ];
    assert_eq!(
        rows(&run.open(), "idle_longest_gap", &columns),
        ["100 300 0.3 op_dispatch 280 aten::mm 1 true"]
    );
}

/// Python for 1 ms or longer is not between the operators of a model: compiling the model leaves it.
#[test]
fn gpu_eager_leaves_out_long_python() {
    let ms = 1_000_000;
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 10 * ms, true)
        .op_on(0, 1, "aten::mm", 0, 10)
        .kernel(0, "computation", 0, 2 * ms, Some((-20, 10)))
        // Half a millisecond, then three.
        .kernel(0, "computation", 2 * ms + ms / 2, ms / 2, Some((2 * ms + ms / 2, 0)))
        .kernel(0, "computation", 6 * ms, 4 * ms, Some((6 * ms, 0)));
    let session = run.open();
    assert_eq!(rows(&session, "gpu_idle_causes", &["python_ratio", "host_ratio"]), ["0.35 0.35"]);
    assert_eq!(rows(&session, "gpu_eager", &["host_ratio"]), ["0.05"]);
}

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// A launch that takes half a second to arrive waited for what ran before the recording.
#[test]
fn idle_gap_long_after_the_launch_is_unrecorded_work() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 600 * MS, true)
        .op_on(0, 1, "aten::add", 0, 20 * US)
        .kernel(0, "computation", 500 * MS, 100 * MS, Some((0, 10 * US)));
    let session = run.open();
    assert_eq!(
        rows(&session, "idle_gap_causes", &PARTS),
        ["0 launch_api launch_api 10000", "0 unrecorded_work - 499990000"]
    );
    let columns = ["first_idle_ns", "first_idle_cause", "launch_latency_ns", "unattributed_ns"];
    assert_eq!(
        rows(&session, "gpu_idle_causes", &columns),
        ["500000000 unrecorded_work 0 499990000"]
    );
    let columns = ["idle_ratio", "unattributed_cause"];
    assert_eq!(rows(&session, "gpu_utilization", &columns), ["0.833333 unrecorded_work"]);
}

/// Behind its own stream nothing runs for 5 ms: unknown, unless another device of the rank may be waited for.
#[test]
fn idle_gap_long_after_all_work_ended_is_unrecorded_work() {
    let run = |has_second_device: bool| {
        let mut run = Run::default();
        run.rank(0)
            .step_from("trace", 0, 0, 0, 6 * MS, true)
            .op_on(0, 1, "aten::add", 0, 20 * US)
            .kernel(0, "computation", 0, 100 * US, Some((-20, 1)))
            .kernel(0, "computation", 5 * MS, MS, Some((-10, 1)));
        if has_second_device {
            let launch = Some((-15, 1));
            run.kernel_on(0, "computation", (1, 7), 0, 6 * MS, launch, None, "computation");
        }
        parts(run)
    };
    assert_eq!(run(false), ["100000 unrecorded_work - 4900000"]);
    assert_eq!(run(true), ["100000 dependency - 4900000"]);
}

#[test]
fn idle_gap_in_a_first_launch_is_warmup() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 10 * MS, true)
        .op_on(0, 1, "aten::add", 0, 10 * MS)
        // The first launch loads the kernel; the others take 10 us, as does the first one of a kernel that was loaded.
        .kernel(0, "computation", 5 * MS, 10 * US, Some((0, 5 * MS)))
        .kernel(0, "computation", 6 * MS, 10 * US, Some((6 * MS - 20 * US, 10 * US)))
        .kernel(0, "communication", 7 * MS, 10 * US, Some((7 * MS - 20 * US, 10 * US)))
        .kernel(0, "computation", 8 * MS, 2 * MS, Some((8 * MS - 20 * US, 10 * US)));
    let session = run.open();
    assert_eq!(
        rows(&session, "idle_gap_causes", &["gap_ts_ns", "cause", "side", "dur_ns", "name"])[..2],
        [
            "0 first_launch warmup 5000000 cudaLaunchKernel",
            "5010000 op_dispatch host 970000 aten::add"
        ]
    );
    let columns = ["first_launch_ns", "launch_api_ns", "dispatch_ns", "host_ns", "unattributed_ns"];
    assert_eq!(
        rows(&session, "gpu_idle_causes", &columns),
        ["5000000 30000 2970000 2970000 5000000"]
    );
    let columns = ["warmup_ns", "first_launch_ns", "warmup_ratio", "warmup_name", "compile_ns"];
    assert_eq!(rows(&session, "run_warmup", &columns), ["5000000 5000000 0.5 cudaLaunchKernel 0"]);
    let columns = ["name", "work_name", "ts_ns", "end_ns", "later_ns"];
    assert_eq!(
        rows(&session, "first_launches", &columns),
        ["cudaLaunchKernel computation 0 5000000 10000"]
    );
}

/// A call counts as first if later ones are ten times faster; a wait never does.
#[test]
fn first_launches_compare_with_later_calls() {
    let first = |name: &str, first_ns: i64, later_ns: Option<i64>| {
        let mut run = Run::default();
        run.rank(0).kernel(0, "computation", 0, 10, Some((-20, 10)));
        run.call(0, name, 100, first_ns);
        if let Some(later_ns) = later_ns {
            run.call(0, name, 100 * MS, later_ns);
        }
        rows(&run.open(), "first_launches", &["end_ns"]).len()
    };
    assert_eq!(first("cudaStreamCreateWithFlags", 5 * MS, Some(2 * US)), 1);
    assert_eq!(first("cudaStreamCreateWithFlags", 5 * MS, Some(600 * US)), 0);
    assert_eq!(first("cudaStreamCreateWithFlags", 90 * US, Some(2 * US)), 0);
    assert_eq!(first("cudaStreamCreateWithFlags", 5 * MS, None), 0);
    assert_eq!(first("cudaDeviceSynchronize", 5 * MS, Some(2 * US)), 0);
    assert_eq!(first("cudaMalloc", 5 * MS, Some(2 * US)), 0);
}

#[test]
fn idle_gap_in_an_operator_that_launches_nothing_is_cpu_compute() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 20 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((-20, 10)))
        // A cast on the CPU, an operator that launches, one that takes memory, and one that makes a view.
        .op_on(0, 1, "aten::copy_", MS, 5 * MS)
        .op_on(0, 1, "aten::mm", 7 * MS, 3 * MS)
        .op_on(0, 1, "aten::empty", 11 * MS, 2 * MS)
        .op_on(0, 1, "aten::view", 14 * MS, 900 * US)
        .kernel(0, "computation", 10 * MS, 10 * US, Some((9 * MS, 10 * US)))
        .kernel(0, "computation", 16 * MS, 4 * MS, Some((15 * MS, MS - 10 * US)));
    let session = run.open();
    let columns = ["cause", "dur_ns", "name", "op_name"];
    assert_eq!(
        rows(&session, "idle_gap_causes", &columns)[..3],
        [
            "python 1900000 - -",
            "cpu_compute 5000000 aten::copy_ aten::copy_",
            "op_dispatch 2000000 aten::mm aten::mm",
        ]
    );
    let columns =
        ["cpu_compute_ns", "op_dispatch_ns", "top_cpu_name", "top_cpu_ratio", "first_idle_ns"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["5000000 4900000 aten::copy_ 1 0"]);
    let columns = ["host_ratio"];
    let total = rows(&session, "gpu_idle_causes", &columns);
    assert_ne!(rows(&session, "gpu_eager", &columns), total, "compiling does not help there");
}

#[test]
fn idle_gap_after_a_sync_leaves_cpu_compute_alone() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 10 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((-4 * MS, 10)))
        .op_on(0, 1, "aten::max", MS, 3 * MS)
        .kernel(0, "computation", 5 * MS, 5 * MS, Some((5 * MS - 20 * US, 10 * US)));
    run.call(0, "cudaStreamSynchronize", -3 * MS, 3 * MS + 110 * US);
    assert_eq!(
        parts(run),
        [
            "100000 synchronization synchronization 10000",
            "100000 synchronization python 1870000",
            "100000 cpu_compute cpu_compute 3000000",
            "100000 synchronization launch_api 10000",
            "100000 synchronization launch_latency 10000",
        ]
    );
}

/// Work of the CPU counts whatever its length; numbers and views are the cost of calling operators.
#[test]
fn idle_gap_in_short_operators_on_the_cpu_is_cpu_compute() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 2 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((-20, 10)))
        .op_on(0, 1, "aten::matmul", 200 * US, 330 * US)
        .with_input_dims("[[64, 64], [64, 64]]")
        .op_on(0, 1, "aten::bmm", 205 * US, 320 * US)
        .with_input_dims("[[1, 64, 64], [1, 64, 64]]")
        .op_on(0, 1, "aten::add_", 600 * US, 20 * US)
        .with_input_dims("[[], [], []]")
        .op_on(0, 1, "aten::view", 700 * US, 30 * US)
        .with_input_dims("[[64, 64], []]")
        .kernel(0, "computation", MS, MS, Some((MS - 20 * US, 10 * US)));
    let session = run.open();
    let columns = ["cpu_compute_ns", "op_dispatch_ns", "top_cpu_name", "creation_ns"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["330000 50000 aten::matmul 0"]);
    assert_eq!(rows(&session, "cpu_computations", &["name", "dur_ns"]), ["aten::matmul 330000"]);
}

/// Inputs that are created on the CPU and copied are a finding of their own.
#[test]
fn idle_gap_in_a_creation_before_a_copy_is_creation() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 2 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((-20, 10)))
        .op_on(0, 1, "aten::randn", 200 * US, 500 * US)
        .op_on(0, 1, "aten::normal_", 210 * US, 480 * US)
        .memcpy(0, MS, MS, 1_000_000, Some((MS - 20 * US, 10 * US)))
        .with_direction("Memcpy HtoD (Pageable -> Device)", "HtoD");
    let session = run.open();
    let columns =
        ["cpu_compute_ns", "creation_ns", "cpu_work_ns", "top_cpu_name", "top_creation_name"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["500000 500000 0 - aten::randn"]);
    let columns = ["init_idle_ns", "init_idle_ratio", "init_idle_name", "init_ratio"];
    assert_eq!(rows(&session, "op_call_sites", &columns), ["500000 0.25 aten::randn 0.25"]);
}

/// Time that does not recur has owners: setting the runtime up, compiling, loading code, and the profiler.
#[test]
fn idle_gap_in_start_up_compiling_and_the_profiler_is_warmup() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 20 * MS, true)
        .annotation(0, "_compile.compile_inner (dynamo_timed)", 6 * MS, 2 * MS)
        .op_on(0, 1, "aten::mm", 9 * MS, 4 * MS)
        .overhead(0, "Activity Buffer Request", 10 * MS, 2 * MS)
        .overhead(0, "Command Buffer Full", 14 * MS, MS)
        .kernel(0, "computation", 12 * MS + 500 * US, MS, Some((12 * MS + 100 * US, 10 * US)))
        .kernel(0, "computation", 16 * MS, 4 * MS, Some((15 * MS + 500 * US, 10 * US)));
    run.call(0, "cudaGetDeviceProperties", MS, 3 * MS);
    // As long as creating a context, and as short as any allocation.
    run.call(0, "cudaMalloc", 4 * MS, MS);
    run.call(0, "cuModuleLoadData", 5 * MS, 500 * US);
    let session = run.open();
    // Before the first event, the host is unknown.
    let columns = [
        "startup_ns",
        "compiling_ns",
        "first_launch_ns",
        "profiler_ns",
        "allocation_ns",
        "unattributed_ns",
    ];
    assert_eq!(
        rows(&session, "gpu_idle_causes", &columns),
        ["3000000 2000000 500000 2000000 1000000 8500000"]
    );
    let columns = ["kind", "name", "ts_ns", "end_ns"];
    assert_eq!(
        rows(&session, "host_warmups", &columns).len(),
        4,
        "a full queue is neither start-up nor the profiler's work"
    );
    assert_eq!(rows(&session, "trace_overhead", &["overhead_count", "overhead_ns"]), ["2 2000000"]);
    let columns = ["startup_idle_ratio", "profiler_ratio", "profiler_name"];
    let recorded = rows(&session, "trace_recording", &columns);
    assert_eq!(recorded, ["0.366667 0.1 Activity Buffer Request"]);
}

/// Compiling in a later step than the first recurs.
#[test]
fn idle_gap_in_a_recompilation_is_of_the_host() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 10 * MS, true)
        .step(0, 1, 10 * MS, 10 * MS, true)
        .annotation(0, "_compile.compile_inner (dynamo_timed)", MS, 2 * MS)
        .annotation(0, "_compile.compile_inner (dynamo_timed)", 12 * MS, 3 * MS)
        .op_on(0, 1, "aten::mm", 8 * MS, MS)
        .op_on(0, 1, "aten::mm", 18 * MS, MS)
        .kernel_in_step(0, 0, 9 * MS, MS, (8 * MS, 10 * US))
        .kernel_in_step(0, 1, 19 * MS, MS, (18 * MS, 10 * US));
    let session = run.open();
    let query = ["cause", "side", "dur_ns"];
    let compiling: Vec<String> = rows(&session, "idle_gap_causes", &query)
        .into_iter()
        .filter(|row| row.starts_with("compiling"))
        .collect();
    assert_eq!(compiling, ["compiling warmup 2000000", "compiling host 3000000"]);
}

/// The step is another process's: what the thread that launches does after its last event is unknown.
#[test]
fn idle_gap_outside_the_events_of_its_thread_has_no_host_events() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 50 * MS, true)
        .op_on(0, 5, "aten::add", 40 * US, 30 * US)
        .op_on(0, 5, "aten::view", 200 * US, 100 * US)
        .kernel(0, "computation", 100 * US, 10 * US, Some((50 * US, 10 * US)));
    run.launched_and_called_by_thread(5);
    assert_eq!(
        parts(run),
        [
            "0 no_host_events - 40000",
            "0 op_dispatch op_dispatch 10000",
            "0 launch_api launch_api 10000",
            "0 launch_latency - 40000",
            "110000 recording_end python 90000",
            "110000 recording_end op_dispatch 100000",
            "110000 no_host_events - 49700000",
        ]
    );
}

/// A second of silence is Python only if a step of the thread covers it.
#[test]
fn idle_gap_in_a_long_silence_has_no_host_events() {
    let run = |source: &str, dur_ns: i64| {
        let mut run = Run::default();
        run.rank(0)
            .step_from(source, 0, 0, 0, dur_ns, true)
            .kernel(0, "computation", 0, 100 * US, Some((0, 10 * US)))
            .op_on(0, 1, "aten::add", 20 * US, 80 * US)
            .kernel(0, "computation", 1_200 * MS, 10 * MS, Some((1_200 * MS - 20 * US, 10 * US)));
        parts(run).swap_remove(0)
    };
    assert_eq!(run("trace", 1_210 * MS), "100000 no_host_events - 1199880000");
    assert_eq!(run("profiler_step", 1_210 * MS), "100000 python python 1199880000");
    assert_eq!(run("trace", 5_000 * MS), "100000 python python 1199880000");
}

#[test]
fn idle_gap_in_a_stream_capture_is_unexplained() {
    let mut run = Run::default();
    run.rank(0)
        .step_from("trace", 0, 0, 0, 60 * MS, true)
        .kernel(0, "computation", 0, MS, Some((-20, 10)))
        .op_on(0, 1, "aten::mm", 3 * MS, 50 * MS)
        .kernel(0, "computation", 58 * MS, 2 * MS, Some((57 * MS, MS - 10 * US)));
    for i in 0..12 {
        run.op_on(0, 1, "aten::select", 5 * MS + i * 100 * US, 90 * US);
    }
    run.call(0, "hipStreamBeginCapture", 2 * MS, 10 * US);
    run.call(0, "hipLaunchKernel", 4 * MS, 10 * US);
    run.call(0, "hipStreamEndCapture", 54 * MS, MS);
    run.call(0, "hipGraphInstantiateWithFlags", 55 * MS, MS);
    let session = run.open();
    let columns = ["cause", "side", "state", "dur_ns", "name"];
    assert_eq!(
        rows(&session, "idle_gap_causes", &columns),
        [
            "python host python 2000000 -",
            "stream_capture unknown - 54000000 hipStreamBeginCapture",
            "launch_api host launch_api 990000 cudaLaunchKernel",
            "launch_latency launch - 10000 -",
        ]
    );
    // A loop over a tensor in a capture costs nothing at run time.
    assert_eq!(rows(&session, "op_indexing_loops", &["idle_ns"]), ["0"]);
    let columns = ["stream_capture_ns", "dispatch_ns", "unattributed_ratio"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["54000000 1000000 0.9"]);
    assert_eq!(rows(&session, "kernel_sizes", &["stream_capture_ratio"]), ["0.9"]);
}

/// The recording may begin or end inside a capture.
#[test]
fn idle_gap_in_a_capture_that_the_recording_cuts_is_unexplained() {
    for (call, ts_ns, expected) in [
        ("cudaStreamEndCapture", 60 * MS, "stream_capture 59000000"),
        ("cudaStreamBeginCapture", 60 * MS, "stream_capture 34500000"),
    ] {
        let mut run = Run::default();
        run.rank(0)
            .step_from("trace", 0, 0, 0, 100 * MS, true)
            .kernel(0, "computation", 0, MS, Some((-20, 10)))
            .op_on(0, 1, "aten::mm", 0, 90 * MS)
            .kernel(0, "computation", 95 * MS, 5 * MS, Some((94 * MS, MS / 2)));
        run.call(0, call, ts_ns, 0);
        let found = rows(&run.open(), "idle_gap_causes", &["cause", "dur_ns"]);
        assert!(found.iter().any(|part| part == expected), "{call}: {found:?}");
    }
}

/// After the last work of the device nobody waits for it: neither a wait nor Python is to blame.
#[test]
fn idle_gap_after_the_last_work_is_the_end_of_the_recording() {
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 10 * MS, true)
        .kernel(0, "computation", 0, 100 * US, Some((0, 10 * US)))
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8 * MS, MS)
        .op_on(0, 1, "aten::max", MS, 2 * MS)
        .op_on(0, 1, "aten::view", 4 * MS, MS / 2);
    run.call(0, "cudaDeviceSynchronize", 50 * US, 60 * US);
    let session = run.open();
    assert_eq!(
        rows(&session, "idle_gap_causes", &PARTS),
        [
            "100000 recording_end synchronization 10000",
            "100000 recording_end python 6390000",
            "100000 cpu_compute cpu_compute 2000000",
            "100000 recording_end op_dispatch 500000",
            "100000 data_loading data_loading 1000000",
        ]
    );
    let columns = ["sync_ns", "python_ns", "op_dispatch_ns", "recording_end_ns", "sync_count"];
    assert_eq!(rows(&session, "gpu_idle_causes", &columns), ["0 0 0 6900000 0"]);
    assert_eq!(rows(&session, "idle_waits", &["dur_ns"]), Vec::<String>::new());
}
