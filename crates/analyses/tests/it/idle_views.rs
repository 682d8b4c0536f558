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
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .op_on(0, 1, "aten::item", 50, 70)
        .op_on(0, 1, "aten::add", 200, 50)
        .annotation(0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 130, 20)
        .kernel(0, "computation", 300, 700, Some((230, 10)));
    run.call(0, "cudaStreamSynchronize", 60, 50);
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
    let mut run = Run::default();
    run.rank(0)
        .step(0, 0, 0, 1_000, true)
        .op_on(0, 9, "aten::add", 0, 10)
        .kernel(0, "computation", 0, 100, Some((-20, 10)))
        .kernel(0, "computation", 800, 200, Some((700, 50)));
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
            "980 python python 20",
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
