//! Kernels measured by the range profiler, paired with their launches.

use crate::support::{column, read_text, trace, warnings};

fn range(name: &str, ts: i64, counters: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_profiler_range","name":"{name}","pid":0,"tid":0,"ts":{ts},"dur":100,"args":{{{counters}}}}}"#
    )
}

fn op(name: &str, ts: i64, dur: i64, id: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{"External id":{id}}}}}"#
    )
}

fn call(name: &str, ts: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":2,"args":{{"correlation":{ts}}}}}"#
    )
}

/// Two convolutions, a step and a copy; the kernels are listed out of order.
fn events() -> Vec<String> {
    vec![
        r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":0,"dur":60}"#.to_owned(),
        op("aten::conv2d", 0, 50, 1),
        r#"{"ph":"X","cat":"user_annotation","name":"block","pid":1,"tid":1,"ts":1,"dur":40}"#.to_owned(),
        op("aten::\\\"odd\\\"", 2, 30, 2),
        call("cudaLaunchKernel", 10),
        call("cudaMemcpyAsync", 13),
        op("aten::relu", 70, 10, 3),
        call("cudaLaunchKernelExC", 72),
        range("second", 300, r#""fma.sum":"12.5""#),
        range("first", 200, r#""fma.sum":7,"add.sum":9007199254740993,"note":"x","device":2"#),
    ]
}

#[test]
fn ranges_pair_the_nth_kernel_with_the_nth_launch() {
    let dataset = read_text(trace(&events().join(","))).unwrap();
    let ranges = |name| column(&dataset, "profiler_ranges", name);
    assert_eq!(ranges("name"), ["second", "first"]);
    assert_eq!(ranges("position"), ["1", "0"]);
    assert_eq!(ranges("launch"), ["7", "4"]);
    assert_eq!(ranges("launch_ts_ns"), ["72000", "10000"]);
    assert_eq!(ranges("op_name"), ["aten::relu", "aten::\"odd\""]);
    assert_eq!(ranges("top_op_name"), ["aten::relu", "aten::conv2d"]);
    assert_eq!(ranges("op_stack"), [r#"["aten::relu"]"#, r#"["aten::conv2d","aten::\"odd\""]"#]);
    assert_eq!(ranges("annotation"), ["-", "block"]);
    // By the launch: the times of the kernels themselves are made up by the profiler.
    assert_eq!(ranges("step"), ["-", "4"]);
    assert_eq!(ranges("device"), ["0", "2"]);
    assert_eq!(ranges("stream"), ["-", "-"]);
    assert_eq!(ranges("ts_ns"), ["300000", "200000"]);
    assert_eq!(ranges("args"), ["-", r#"{"note":"x"}"#]);
    assert_eq!(column(&dataset, "range_counters", "event_id"), ["8", "9", "9"]);
    assert_eq!(column(&dataset, "range_counters", "name"), ["fma.sum", "fma.sum", "add.sum"]);
    assert_eq!(column(&dataset, "range_counters", "value"), ["12.5", "7", "9007199254740992"]);
    assert_eq!(column(&dataset, "spans", "name"), [""; 0]);
    assert_eq!(warnings(&dataset), [("no-device-timeline", 2)]);
    assert!(dataset.warnings[0].message.contains("serializes"));
    // Made-up times do not stretch the recording.
    assert_eq!(dataset.run.wall_ns, 80_000);
}

#[test]
fn ranges_need_one_launch_per_kernel() {
    let mut events = events();
    events.push(range("third", 400, r#""fma.sum":1"#));
    let dataset = read_text(trace(&events.join(","))).unwrap();
    for name in ["launch", "op", "op_name", "top_op_name", "op_stack", "step"] {
        assert_eq!(column(&dataset, "profiler_ranges", name), ["-"; 3], "{name}");
    }
    assert_eq!(column(&dataset, "profiler_ranges", "position"), ["1", "0", "2"]);
    assert_eq!(warnings(&dataset), [("no-device-timeline", 3), ("unpaired-ranges", 3)]);
    let message = &dataset.warnings[1].message;
    assert!(message.contains("3 kernels") && message.contains("2 kernel launches"), "{message}");
}

#[test]
fn ranges_use_driver_launches_if_runtime_launches_are_too_few() {
    let mut events = events();
    events.push(call("cuLaunchKernel", 75));
    // As many as the runtime's: those it is, as in HTA.
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "profiler_ranges", "launch"), ["7", "4"]);
    events.push(range("third", 400, ""));
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "profiler_ranges", "launch"), ["7", "4", "10"]);
    assert_eq!(warnings(&dataset), [("no-device-timeline", 3)]);
}

#[test]
fn ranges_keep_non_numeric_counters_as_args() {
    let events = [range(
        "k",
        1,
        r#""a":null,"b":"N/A","c":NaN,"d":1e999,"e":{"f":1},"g":-2e3,"device":"x""#,
    )];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "range_counters", "name"), ["g"]);
    assert_eq!(column(&dataset, "range_counters", "value"), ["-2000"]);
    assert_eq!(
        column(&dataset, "profiler_ranges", "args"),
        [r#"{"a":null,"b":"N/A","c":NaN,"d":1e999,"e":{"f": 1}}"#]
    );
    assert_eq!(
        warnings(&dataset),
        [("bad-number", 1), ("no-device-timeline", 1), ("unpaired-ranges", 1)]
    );
}
