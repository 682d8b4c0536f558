//! Dialects, layouts and enrichment, on traces small enough to check by eye.

use crate::support::{column, gzip, read_files, read_text, trace, warnings};

#[test]
fn times_keep_nanoseconds_since_1970() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1712085511123456.789,"dur":0.001}"#;
    let late = r#"{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1712085511123457.790,"dur":2.5}"#;
    let dataset = read_text(trace(&format!("{event},{late}"))).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "ts_ns"), ["0", "1001"]);
    assert_eq!(column(&dataset, "cpu_ops", "dur_ns"), ["1", "2500"]);
    assert_eq!(column(&dataset, "ranks", "base_time_ns"), ["1712085511123456789"]);
}

#[test]
fn ranks_share_the_clock_of_their_base_times() {
    let file = |rank: i32, base: &str, ts: &str| {
        format!(
            r#"{{"traceEvents": [{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":1}}],
                "distributedInfo": {{"rank": {rank}, "world_size": 2}}, "baseTimeNanoseconds": {base}}}"#
        )
    };
    let (a, b) = (file(0, "1700000000000000000", "5.001"), file(1, "1700000000000001000", "5.5"));
    let dataset = read_files(&[("x.json", a.as_bytes()), ("y.json", b.as_bytes())]).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "ts_ns"), ["0", "1499"]);
    assert_eq!(column(&dataset, "ranks", "clock"), ["absolute", "absolute"]);
    assert_eq!(column(&dataset, "ranks", "base_time_ns")[0], "1700000000000005001");
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn parse_reads_bare_lists_and_metadata_on_either_side() {
    let event = r#"{"ph":"X","cat":"Operator","name":"a","pid":1,"tid":"1","ts":3,"dur":1}"#;
    for text in [
        format!("[{event}]"),
        format!("\u{feff}{{\"traceEvents\":[{event}],\"distributedInfo\":{{\"rank\":0}}}}"),
        format!("{{\"distributedInfo\":{{\"rank\":0}},\"traceEvents\":\n[\n{event}\n]\n}}\n"),
    ] {
        let dataset = read_text(&text).unwrap();
        assert_eq!(column(&dataset, "cpu_ops", "name"), ["a"], "{text}");
        assert_eq!(warnings(&dataset), [], "{text}");
    }
}

#[test]
fn parse_reads_keys_in_any_order() {
    let event = r#"{"args":{"stream":7,"correlation":9,"device":0},"dur":2,"ts":1,"tid":7,"pid":0,"name":"k","cat":"Kernel","ph":"X"}"#;
    let dataset = read_text(trace(event)).unwrap();
    assert_eq!(column(&dataset, "kernels", "correlation"), ["9"]);
}

#[test]
fn processes_tell_the_events_of_the_legacy_profiler() {
    // As torch 1.4 to 1.7 wrote them: no categories, arrows without times of calls.
    let op = |name: &str, ts: i32, dur: i32| {
        format!(
            r#"{{"name":"{name}","ph":"X","ts":{ts},"dur":{dur},"tid":1,"pid":"CPU functions","args":{{}}}}"#
        )
    };
    let arrow = |phase: &str, process: &str, tid: i32, ts: i32, id: i32| {
        format!(
            r#"{{"name":"x","ph":"{phase}","ts":{ts},"tid":{tid},"pid":"{process} functions","id":{id},"cat":"cpu_to_cuda","args":{{}}}}"#
        )
    };
    let kernel = |name: &str, ts: i32, device: i32| {
        format!(
            r#"{{"name":"{name}","ph":"X","ts":{ts},"dur":9,"tid":{device},"pid":"CUDA functions","args":{{}}}}"#
        )
    };
    let events = [
        op("linear", 10, 40),
        op("addmm", 10, 30),
        arrow("s", "CPU", 1, 10, 0),
        arrow("f", "CUDA", 1, 60, 0),
        kernel("addmm", 60, 1),
        op("my_forward", 64, 1),
        op("AddmmBackward", 66, 2),
        op("Optimizer.step#SGD.step", 70, 5),
        r#"{"name":"other","ph":"X","ts":80,"dur":1,"tid":1,"pid":"elsewhere"}"#.to_owned(),
    ];
    let dataset = read_text(format!("[{}]", events.join(", "))).unwrap();
    // Names of operators get their namespace, as later versions write it.
    let backward = "autograd::engine::evaluate_function: AddmmBackward";
    let names = ["aten::linear", "aten::addmm", "my_forward", backward];
    assert_eq!(column(&dataset, "cpu_ops", "name"), names);
    assert_eq!(column(&dataset, "annotations", "name"), ["Optimizer.step#SGD.step"]);
    assert_eq!(column(&dataset, "kernels", "device"), ["1"]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["aten::addmm"]);
    assert_eq!(column(&dataset, "spans", "name"), ["other"]);
}

/// Ranges of operators on the device, as the legacy profiler writes them: an event of CUDA before and after each operator.
fn legacy_ranges(ranges: &[(&str, [i64; 2], [i64; 2])]) -> String {
    let mut events = Vec::new();
    for (id, (name, [host_ts, host_dur], [ts, dur])) in ranges.iter().enumerate() {
        let complete = |process: &str, tid: i32, ts: i64, dur: i64| {
            format!(
                r#"{{"name":"{name}","ph":"X","ts":{ts},"dur":{dur},"tid":{tid},"pid":"{process} functions","args":{{}}}}"#
            )
        };
        let arrow = |phase: &str, process: &str, tid: i32, ts: i64| {
            format!(
                r#"{{"name":"{name}","ph":"{phase}","ts":{ts},"tid":{tid},"pid":"{process} functions","id":{id},"cat":"cpu_to_cuda","args":{{}}}}"#
            )
        };
        events.extend([
            complete("CPU", 1, *host_ts, *host_dur),
            arrow("s", "CPU", 1, *host_ts),
            arrow("f", "CUDA", 0, *ts),
            complete("CUDA", 0, *ts, *dur),
        ]);
    }
    format!("[{}]", events.join(", "))
}

#[test]
fn nested_ranges_of_the_legacy_profiler_on_the_device_are_no_kernels() {
    // Inner ranges may start with those around them, as times are rounded.
    let ranges = [
        ("conv2d", [10, 60], [20, 400]),
        ("convolution", [12, 56], [20, 398]),
        ("cudnn_convolution", [14, 50], [24, 388]),
        // Works itself, and allocates its result first.
        ("add", [80, 20], [430, 50]),
        ("empty", [82, 4], [432, 3]),
        // Mostly its own work, after the work of an operator inside.
        ("sum", [110, 30], [490, 100]),
        ("fill_", [112, 8], [491, 10]),
        ("Optimizer.step#SGD.step", [200, 50], [600, 30]),
        ("mul_", [210, 10], [605, 20]),
    ];
    let dataset = read_text(legacy_ranges(&ranges)).unwrap();
    let names = ["aten::cudnn_convolution", "aten::add", "aten::sum", "aten::fill_", "aten::mul_"];
    assert_eq!(column(&dataset, "kernels", "name"), names);
    assert_eq!(
        column(&dataset, "kernels", "dur_ns"),
        ["388000", "50000", "89000", "10000", "20000"]
    );
    assert_eq!(column(&dataset, "kernels", "op_name"), names);
    assert_eq!(column(&dataset, "kernels", "launch_name"), names);
    assert_eq!(
        column(&dataset, "kernels", "launch_ts_ns"),
        ["4000", "70000", "100000", "102000", "200000"]
    );
    let optimizer = "Optimizer.step#SGD.step";
    assert_eq!(column(&dataset, "kernels", "annotation"), ["-", "-", "-", "-", optimizer]);
    // The ranges are kept, like ranges of annotations on the device.
    let mut ranges: Vec<(String, String)> = column(&dataset, "annotations", "on_device")
        .into_iter()
        .zip(column(&dataset, "annotations", "name"))
        .collect();
    ranges.sort();
    let ranges: Vec<String> =
        ranges.into_iter().map(|(on_device, name)| format!("{on_device} {name}")).collect();
    assert_eq!(
        ranges,
        [
            "false Optimizer.step#SGD.step",
            "true Optimizer.step#SGD.step",
            "true aten::conv2d",
            "true aten::convolution",
            "true aten::empty"
        ]
    );
    assert_eq!(warnings(&dataset), [("operator-times-on-device", 9)]);
}

/// Two kernels of the legacy profiler with `emit_nvtx`, one of which runs while the other does: names and streams differ.
#[test]
fn kernels_of_the_legacy_profiler_may_run_side_by_side() {
    let ranges = [("conv2d", [10, 60], [20, 400]), ("add", [80, 20], [100, 50])];
    let text = legacy_ranges(&ranges)
        .replace(
            r#"{"name":"conv2d","ph":"X","ts":20"#,
            r#"{"name":"implicit_gemm","ph":"X","ts":20"#,
        )
        .replace(
            r#"{"name":"add","ph":"X","ts":100"#,
            r#"{"name":"elementwise","ph":"X","ts":100"#,
        );
    let dataset = read_text(text).unwrap();
    assert_eq!(column(&dataset, "kernels", "name"), ["implicit_gemm", "elementwise"]);
    assert_eq!(column(&dataset, "kernels", "dur_ns"), ["400000", "50000"]);
    assert_eq!(column(&dataset, "kernels", "launch_name"), ["aten::conv2d", "aten::add"]);
    assert_eq!(warnings(&dataset), []);
}

/// Operators, launches and kernels of one process on a device. Ids start at 1 in every process.
fn process_events(pid: i64, device: i64, start: i64, calls: &[&str]) -> String {
    let event = |(i, call): (i64, &&str)| {
        let (id, ts) = (i + 1, start + 100 * i);
        let (category, name) = match *call {
            "cudaMemcpyAsync" => ("gpu_memcpy", "Memcpy HtoD"),
            _ => ("kernel", "gemm"),
        };
        [
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"op{pid}","pid":{pid},"tid":{pid},"ts":{ts},"dur":50,"args":{{"External id":{id}}}}}"#
            ),
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"{call}","pid":{pid},"tid":{pid},"ts":{},"dur":5,"args":{{"correlation":{id}}}}}"#,
                ts + 10
            ),
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{device},"tid":7,"ts":{},"dur":20,"args":{{"correlation":{id},"device":{device},"stream":7}}}}"#,
                ts + 60
            ),
        ]
        .join(",")
    };
    (0..).zip(calls).map(event).collect::<Vec<_>>().join(",")
}

#[test]
fn correlation_ids_of_several_processes_link_nothing_wrongly() {
    let launch = "cudaLaunchKernel";
    let read = |parts: [String; 2]| read_text(trace(&parts.join(","))).unwrap();
    // The second process starts after the kernels of the first one: its kernels are those that are left.
    let dataset = read([
        process_events(11, 0, 0, &[launch, launch]),
        process_events(22, 1, 5_000, &[launch, launch]),
    ]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["op11", "op11", "op22", "op22"]);
    assert_eq!(warnings(&dataset), []);
    // A copy is not the work of a launch.
    let dataset =
        read([process_events(11, 0, 0, &[launch]), process_events(22, 0, 5, &["cudaMemcpyAsync"])]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["op11"]);
    assert_eq!(column(&dataset, "memcpys", "op_name"), ["op22"]);
    // A device is of the process that alone has certain links to it.
    let dataset =
        read([process_events(11, 0, 0, &[launch]), process_events(22, 1, 5, &[launch, launch])]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["op11", "op22", "op22"]);
    // At the same time on the same device, nothing tells which call launched which kernel.
    let dataset = read([process_events(11, 0, 0, &[launch]), process_events(22, 0, 5, &[launch])]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["-", "-"]);
    assert_eq!(column(&dataset, "kernels", "launch"), ["-", "-"]);
    assert_eq!(warnings(&dataset), [("shared-correlation", 2)]);
}

/// A call of a process with a correlation id, and a kernel.
fn call(pid: i64, name: &str, ts: i64, id: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":{pid},"tid":{pid},"ts":{ts},"dur":5,"args":{{"correlation":{id}}}}}"#
    )
}

fn kernel(device: i64, ts: i64, id: i64) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":7,"ts":{ts},"dur":5,"args":{{"correlation":{id},"device":{device},"stream":7}}}}"#
    )
}

#[test]
fn kernels_are_of_the_nearest_call_before_them() {
    // In no order of time: the file does not tell which call is the last.
    let events = [
        kernel(0, 50, 1),
        kernel(0, 5, 1),
        call(1, "cudaLaunchKernelExC", 30, 1),
        kernel(0, 90, 1),
        call(1, "cuLaunchKernel", 80, 1),
        call(1, "cudaLaunchKernel", 10, 1),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "ts_ns"), ["45000", "0", "85000"]);
    assert_eq!(
        column(&dataset, "kernels", "launch_name"),
        ["cudaLaunchKernelExC", "-", "cuLaunchKernel"]
    );
    assert_eq!(warnings(&dataset), [("duplicate-correlation", 2)]);
}

#[test]
fn kernels_are_not_of_a_call_of_another_process() {
    // Each process has a device of its own, which ids that are not shared tell.
    let mut events = Vec::new();
    for (pid, device) in [(1, 0), (2, 1)] {
        events.push(call(pid, "cudaLaunchKernel", 10, 100 + pid));
        events.push(kernel(device, 20, 100 + pid));
    }
    // Of the same id: two calls of the first process before its kernel, and one after it; nearer ones of the second.
    events.extend([
        call(1, "cudaLaunchKernel", 45, 7),
        call(1, "cuLaunchKernel", 30, 7),
        call(2, "cudaLaunchKernelExC", 48, 7),
        kernel(0, 50, 7),
        call(2, "cudaLaunchKernelExC", 60, 7),
        call(1, "cuLaunchKernel", 70, 7),
    ]);
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "launch_ts_ns"), ["0", "0", "35000"]);
    assert_eq!(warnings(&dataset), []);
}

/// Time and memory are those of the events, however many share an id.
#[test]
fn an_id_of_a_crowd_links_nothing() {
    let events = (0..20_000)
        .flat_map(|i| [call(1 + i % 2, "cudaLaunchKernel", 10 * i, 1), kernel(0, 10 * i + 6, 1)]);
    let dataset = read_text(trace(&events.collect::<Vec<_>>().join(","))).unwrap();
    assert!(column(&dataset, "kernels", "launch").iter().all(|launch| launch == "-"));
    assert_eq!(warnings(&dataset), [("shared-correlation", 20_000)]);
    // Few calls of many kernels are told apart by time, each in its turn.
    let calls = (0..64).map(|i| call(1 + i % 2, "cudaLaunchKernel", 10 * i, 1));
    let kernels = (0..20_000).map(|i| kernel(0, 6 + i, 1));
    let dataset = read_text(trace(&calls.chain(kernels).collect::<Vec<_>>().join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "launch_ts_ns")[0], "0");
}

/// Without a launch, the external id names an operator, but not of which process.
#[test]
fn external_ids_of_several_processes_link_nothing_wrongly() {
    let without_calls = |text: String| text.replace("cuda_runtime", "unknown_kind");
    let one = without_calls(process_events(11, 0, 0, &["cudaLaunchKernel"]))
        .replace(r#""correlation":1,"device""#, r#""External id":1,"device""#);
    let dataset = read_text(trace(&one)).unwrap();
    assert_eq!(column(&dataset, "kernels", "op_name"), ["op11"]);
    let two = [one.clone(), one.replace("11", "22")].join(",");
    let dataset = read_text(trace(&two)).unwrap();
    assert_eq!(column(&dataset, "kernels", "op_name"), ["-", "-"]);
}

#[test]
fn forward_operators_are_of_the_same_process() {
    let process = |pid: i32| {
        let op = |name: &str, tid: i32, ts: i32, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}{pid}","pid":{pid},"tid":{tid},"ts":{ts},"dur":5,"args":{{{args}}}}}"#
            )
        };
        [
            op("forward", 1, 10, r#""Sequence number":3"#),
            op("backward", 2, 50, r#""Sequence number":3,"Fwd thread id":1"#),
        ]
        .join(",")
    };
    let dataset = read_text(trace(&[process(11), process(22)].join(","))).unwrap();
    let ids = column(&dataset, "cpu_ops", "event_id");
    let forward = column(&dataset, "cpu_ops", "forward_op");
    assert_eq!(forward, ["-", ids[0].as_str(), "-", ids[2].as_str()]);
}

/// The events of one process in two files, one after the other.
#[test]
fn a_recording_in_two_files_is_one_rank() {
    let launches = ["cudaLaunchKernel"; 3];
    let parts = [process_events(11, 0, 0, &launches), process_events(11, 0, 300, &launches)];
    let read = |names: [&str; 2], metadata: &str| {
        let text = |events: &String| {
            format!(
                r#"{{"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, {metadata}
                "traceEvents": [{events}]}}"#
            )
        };
        let [first, second] = [&parts[0], &parts[1]].map(text);
        read_files(&[(names[0], first.as_bytes()), (names[1], second.as_bytes())])
    };
    // Numbers in names are not ranks of one process.
    let names = ["part_0.pt.trace.json", "part_1.pt.trace.json"];
    let error = read(names, "").unwrap_err();
    let ingest::Error::SeveralRuns { runs, .. } = &error else { panic!("{error}") };
    assert_eq!(runs.len(), 2);
    assert!(runs[1].difference.contains("same process"), "{}", runs[1].difference);
    // With a rank, the second file is a later part of the same rank.
    let dataset = read(names, r#""distributedInfo": {"rank": 0, "world_size": 1},"#).unwrap();
    assert_eq!(dataset.run.ranks, [0]);
    assert_eq!(warnings(&dataset), [("several-cycles", 1)]);
}

#[test]
fn parts_of_a_recording_at_the_same_time_are_not_joined() {
    let text = |category: &str| {
        let event = format!(
            r#"{{"ph":"X","cat":"{category}","name":"a","pid":11,"tid":1,"ts":0,"dur":9}}"#
        );
        format!(r#"{{"distributedInfo": {{"rank": 3}}, "traceEvents": [{event}]}}"#)
    };
    let (ops, calls) = (text("cpu_op"), text("cuda_runtime"));
    let dataset = read_files(&[("a.json", ops.as_bytes()), ("b.json", calls.as_bytes())]).unwrap();
    assert_eq!(dataset.run.ranks, [3]);
    assert_eq!(warnings(&dataset), [("duplicate-rank", 1)]);
    assert!(dataset.warnings[0].message.contains("not joined"), "{}", dataset.warnings[0].message);
}

#[test]
fn a_skipped_file_with_what_the_other_lacks_is_told() {
    let file =
        |event: &str| format!(r#"{{"distributedInfo": {{"rank": 3}}, "traceEvents": [{event}]}}"#);
    let host = file(r#"{"ph":"X","cat":"cpu_op","name":"a","pid":11,"tid":1,"ts":5,"dur":9}"#);
    let kernel = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":6,"dur":9,"args":{"device":0,"stream":7}}"#;
    let earlier = kernel.replace("\"ts\":6", "\"ts\":1");
    for (device, skipped, holds) in [
        (file(kernel), "job.2.pt.trace.json", "GPU activities of rank 3, and job.1.pt.trace.json,"),
        (
            file(&earlier),
            "job.1.pt.trace.json",
            "operators and calls of the host of rank 3, and job.2.pt.trace.json,",
        ),
    ] {
        let files =
            [("job.1.pt.trace.json", host.as_bytes()), ("job.2.pt.trace.json", device.as_bytes())];
        let dataset = read_files(&files).unwrap();
        assert_eq!(warnings(&dataset), [("split-rank", 1)]);
        assert_eq!(dataset.warnings[0].file, skipped);
        let message = &dataset.warnings[0].message;
        assert!(message.contains(holds) && message.contains("rank 3 into one file"), "{message}");
    }
}

#[test]
fn options_that_were_on_are_not_missing() {
    let held = |metadata: &str, events: &str| {
        let text = format!(r#"{{"schemaVersion": 1, {metadata} "traceEvents": [{events}]}}"#);
        column(&read_text(text).unwrap(), "capabilities", "capability")
    };
    let op = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}"#;
    assert!(!held("", op).contains(&"operator_shapes".to_owned()));
    assert!(!held(r#""record_shapes": 0,"#, op).contains(&"operator_shapes".to_owned()));
    for on in ["1", "true", "\"1\""] {
        let options =
            format!(r#""record_shapes": {on}, "with_stack": {on}, "profile_memory": {on},"#);
        let held = held(&options, op);
        for capability in ["operator_shapes", "python_stacks", "memory_events"] {
            assert!(held.contains(&capability.to_owned()), "{on} {capability} {held:?}");
        }
    }
    // Without operators, there was nothing whose shapes could be recorded.
    let kernel = op.replace("cpu_op", "kernel");
    assert!(!held(r#""record_shapes": 1,"#, &kernel).contains(&"operator_shapes".to_owned()));
}

#[test]
fn operators_that_recur_make_steps() {
    let call = |at: i32| {
        let backward = "autograd::engine::evaluate_function: MulBackward0";
        let names = ["a", "b", "c", "d", "e", "f", "g", backward];
        let event = |(i, name): (i32, &&str)| {
            let ts = at + 10 * i;
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":9}}"#
            )
        };
        (0..).zip(&names).map(event).collect::<Vec<_>>().join(",")
    };
    // The first call takes longer: it is set apart.
    let slow = call(0).replace(r#""ts":70,"dur":9"#, r#""ts":70,"dur":900"#);
    let events = [slow, call(1000), call(1100), call(1200), call(1300)].join(",");
    let dataset = read_text(trace(&events)).unwrap();
    assert_eq!(column(&dataset, "steps", "source"), ["repetition"; 4]);
    assert_eq!(column(&dataset, "steps", "step"), ["1", "2", "3", "4"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["100000", "100000", "100000", "79000"]);
    // Two are too few, and what repeats within one call of a model are its layers.
    let layers = [call(0), call(81), call(162), call(243), call(324)].join(",");
    let layers = layers.replace("autograd::engine::evaluate_function: MulBackward0", "h");
    for events in [[call(0), call(100)].join(","), layers] {
        let dataset = read_text(trace(&events)).unwrap();
        assert_eq!(column(&dataset, "steps", "source"), ["trace"]);
    }
    let layers = events.replace("autograd::engine::evaluate_function: MulBackward0", "h");
    let module = |at: i32, dur: i32| {
        format!(
            r#"{{"ph":"X","cat":"python_function","name":"nn.Module: Net_0","pid":1,"tid":1,"ts":{at},"dur":{dur}}}"#
        )
    };
    let annotation = |at, dur| {
        let text = module(at, dur).replace("python_function", "user_annotation");
        text.replace("nn.Module: Net_0", "predict")
    };
    let ranges: [&dyn Fn(i32, i32) -> String; 2] = [&module, &annotation];
    for range in ranges {
        // A pause tells passes from layers, but not within a call of a model.
        let one_call = format!("{},{layers}", range(0, 1400));
        let dataset = read_text(trace(&one_call)).unwrap();
        assert_eq!(column(&dataset, "steps", "source"), ["trace"]);
        let calls: Vec<String> = [5, 1000, 1100, 1200, 1300].map(|at| range(at - 5, 90)).to_vec();
        let dataset = read_text(trace(&format!("{},{layers}", calls.join(",")))).unwrap();
        assert_eq!(column(&dataset, "steps", "source"), ["repetition"; 4]);
    }
}

#[test]
fn parse_maps_old_categories_to_the_same_tables() {
    let events = [
        r#"{"ph":"X","cat":"Operator","name":"ProfilerStep#5","pid":1,"tid":"1","ts":0,"dur":100}"#,
        r#"{"ph":"X","cat":"Operator","name":"aten::mm","pid":1,"tid":"1","ts":10,"dur":50,"args":{"External id":4,"Call stack":"a.py(1): f"}}"#,
        r#"{"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":1,"tid":"1","ts":20,"dur":5,"args":{"correlation":11,"external id":4}}"#,
        r#"{"ph":"X","cat":"Kernel","name":"sgemm","pid":0,"tid":"stream 7","ts":40,"dur":30,"args":{"device":0,"stream":7,"correlation":11,"external id":4,"grid":[2,3,4],"block":[32,2,1],"blocks per SM":0.5,"est. achieved occupancy %":25}}"#,
        r#"{"ph":"X","cat":"Memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":"stream 7","ts":71,"dur":1,"args":{"device":0,"stream":7,"bytes":64}}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "annotations", "name"), ["ProfilerStep#5"]);
    assert_eq!(column(&dataset, "steps", "step"), ["5"]);
    assert_eq!(column(&dataset, "cpu_ops", "self_dur_ns"), ["45000"]);
    assert_eq!(column(&dataset, "cpu_ops", "call_stack"), ["a.py(1): f"]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["aten::mm"]);
    assert_eq!(column(&dataset, "kernels", "annotation"), ["ProfilerStep#5"]);
    assert_eq!(column(&dataset, "kernels", "step"), ["5"]);
    assert_eq!(column(&dataset, "kernels", "blocks"), ["24"]);
    assert_eq!(column(&dataset, "kernels", "occupancy_ratio"), ["0.25"]);
    assert_eq!(column(&dataset, "kernels", "queue_order"), ["0"]);
    assert_eq!(column(&dataset, "memcpys", "queue_order"), ["1"]);
    assert_eq!(column(&dataset, "memcpys", "kind"), ["HtoD"]);
    assert_eq!(column(&dataset, "runtime_calls", "device_events"), ["1"]);
}

#[test]
fn launches_link_to_many_kernels_also_in_amd_graphs() {
    let events = [
        r#"{"ph":"X","cat":"cuda_runtime","name":"hipGraphLaunch","pid":1,"tid":1,"ts":0,"dur":5,"args":{"correlation":3,"stream":"0x0"}}"#,
        r#"{"ph":"X","cat":"kernel","name":"a","pid":2,"tid":0,"ts":10,"dur":1,"args":{"device":2,"stream":0,"correlation":3}}"#,
        r#"{"ph":"X","cat":"kernel","name":"b","pid":2,"tid":0,"ts":12,"dur":1,"args":{"device":2,"stream":0,"correlation":3}}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "launch"), ["0", "0"]);
    assert_eq!(column(&dataset, "runtime_calls", "device_events"), ["2"]);
    assert_eq!(column(&dataset, "runtime_calls", "args"), [r#"{"stream":"0x0"}"#]);
    assert_eq!(column(&dataset, "ranks", "vendor"), ["amd"]);
}

#[test]
fn call_tree_nests_operators_frames_and_calls() {
    let events = [
        r#"{"ph":"X","cat":"python_function","name":"train.py(7): step","pid":1,"tid":1,"ts":0,"dur":100,"args":{"Python id":1}}"#,
        r#"{"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":1,"tid":1,"ts":5,"dur":60,"args":{"Python id":2,"Python parent id":1,"Python module id":0}}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":1,"tid":1,"ts":10,"dur":50,"args":{"External id":1}}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"aten::addmm","pid":1,"tid":1,"ts":12,"dur":40,"args":{"External id":2}}"#,
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":20,"dur":10,"args":{"correlation":5}}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"other thread","pid":1,"tid":2,"ts":20,"dur":1}"#,
        r#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":40,"dur":9,"args":{"device":0,"stream":7,"correlation":5}}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "parent"), ["1", "2", "-"]);
    assert_eq!(column(&dataset, "cpu_ops", "depth"), ["2", "3", "0"]);
    assert_eq!(column(&dataset, "cpu_ops", "self_dur_ns"), ["10000", "30000", "1000"]);
    assert_eq!(column(&dataset, "python_frames", "self_dur_ns"), ["40000", "10000"]);
    assert_eq!(column(&dataset, "runtime_calls", "op"), ["3"]);
    assert_eq!(column(&dataset, "kernels", "op_name"), ["aten::addmm"]);
    assert_eq!(column(&dataset, "kernels", "module"), ["nn.Module: Linear_0"]);
    assert_eq!(column(&dataset, "kernels", "python_frame"), ["train.py(7): step"]);
}

#[test]
fn external_ids_link_only_open_operators() {
    let events = [
        r#"{"ph":"X","cat":"cpu_op","name":"right","pid":1,"tid":1,"ts":0,"dur":50,"args":{"External id":1}}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"wrong","pid":1,"tid":1,"ts":60,"dur":5,"args":{"External id":2}}"#,
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":9,"ts":20,"dur":1,"args":{"correlation":5,"External id":1}}"#,
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":9,"ts":30,"dur":1,"args":{"correlation":6,"External id":2}}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "runtime_calls", "op"), ["0", "-"]);
}

#[test]
fn args_keep_arguments_without_a_column() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"triton","pid":1,"tid":1,"ts":0,"dur":1,"args":{"External id":1,"stream":0,"kernel_file":"/tmp/k.py","Ev Idx": 3}}"#;
    let dataset = read_text(trace(event)).unwrap();
    assert_eq!(
        column(&dataset, "cpu_ops", "args"),
        [r#"{"stream":0,"kernel_file":"/tmp/k.py","Ev Idx":3}"#]
    );
}

#[test]
fn steps_fall_back_to_the_optimizer_then_to_the_recording() {
    let optimizer = |ts: i64| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"Optimizer.step#SGD.step","pid":1,"tid":1,"ts":{ts},"dur":10}}"#
        )
    };
    let events: Vec<String> = [90, 190, 310].into_iter().map(optimizer).collect();
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "steps", "source"), ["optimizer", "optimizer"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["100000", "120000"]);
    let dataset = read_text(trace(&events[0])).unwrap();
    assert_eq!(column(&dataset, "steps", "source"), ["trace"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["10000"]);
}

#[test]
fn steps_are_those_of_an_inference_engine_without_profiler_steps() {
    let range = |name: &str, ts: i64, tid: i64| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":10}}"#
        )
    };
    // SGLang's marks contain those it took over from vLLM.
    let sglang = [
        range("step[EXTEND bs=1 toks=7]", 0, 1),
        range("execute_7_context_1(7)_generation_0(0)", 1, 1),
        range("step[DECODE bs=1]", 20, 1),
        range("step[DECODE bs=1]", 22, 2),
    ];
    let dataset = read_text(trace(&sglang.join(","))).unwrap();
    assert_eq!(column(&dataset, "steps", "source"), ["engine", "engine"]);
    assert_eq!(column(&dataset, "steps", "step"), ["0", "1"]);
    assert_eq!(column(&dataset, "steps", "ts_ns"), ["0", "20000"]);
    let vllm = [range("execute_context_0(0)_generation_4(4)", 5, 1), range("execute_model", 7, 1)];
    let dataset = read_text(trace(&vllm.join(","))).unwrap();
    assert_eq!(column(&dataset, "steps", "name"), ["execute_context_0(0)_generation_4(4)"]);
    assert_eq!(column(&dataset, "ranks", "step_count"), ["1"]);
    let with_profiler = [range("ProfilerStep#3", 0, 1), sglang.join(",")];
    let dataset = read_text(trace(&with_profiler.join(","))).unwrap();
    assert_eq!(column(&dataset, "steps", "name"), ["ProfilerStep#3"]);
}

#[test]
fn cut_is_the_start_of_the_last_of_several_steps() {
    let step = |n: i64| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":1,"tid":1,"ts":{},"dur":100}}"#,
            n * 100
        )
    };
    let one = read_text(trace(&step(1))).unwrap();
    assert_eq!(column(&one, "ranks", "cut_ns"), ["-"]);
    let two = read_text(trace(&format!("{},{}", step(1), step(2)))).unwrap();
    assert_eq!(column(&two, "ranks", "cut_ns"), ["100000"]);
    assert_eq!(column(&two, "ranks", "steps_end_ns"), ["200000"]);
    assert_eq!(column(&two, "steps", "is_last"), ["false", "true"]);
}

#[test]
fn waits_of_mtia_are_no_kernels() {
    let event = |category: &str, name: &str, ts: i64| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":5,"args":{{"device":0,"stream":7}}}}"#
        )
    };
    let events = [
        event("mtia_ccp_events", "event_wait", 0),
        event("mtia_ccp_events", "event_record", 10),
        event("mtia_ccp_events", "fbgemm", 20),
        event("kernel", "event_wait", 30),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "name"), ["fbgemm", "event_wait"]);
    assert_eq!(column(&dataset, "device_syncs", "name"), ["event_wait", "event_record"]);
}

/// `next` raises, its return is missed, and its end is that of the recording.
#[test]
fn frame_that_never_returned_ends_with_what_it_began_in() {
    let event = |category: &str, name: &str, ts: i64, dur: i64| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
        )
    };
    let read = |next_dur: i64, inner: bool| {
        let mut events = vec![
            event("python_function", "main.py(1): <module>", 0, 2000),
            event("cpu_op", "my_op", 100, 1000),
            event("python_function", "<built-in function next>", 200, next_dur),
            event("cpu_op", "aten::mm", 700, 100),
            event("cpu_op", "aten::add", 1500, 100),
        ];
        if inner {
            events.push(event("python_function", "run.py(5): call", 110, 390));
        }
        read_text(trace(&events.join(","))).unwrap()
    };
    // In a frame, and directly in an operator.
    for (inner, end) in [(true, 500), (false, 1100)] {
        let dataset = read(1800, inner);
        let names = column(&dataset, "python_frames", "name");
        let next = names.iter().position(|name| name.contains("next")).unwrap();
        let durs = column(&dataset, "python_frames", "dur_ns");
        assert_eq!(durs[next], ((end - 200) * 1_000).to_string(), "{durs:?}");
        let selves = column(&dataset, "python_frames", "self_dur_ns");
        assert!(selves.iter().all(|ns| !ns.starts_with('-')), "{selves:?}");
        let ids = column(&dataset, "cpu_ops", "event_id");
        let parents = column(&dataset, "cpu_ops", "parent");
        let main = &column(&dataset, "python_frames", "event_id")[0];
        assert_eq!(&parents[2], main, "what follows the operator is called by its caller");
        if inner {
            assert_eq!(parents[1], ids[0]);
        }
    }
    // It returned: nothing changes.
    let durs = column(&read(5, true), "python_frames", "dur_ns");
    assert!(durs.contains(&"5000".to_owned()), "{durs:?}");
}

#[test]
fn self_time_counts_overlapping_children_once() {
    let op = |name: &str, ts: i64, dur: i64| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
        )
    };
    let events = [op("outer", 0, 100), op("a", 0, 70), op("b", 20, 80)];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "self_dur_ns"), ["0", "70000", "80000"]);
}

/// Times in whole microseconds are rounded; others are not.
#[test]
fn child_may_outlast_its_parent_by_what_rounding_explains() {
    let op = |name: &str, ts: &str, dur: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
        )
    };
    for (ts, dur, parent) in [("1", "10", "0"), ("1.001", "9.500", "-"), ("1.001", "9.000", "0")] {
        let events = [op("outer", "0", "10"), op("inner", ts, dur)];
        let dataset = read_text(trace(&events.join(","))).unwrap();
        assert_eq!(column(&dataset, "cpu_ops", "parent"), ["-", parent], "{ts} {dur}");
    }
}

#[test]
fn steps_know_when_the_work_before_them_ended() {
    let step = |n: i64| {
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{n}","pid":1,"tid":1,"ts":{},"dur":100}}"#,
            n * 100
        )
    };
    let launch = |ts: i64, id: i64| {
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{ts},"dur":5,"args":{{"correlation":{id}}}}}"#
        )
    };
    let kernel = |stream: i64, ts: i64, dur: i64, id: i64| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream},"correlation":{id}}}}}"#
        )
    };
    let own = [
        step(1),
        step(2),
        launch(110, 1),
        kernel(25, 112, 3, 1),
        launch(120, 2),
        kernel(7, 160, 60, 2),
        launch(210, 3),
        kernel(7, 230, 80, 3),
    ];
    let ready = |others: &[String]| {
        let events: Vec<String> = own.iter().chain(others).cloned().collect();
        column(&read_text(trace(&events.join(","))).unwrap(), "steps", "ready_ns")
    };
    // A file starts at 0: its first event is at 100 us, unless work ran before.
    assert_eq!(ready(&[]), ["-", "120000"]);
    // Work of an earlier step, whose launch was not recorded, up to the first of the step on that stream.
    assert_eq!(ready(&[kernel(7, 130, 25, 90)]), ["55000", "120000"]);
    // On a stream without work of the step: before anything of the step ran ...
    assert_eq!(ready(&[kernel(9, 105, 2, 90)]), ["7000", "120000"]);
    // ... or started before the step; what starts in it may have been launched at any time.
    assert_eq!(ready(&[kernel(9, 90, 100, 90)]), ["100000", "130000"]);
    assert_eq!(ready(&[kernel(9, 115, 40, 90)]), ["-", "120000"]);
    // Launched before, it ran later.
    assert_eq!(ready(&[launch(90, 8), kernel(9, 150, 20, 8)]), ["80000", "130000"]);
    // What outlasts the step holds up nothing in it.
    assert_eq!(ready(&[launch(90, 8), kernel(9, 150, 400, 8)]), ["-", "130000"]);
}

#[test]
fn begin_and_end_events_pair_up() {
    let half = |ph: &str, name: &str, ts: i64| {
        format!(
            r#"{{"ph":"{ph}","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":{ts}}}"#
        )
    };
    let events = [
        half("B", "outer", 0),
        half("B", "inner", 2),
        half("E", "inner", 5),
        half("E", "outer", 9),
        half("E", "x", 10),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "annotations", "name"), ["inner", "outer"]);
    assert_eq!(column(&dataset, "annotations", "dur_ns"), ["3000", "9000"]);
    assert_eq!(warnings(&dataset), [("unmatched-begin-end", 1)]);
}

#[test]
fn asynchronous_begin_and_end_events_pair_up_by_id() {
    let half = |ph: &str, name: &str, id: &str, pid: i64, tid: i64, ts: i64| {
        format!(
            r#"{{"ph":"{ph}","cat":"request","name":"{name}",{id},"pid":{pid},"tid":{tid},"ts":{ts}}}"#
        )
    };
    let events = [
        // Two requests overlap on one thread; the second ends on another thread, in its own inner range.
        half("b", "first", r#""id":"0x1""#, 1, 1, 0),
        half("b", "second", r#""id":"0x2""#, 1, 1, 2),
        half("e", "first", r#""id":"0x1""#, 1, 1, 5),
        half("b", "inner", r#""id":"0x2""#, 1, 1, 6),
        half("e", "inner", r#""id":"0x2""#, 1, 2, 7),
        half("e", "second", r#""id":"0x2""#, 1, 2, 9),
        // Ids of a process are its own, global ones are not.
        half("b", "local", r#""id2":{"local":"0x1"}"#, 1, 1, 10),
        half("e", "local", r#""id2":{"local":"0x1"}"#, 2, 1, 11),
        half("b", "global", r#""id2":{"global":"0x1"}"#, 1, 1, 12),
        half("e", "global", r#""id2":{"global":"0x1"}"#, 2, 1, 15),
        // The form before nested ones.
        half("S", "old", r#""id":7"#, 1, 1, 20),
        half("F", "old", r#""id":7"#, 1, 1, 24),
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "spans", "name"), ["first", "inner", "second", "global", "old"]);
    assert_eq!(column(&dataset, "spans", "dur_ns"), ["5000", "1000", "7000", "3000", "4000"]);
    assert_eq!(column(&dataset, "unpaired_events", "phase"), ["b", "e"]);
    assert_eq!(warnings(&dataset), [("unmatched-begin-end", 2)]);
}

#[test]
fn memory_counters_flows_instants() {
    let events = [
        r#"{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":1,"args":{"Total Reserved":2097152,"Total Allocated":512,"Bytes":512,"Addr":140000000000000,"Device Id":0,"Device Type":1,"Ev Idx":4}}"#,
        r#"{"ph":"C","name":"GPU 0 Utilization","pid":0,"ts":2,"args":{"util":0.5,"max":1}}"#,
        r#"{"ph":"s","cat":"ac2g","name":"ac2g","id":7,"pid":1,"tid":1,"ts":3}"#,
        r#"{"ph":"i","s":"g","name":"Iteration Start","pid":"Traces","tid":"Trace","ts":0}"#,
        r#"{"ph":"M","name":"process_name","pid":1,"tid":0,"ts":0,"args":{"name":"python3"}}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "memory_events", "total_reserved_bytes"), ["2097152"]);
    assert_eq!(column(&dataset, "memory_events", "args"), [r#"{"Ev Idx":4}"#]);
    assert_eq!(column(&dataset, "counters", "series"), ["util", "max"]);
    assert_eq!(column(&dataset, "flows", "id"), ["7"]);
    assert_eq!(column(&dataset, "instants", "name"), ["Iteration Start"]);
    assert_eq!(column(&dataset, "threads", "process_name")[0], "python3");
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn parse_reads_slices_and_streams_alike() {
    // Strings that look like event boundaries, so that guesses are wrong on purpose.
    let events: Vec<String> = (0..60_000)
        .map(|i| {
            format!(
                "{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op{}\",\"pid\":1,\"tid\":{},\"ts\":{},\"dur\":3,\"args\":{{\"External id\":{i},\"x\":\"}} , {{ \\\"ph\\\": }},{{\"}}}}",
                i % 50,
                i % 3,
                i * 5
            )
        })
        .collect();
    let text = trace(&events.join(",\n"));
    let whole = read_text(&text).unwrap();
    assert_eq!(whole.tables.rows("cpu_ops"), 60_000);
    assert_eq!(warnings(&whole), []);
    let ids: Vec<String> = (0..60_000).map(|i| i.to_string()).collect();
    assert_eq!(column(&whole, "cpu_ops", "event_id"), ids);
    assert_eq!(column(&whole, "cpu_ops", "external_id"), ids);
    // Two gzip members cannot be inflated in one go: the stream is used.
    let (a, b) = text.as_bytes().split_at(text.len() / 3);
    let packed = [gzip(a), gzip(b)].concat();
    let streamed = read_files(&[("trace.json.gz", &packed)]).unwrap();
    assert_eq!(whole.tables.get("cpu_ops"), streamed.tables.get("cpu_ops"));
    assert_eq!(whole.run.sources[0].json_bytes, streamed.run.sources[0].json_bytes);
}

#[test]
fn ranks_of_workers_follow_name_or_order() {
    let text = trace(r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":0,"dur":1}"#);
    let read = |names: [&str; 2]| read_files(&names.map(|name| (name, text.as_bytes())));
    let ranks = |names: [&str; 2]| {
        read(names)
            .unwrap()
            .run
            .sources
            .iter()
            .map(|s| (s.rank, s.rank_from.to_string()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ranks(["node0_1.17.pt.trace.json", "node0_0.18.pt.trace.json"]),
        [(0, "file name".to_owned()), (1, "file name".to_owned())]
    );
    // Without a rank, nothing says that they are of one run.
    for names in
        [["host_48213.17.pt.trace.json", "host_9.18.pt.trace.json"], ["rank-7.json", "other.json"]]
    {
        let error = read(names).unwrap_err();
        assert!(
            matches!(&error, ingest::Error::SeveralRuns { runs, .. } if runs.len() == 2),
            "{error}"
        );
    }
}

#[test]
fn hardware_counters_are_series_of_their_gpu() {
    let sample = |gpu: i64, ts: i64, value: f64| {
        format!(
            r#"{{"ph":"C","cat":"hardware_counters","name":"sm__throughput","pid":"GPU {gpu} Counters","tid":3,"ts":{ts},"args":{{"":{value}}}}}"#
        )
    };
    let events = [sample(0, 1, 12.5), sample(1, 1, 50.0), sample(0, 2, 25.0)].join(",");
    let dataset = read_text(trace(&events)).unwrap();
    assert_eq!(column(&dataset, "counters", "name"), ["sm__throughput"; 3]);
    assert_eq!(column(&dataset, "counters", "device"), ["GPU 0", "GPU 1", "GPU 0"]);
    assert_eq!(column(&dataset, "counters", "series"), ["-", "-", "-"]);
    assert_eq!(column(&dataset, "counters", "value"), ["12.5", "50", "25"]);
    assert_eq!(warnings(&dataset), []);
}
