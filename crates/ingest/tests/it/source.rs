//! Which line of the program an event comes from, on traces small enough to check by eye.

use crate::support::{column, read_text, trace};

const LIBRARY: &str = "/e/lib/python3.7/site-packages/torch/nn/functional.py(2263): batch_norm";

fn frame(name: &str, ts: i64, dur: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"python_function","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
    )
}

fn op(name: &str, tid: i64, ts: i64, dur: i64, args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

#[test]
fn source_comes_from_the_frames_around_a_call() {
    let events = [
        frame("train.py(7): step", 0, 100),
        frame("torch/nn/modules/module.py(1553): _call_impl", 5, 60),
        frame("nn.Module: Linear_0", 6, 58),
        frame("<built-in function linear>", 7, 56),
        op("aten::linear", 1, 10, 50, r#""External id":1"#),
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":10,"args":{"correlation":5}}"#.to_owned(),
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":1,"tid":1,"ts":32,"dur":3,"args":{"correlation":6}}"#.to_owned(),
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaMemsetAsync","pid":1,"tid":1,"ts":36,"dur":3,"args":{"correlation":7}}"#.to_owned(),
        r#"{"ph":"X","cat":"user_annotation","name":"Optimizer.step#SGD.step","pid":1,"tid":1,"ts":70,"dur":10}"#.to_owned(),
        r#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":40,"dur":9,"args":{"device":0,"stream":7,"correlation":5}}"#.to_owned(),
        r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":50,"dur":9,"args":{"device":0,"stream":7,"correlation":6}}"#.to_owned(),
        r#"{"ph":"X","cat":"gpu_memset","name":"Memset","pid":0,"tid":7,"ts":60,"dur":9,"args":{"device":0,"stream":7,"correlation":7}}"#.to_owned(),
        op("alone", 2, 0, 5, ""),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "source"), ["train.py:7", "-"]);
    assert_eq!(column(&dataset, "runtime_calls", "source"), ["train.py:7"; 3]);
    for table in ["annotations", "kernels", "memcpys", "memsets"] {
        assert_eq!(column(&dataset, table, "source"), ["train.py:7"], "{table}");
    }
}

#[test]
fn source_prefers_packages_to_pytorch() {
    let events = [
        frame("transformers/models/bert/modeling_bert.py(180): forward", 0, 100),
        frame("torch/nn/functional.py(1): linear", 5, 60),
        op("aten::linear", 1, 10, 50, ""),
        frame("torch/optim/sgd.py(9): step", 200, 60),
        op("aten::add_", 1, 210, 10, ""),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    let expected = ["transformers/models/bert/modeling_bert.py:180", "torch/optim/sgd.py:9"];
    assert_eq!(column(&dataset, "cpu_ops", "source"), expected);
}

#[test]
fn source_of_call_stacks_applies_to_nested_calls() {
    let stack = format!(r#""Call stack":"{LIBRARY};model.py(10): forward;train.py(35): train""#);
    let events = [
        op("aten::batch_norm", 1, 0, 50, &stack),
        op("aten::empty", 1, 10, 5, r#""Call stack":"""#),
        op("aten::add", 1, 60, 5, &format!(r#""Call stack":"{LIBRARY}""#)),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    let library = "/e/lib/python3.7/site-packages/torch/nn/functional.py:2263";
    assert_eq!(column(&dataset, "cpu_ops", "source"), ["model.py:10", "model.py:10", library]);
}

#[test]
fn source_of_backward_operators_is_that_of_the_forward_operator() {
    let sequence = |number: i64, thread: i64| {
        format!(r#""Sequence number":{number},"Fwd thread id":{thread}"#)
    };
    let events = [
        frame("model.py(10): forward", 0, 40),
        // Both carry the number of the next node; the one that starts last makes it.
        op("aten::linear", 1, 5, 20, &sequence(3, 0)),
        op("aten::addmm", 1, 10, 10, &sequence(3, 0)),
        op("aten::relu", 1, 30, 5, &sequence(4, 0)),
        frame("train.py(35): train", 50, 100),
        op("ReluBackward0", 1, 55, 10, &sequence(4, 1)),
        op("aten::threshold_backward", 1, 56, 5, ""),
        op("AddmmBackward0", 9, 70, 10, &sequence(3, 1)),
        op("torch::autograd::AccumulateGrad", 9, 82, 5, ""),
        frame("hook.py(3): on_grad", 90, 20),
        op("aten::norm", 1, 95, 5, ""),
        op("torch::autograd::AccumulateGrad", 1, 120, 5, ""),
        op("unknown", 1, 130, 5, &sequence(77, 1)),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    let expected = [
        ["model.py:10"; 7].as_slice(),
        // a hook of the user's is nearer than the forward call
        &["hook.py:3", "train.py:35", "train.py:35"],
    ]
    .concat();
    assert_eq!(column(&dataset, "cpu_ops", "source"), expected);
    let forward = ["-", "-", "-", "3", "-", "2", "-", "-", "-", "-"];
    assert_eq!(column(&dataset, "cpu_ops", "forward_op"), forward);
}

#[test]
fn source_follows_arrows_between_forward_threads() {
    let events = |arrows: bool| {
        let mut events = vec![
            op("of thread 1", 1, 0, 5, r#""Sequence number":3,"Fwd thread id":0"#),
            op("of thread 2", 2, 0, 5, r#""Sequence number":3,"Fwd thread id":0"#),
            op("Backward0", 9, 50, 5, r#""Sequence number":3,"Fwd thread id":7"#),
        ];
        if arrows {
            for (phase, tid, ts) in [("s", 2, 0), ("f", 9, 50)] {
                events.push(format!(
                    r#"{{"ph":"{phase}","id":1,"cat":"fwdbwd","name":"fwdbwd","pid":1,"tid":{tid},"ts":{ts}}}"#
                ));
            }
        }
        column(&read_text(trace(&events.join(","))).unwrap(), "cpu_ops", "forward_op")
    };
    assert_eq!(events(true), ["-", "-", "1"]);
    assert_eq!(events(false), ["-", "-", "-"]);
}
