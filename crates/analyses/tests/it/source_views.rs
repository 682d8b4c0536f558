//! Operators, modules and lines of the program on tiny runs, with expectations worked out by hand.

use crate::support::{Run, rows};

#[test]
fn operators_are_summed_by_name_shape_and_stack() {
    let mut run = Run::default();
    run.rank(0)
        .op_with_kernels(0, "aten::mm", 0, 100, 1)
        .at_source_line("train.py(7): step", "train.py:7")
        .op_with_kernels(0, "aten::mm", 1_000, 50, 2)
        .at_source_line("train.py(9): step", "train.py:9")
        .op(0, "Optimizer.step", 2_000, 10);
    let session = run.open();
    let sums = ["call_count", "host_total_ns", "host_self_ns", "device_self_ns", "launch_count"];
    let with = |first: &[&'static str]| [first, &sums].concat();
    assert_eq!(
        rows(&session, "op_by_name", &with(&["name", "source"])),
        ["aten::mm train.py:9 2 150 147 15 3"]
    );
    assert_eq!(rows(&session, "op_by_shape", &with(&["input_dims"])), ["- 2 150 147 15 3"]);
    assert_eq!(
        rows(&session, "op_by_stack", &with(&["call_stack", "source"])),
        ["train.py(7): step train.py:7 1 100 99 5 1", "train.py(9): step train.py:9 1 50 48 10 2"]
    );
    assert_eq!(
        rows(&session, "source_kernels", &["source", "call_count", "sum_ns", "name_ratio"]),
        ["train.py:7 1 5 0.333333", "train.py:9 1 5 0.333333"]
    );
    assert_eq!(
        rows(&session, "source_lines", &["source", "operator_count", "launch_count", "device_ns"]),
        ["train.py:7 1 1 5", "train.py:9 1 1 5"]
    );
}

#[test]
fn lightning_hooks_and_modules_are_distinguished() {
    let mut run = Run::default();
    run.rank(0)
        .annotation(0, "[pl][profile]run_training_batch", 0, 1_000)
        .annotation(0, "[pl][module]torch.nn.Sequential: model", 100, 500)
        .annotation(0, "[pl][module]torch.nn.Linear: model.layer.fc", 200, 100)
        .annotation(0, "[pl][module]torch.nn.Linear: model.layer.fc", 400, 100);
    let session = run.open();
    assert_eq!(
        rows(&session, "lightning_modules", &["path", "parent_path", "class", "call_count"]),
        ["model - torch.nn.Sequential 1", "model.layer.fc model torch.nn.Linear 2"]
    );
    assert_eq!(
        rows(&session, "lightning_hooks", &["path", "call_count", "host_total_ns"]),
        ["run_training_batch 1 1000"]
    );
}

#[test]
fn source_views_are_empty_without_stacks() {
    let mut run = Run::default();
    run.rank(0).op_with_kernels(0, "aten::mm", 0, 100, 1);
    let session = run.open();
    for view in ["op_by_stack", "source_lines", "source_kernels", "module_tree", "lightning_hooks"]
    {
        assert_eq!(rows(&session, view, &["rank"]), Vec::<String>::new(), "{view}");
    }
}
