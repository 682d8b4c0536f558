//! What surrounds an allocation on its thread.

use crate::support::{column, read_text, trace};

/// An event with a duration, in microseconds.
fn range(category: &str, name: &str, tid: i64, ts: i64, dur: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur}}}"#
    )
}

fn allocation(tid: i64, ts: i64) -> String {
    format!(
        r#"{{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":{tid},"ts":{ts},"args":{{"Bytes":8,"Addr":64,"Device Id":0,"Device Type":1}}}}"#
    )
}

fn around(events: &[String], name: &str) -> Vec<String> {
    let dataset = read_text(trace(&events.join(","))).unwrap_or_else(|e| panic!("{e}"));
    column(&dataset, "memory_events", name)
}

#[test]
fn memory_event_has_the_innermost_operator() {
    let events = [
        range("user_annotation", "train", 1, 0, 1000),
        range("cpu_op", "outer", 1, 100, 500),
        range("python_function", "nn.Module: Linear_0", 1, 110, 400),
        range("cpu_op", "inner", 1, 200, 100),
        range("cuda_runtime", "cudaMalloc", 1, 250, 20),
        // Written out of order; the file's order does not matter.
        allocation(1, 260),
        allocation(1, 50),
        allocation(1, 100),
        allocation(1, 199),
        allocation(1, 200),
        allocation(1, 300),
        allocation(1, 599),
        allocation(1, 600),
        allocation(1, 5000),
        // On a thread of its own.
        allocation(2, 260),
    ];
    let dash = "-";
    assert_eq!(
        around(&events, "op_name"),
        ["inner", dash, "outer", "outer", "inner", "outer", "outer", dash, dash, dash]
    );
    assert_eq!(around(&events, "op"), ["3", dash, "1", "1", "3", "1", "1", dash, dash, dash]);
    assert_eq!(
        around(&events, "outer_op_name"),
        ["outer", dash, dash, dash, "outer", dash, dash, dash, dash, dash]
    );
    let module = "nn.Module: Linear_0";
    assert_eq!(
        around(&events, "module"),
        [module, dash, dash, module, module, module, dash, dash, dash, dash]
    );
    assert_eq!(
        around(&events, "annotation"),
        ["train", "train", "train", "train", "train", "train", "train", "train", dash, dash]
    );
}

/// Rounding lets a call seem to outlast its operator; a moment after the operator is not within it.
#[test]
fn memory_event_ignores_operators_that_have_ended() {
    let events = [
        range("cpu_op", "outer", 1, 0, 100),
        range("cpu_op", "inner", 1, 10, 20),
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaFree","pid":1,"tid":1,"ts":15,"dur":15.9}"#
            .to_owned(),
        r#"{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":30.5,"args":{"Bytes":8,"Device Type":1}}"#
            .to_owned(),
    ];
    assert_eq!(around(&events, "op_name"), ["outer"]);
    assert_eq!(around(&events, "outer_op_name"), ["-"]);
}

/// NaN is no number: the total is absent, the event stays.
#[test]
fn memory_event_totals_that_are_not_numbers_are_null() {
    let event = r#"{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Total Allocated":NaN,"Total Reserved":NaN,"Bytes":8,"Addr":64,"Device Id":0,"Device Type":1}}"#;
    assert_eq!(around(&[event.to_owned()], "total_allocated_bytes"), ["-"]);
    assert_eq!(around(&[event.to_owned()], "bytes"), ["8"]);
}
