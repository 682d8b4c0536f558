//! Hardware counters by operator, and operators with their nodes in an execution trace.

use crate::support::{Run, rows};

fn counter(op: &str) -> String {
    format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum")
}

#[test]
fn cupti_counters_have_the_operators_around_the_launch() {
    let mut run = Run::default();
    run.rank(0)
        .measured_kernel(0, "aten::linear", "aten::addmm", &[("b", 2.0), ("a", 1.5)])
        .measured_kernel(0, "", "", &[("a", 4.0)])
        .measured_kernel(0, "aten::relu", "aten::relu", &[]);
    let columns = ["position", "op_stack", "top_level_op", "bottom_level_op", "counter", "value"];
    assert_eq!(
        rows(&run.open(), "cupti_counters", &columns),
        [
            r#"0 ["aten::linear","aten::addmm"] aten::linear aten::addmm a 1.5"#,
            r#"0 ["aten::linear","aten::addmm"] aten::linear aten::addmm b 2"#,
            "1 - - - a 4",
        ]
    );
}

#[test]
fn cupti_flops_count_fused_multiply_add_twice() {
    let (ffma, fadd, fmul) = (counter("ffma"), counter("fadd"), counter("fmul"));
    let (hfma, hadd, dfma, dmul) =
        (counter("hfma"), counter("hadd"), counter("dfma"), counter("dmul"));
    let mut run = Run::default();
    run.rank(0)
        .rank(1)
        .measured_kernel(
            0,
            "aten::linear",
            "aten::addmm",
            &[(&ffma, 10.0), (&fadd, 3.0), (&fmul, 4.0)],
        )
        .measured_kernel(0, "aten::linear", "aten::addmm", &[(&hfma, 5.0), (&hadd, 3.0)])
        .measured_kernel(
            0,
            "aten::mul",
            "aten::mul",
            &[(&dfma, 8.0), (&dmul, 44.0), ("other", 1e9)],
        )
        .measured_kernel(0, "", "", &[(&fadd, 0.0)])
        .measured_kernel(0, "aten::copy_", "aten::copy_", &[("other", 1.0)])
        .measured_kernel(1, "aten::add", "aten::add", &[(&fadd, 0.0)]);
    let columns = [
        "rank",
        "name",
        "kernel_count",
        "flop_count",
        "fp64_flop_count",
        "fp32_flop_count",
        "fp16_flop_count",
        "flop_ratio",
    ];
    assert_eq!(
        rows(&run.open(), "cupti_flops", &columns),
        [
            "0 aten::addmm 2 40 0 27 13 0.4",
            "0 aten::mul 1 60 60 0 0 0.6",
            "0 - 1 0 0 0 0 0",
            "1 aten::add 1 0 0 0 0 -",
        ]
    );
}

#[test]
fn op_execution_nodes_link_operators() {
    let mut run = Run::default();
    run.rank(0).op(0, "aten::relu", 5, 1).op(0, "aten::mm", 7, 2).execution_node(
        12,
        "aten::mm(Tensor self, Tensor mat2) -> Tensor",
        "[[2,2],[2,2]]",
    );
    assert_eq!(
        rows(&run.open(), "op_execution_nodes", &["name", "ts_ns", "node_id", "input_shapes"]),
        ["aten::mm 7 12 [[2,2],[2,2]]"]
    );
}
