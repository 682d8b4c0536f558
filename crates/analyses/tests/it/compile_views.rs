//! Views of what `torch.compile` did, on tiny runs, with expectations worked out by hand.

use trace_model::column::NULL_I64;

use crate::support::{Run, rows};

/// Three steps of 100 ns, the first at 1000.
fn steps(run: &mut Run) {
    run.rank(0);
    for step in 0..3 {
        run.step(0, step, 1_000 + step * 100, 100, step == 2);
    }
}

#[test]
fn compile_time_is_placed_in_steps() {
    let mut run = Run::default();
    steps(&mut run);
    run.compiled(0, "0/0", 900, 50)
        .compiled(0, "1/0", 950, 70)
        .of_backward()
        .compiled(0, "2/0", 1_110, 140)
        .found_in_cache()
        .compiled(0, "3/0", 1_290, 100)
        .compiled(0, "4/0", 1_400, 7)
        .compiled(0, "5/0", NULL_I64, 8)
        .compiled(0, "6/0", 1_200, NULL_I64);
    assert_eq!(
        rows(
            &run.open(),
            "compile_time",
            &["compile_id", "phase", "ts_ns", "step", "dur_ns", "in_steps_ns", "cache"]
        ),
        [
            "0/0 forward 900 - 50 0 miss",
            "1/0 backward 950 - 70 20 miss",
            "2/0 forward 1110 1 140 140 hit",
            "6/0 forward 1200 2 - - miss",
            "3/0 forward 1290 2 100 10 miss",
            "4/0 forward 1400 - 7 0 miss",
            "5/0 forward - - 8 - miss",
        ]
    );
}

#[test]
fn recompilations_name_the_guard_that_failed() {
    let mut run = Run::default();
    steps(&mut run);
    run.compiled(0, "0/0", 900, 50)
        .recompiled(
            0,
            "0/1",
            1_010,
            60,
            "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 4",
        )
        .recompiled(0, "0/2", 1_120, 40, "0/1: L['n'] == 4\n0/0: tensor 'x' size mismatch");
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "compile_recompilations",
            &["compile_id", "step", "dur_ns", "function_count", "function_ns", "reason"]
        ),
        [
            "0/1 0 60 2 100 tensor 'x' size mismatch at index 0. expected 8, actual 4",
            "0/2 1 40 2 100 L['n'] == 4",
        ]
    );
    assert_eq!(
        rows(
            &session,
            "compile_summary",
            &[
                "has_log",
                "compile_count",
                "compile_ns",
                "in_steps_ns",
                "recompile_count",
                "most_recompile_count",
                "recompile_reason",
                "graph_break_count",
                "cache_hit_count",
                "cache_miss_count",
                "cache_miss_ns"
            ]
        ),
        ["true 3 150 100 2 2 L['n'] == 4 0 0 3 150"]
    );
}

#[test]
fn graph_breaks_are_counted_by_line() {
    let mut run = Run::default();
    run.rank(0).graph_break(0, 12, "builtin print").graph_break(0, 14, "Tensor.item").graph_break(
        0,
        12,
        "builtin print",
    );
    let session = run.open();
    assert_eq!(
        rows(&session, "compile_graph_breaks", &["file", "line", "reason", "hint", "break_count"]),
        ["model.py 12 builtin print Do not print. 2", "model.py 14 Tensor.item Do not print. 1"]
    );
    assert_eq!(
        rows(
            &session,
            "compile_summary",
            &[
                "has_log",
                "graph_break_count",
                "graph_break_line_count",
                "break_line",
                "compile_count"
            ]
        ),
        ["true 3 2 12 -"]
    );
}

#[test]
fn compile_summary_without_a_log_is_unknown() {
    let mut run = Run::default();
    run.rank(0);
    assert_eq!(
        rows(
            &run.open(),
            "compile_summary",
            &["has_log", "compile_count", "graph_break_count", "most_recompile_count"]
        ),
        ["false - - -"]
    );
}

const KERNEL: &str = "triton_poi_fused_add_0";
const LINES: [&str; 7] =
    ["kernel", "evidence", "line", "graph_count", "call_count", "kernel_ns", "line_ns"];

fn kernel<'r>(run: &'r mut Run, name: &str, ts_ns: i64, dur_ns: i64) -> &'r mut Run {
    run.kernel_on(0, "computation", (0, 7), ts_ns, dur_ns, Some((ts_ns - 5, 2)), None, name)
}

#[test]
fn kernel_lines_sum_to_the_kernel_in_whole_nanoseconds() {
    let mut run = Run::default();
    run.rank(0);
    kernel(&mut run, KERNEL, 100, 7);
    kernel(&mut run, KERNEL, 200, 3);
    run.compiled_line(0, KERNEL, "", 1, 333_333)
        .compiled_line(0, KERNEL, "", 2, 333_334)
        .compiled_line(0, KERNEL, "", 3, 333_333);
    // 10 ns in thirds: 3.33333, 3.33334 and 3.33333; line 2 has the largest remainder.
    assert_eq!(
        rows(&run.open(), "compile_kernel_lines", &LINES),
        [
            format!("{KERNEL} log 1 1 2 10 3"),
            format!("{KERNEL} log 2 1 2 10 4"),
            format!("{KERNEL} log 3 1 2 10 3"),
        ]
    );
}

/// Two graphs have a kernel of one name. The first launch lies in a call of graph `fa`, the second in one of `fb`, the third
/// in none: both graphs may have run it.
#[test]
fn kernel_lines_are_those_of_the_graph_that_ran() {
    let mut run = Run::default();
    run.rank(0).graph_call(0, "fa", 90, 10).graph_call(0, "fb", 190, 10);
    kernel(&mut run, KERNEL, 100, 40);
    kernel(&mut run, KERNEL, 200, 80);
    kernel(&mut run, KERNEL, 300, 100);
    run.compiled_line(0, KERNEL, "fa", 1, 1_000_000)
        .compiled_line(0, KERNEL, "fb", 2, 250_000)
        .compiled_line(0, KERNEL, "fb", 3, 750_000)
        // The same graph again, after a reset.
        .compiled_line(0, KERNEL, "fa", 1, 1_000_000);
    // 40 + 100 / 2; 80 / 4 + 100 / 8 = 32.5; 80 * 3 / 4 + 100 * 3 / 8 = 97.5: the half goes to the first of equal remainders.
    assert_eq!(
        rows(&run.open(), "compile_kernel_lines", &LINES),
        [
            format!("{KERNEL} log 1 2 3 220 90"),
            format!("{KERNEL} log 2 2 3 220 33"),
            format!("{KERNEL} log 3 2 3 220 97"),
        ]
    );
}

#[test]
fn kernel_lines_without_a_log_are_those_of_the_call() {
    let mut run = Run::default();
    run.rank(0).op(0, "aten::x", 0, 1);
    kernel(&mut run, KERNEL, 100, 7).at_source_line("train.py(7): step", "train.py:7");
    kernel(&mut run, "triton_red_fused_sum_1", 200, 5);
    kernel(&mut run, "triton_my_own", 300, 5);
    run.op(0, "graph_0_cpp_fused_sum_1", 400, 9);
    assert_eq!(
        rows(&run.open(), "compile_kernel_lines", &LINES),
        [
            "cpp_fused_sum_1 - - 0 1 9 9".to_owned(),
            format!("{KERNEL} stack 7 0 1 7 7"),
            "triton_red_fused_sum_1 - - 0 1 5 5".to_owned(),
        ]
    );
}
