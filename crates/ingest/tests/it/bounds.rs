//! Bounds on times, streams and event sizes: events beyond them are counted and dropped, or the file is refused.

use std::fmt::Write as _;

use crate::support::{column, contents, gzip, read_files, read_text, trace, warnings};

/// Returns an event with a start and duration in microseconds.
fn event(category: &str, name: &str, tid: u32, ts: &str, dur: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{tid}}}}}"#
    )
}

/// Returns ten operators and ten kernels.
fn events() -> Vec<String> {
    (0..10)
        .flat_map(|i| {
            let ts = (1_000_000 + 100 * i).to_string();
            [event("cpu_op", "aten::mm", 1, &ts, "50"), event("kernel", "gemm", 7, &ts, "80")]
        })
        .collect()
}

fn read(events: &[String]) -> trace_model::Dataset {
    read_text(trace(&events.join(","))).unwrap()
}

#[test]
fn events_that_are_too_long_are_dropped() {
    let mut all = events();
    let expected = contents(&read(&all));
    all.push(event("kernel", "gemm", 7, "1000000", "1125899906842.625"));
    let dataset = read(&all);
    assert_eq!(warnings(&dataset), [("bad-time", 1)]);
    for ((table, rows), (_, more)) in expected.iter().zip(contents(&dataset)) {
        let is_about_warnings =
            ["reading_warnings", "event_counts", "ranks", "strings"].contains(table);
        assert!(is_about_warnings || *rows == more, "{table}");
    }
}

#[test]
fn events_far_from_all_others_are_dropped() {
    let late = (1_000_000_i64 + 31 * 365 * 86_400 * 1_000_000).to_string();
    let mut all = events();
    all.insert(0, event("kernel", "gemm", 7, &late, "80"));
    all.push(event("cpu_op", "aten::mm", 1, "-2305843009213693", "50"));
    all.push(
        r#"{"ph":"B","cat":"x","name":"open","pid":0,"tid":9,"ts":2305843009213693}"#.to_owned(),
    );
    all.push(
        r#"{"ph":"E","cat":"x","name":"open","pid":0,"tid":9,"ts":2305843009213693.9}"#.to_owned(),
    );
    let dataset = read(&all);
    assert_eq!(warnings(&dataset), [("far-event", 4)]);
    assert_eq!(dataset.tables.rows("kernels"), 10);
    assert_eq!(dataset.tables.rows("cpu_ops"), 10);
    assert_eq!(dataset.run.wall_ns, 980_000);
}

#[test]
fn durations_of_a_rank_cannot_add_up_beyond_64_bits() {
    let mut all = events();
    // A thousand events of twelve days each add up to more than 2^59 ns.
    all.extend((0..1000).map(|_| event("kernel", "endless", 7, "1000000", "1036800000000")));
    let dataset = read(&all);
    assert_eq!(warnings(&dataset), [("far-event", 1000)]);
    assert_eq!(dataset.tables.rows("kernels"), 10);
}

#[test]
fn twelve_days_are_a_recording() {
    let mut all = events();
    all.push(event("cpu_op", "last", 1, "1036800000000", "50"));
    let dataset = read(&all);
    assert_eq!(warnings(&dataset), []);
    assert_eq!(dataset.tables.rows("cpu_ops"), 11);
}

#[test]
fn clocks_of_other_decades_are_of_other_runs() {
    let of_rank = |rank: u32, base_ns: i64| {
        format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"baseTimeNanoseconds":{base_ns},"traceEvents":[{}]}}"#,
            events().join(",")
        )
    };
    let (now, then) = (of_rank(0, 1_795_000_000_000_000_000), of_rank(1, 500_000_000_000_000_000));
    let error = read_files(&[("rank0.json", now.as_bytes()), ("rank1.json", then.as_bytes())]);
    let ingest::Error::SeveralRuns { runs, .. } = error.unwrap_err() else { panic!("one run") };
    assert_eq!(runs.len(), 2);
    // An impossible base time is ignored.
    let never = of_rank(0, i64::MAX);
    let dataset = read_text(never).unwrap();
    assert_eq!(warnings(&dataset), [("missing-ranks", 1), ("unreadable-metadata", 1)]);
    assert_eq!(dataset.run.wall_ns, 980_000);
}

#[test]
fn keys_with_escapes_mean_what_they_say() {
    let plain = trace(
        r#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"correlation":5}},
           {"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{"name":"stream 7"}}"#,
    );
    let escaped = trace(
        r#"{"\u0070h":"\u0058","c\u0061t":"kernel","n\u0061me":"gemm","pid":0,"t\u0069d":7,"\u0074s":1,"d\u0075r":2,
            "\u0061rgs":{"\u0064evice":0,"stre\u0061m":7,"c\u006frrelation":5}},
           {"ph":"M","name":"thread_n\u0061me","pid":0,"tid":7,"args":{"n\u0061me":"stre\u0061m 7"}}"#,
    );
    let (plain, escaped) = (read_text(plain).unwrap(), read_text(escaped).unwrap());
    assert_eq!(column(&plain, "kernels", "correlation"), ["5"]);
    assert_eq!(column(&plain, "threads", "thread_name"), ["stream 7"]);
    assert_eq!(contents(&plain), contents(&escaped));
}

fn reason(events: &str) -> String {
    read_text(trace(events)).unwrap_err().to_string()
}

#[test]
fn crowds_of_devices_and_streams_are_refused() {
    let kernel = |device: u32, stream: u32| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":{stream},"ts":1,"dur":2,"args":{{"device":{device},"stream":{stream}}}}}"#
        )
    };
    let list = |events: Vec<String>| events.join(",");
    assert!(read_text(trace(&list((0..1024).map(|device| kernel(device, 7)).collect()))).is_ok());
    let devices = reason(&list((0..1025).map(|device| kernel(device, 7)).collect()));
    assert!(devices.contains("it contains more than 1,024 devices for one rank"), "{devices}");
    let streams = reason(&list((0..16_385).map(|stream| kernel(0, stream)).collect()));
    assert!(streams.contains("it contains more than 16,384 streams for one rank"), "{streams}");
}

#[test]
fn long_events_are_read_and_longer_ones_refused() {
    let long = |bytes: usize| {
        let mut name = String::new();
        let _ = write!(name, "{}", "x".repeat(bytes));
        let events = [event("kernel", &name, 7, "1", "2"), event("kernel", "next", 7, "5", "2")];
        gzip(trace(&events.join(",")).as_bytes())
    };
    let dataset = read_files(&[("t.json.gz", &long(20 << 20))]).unwrap();
    let names = column(&dataset, "kernels", "name");
    assert_eq!((names[0].len(), names[1].as_str()), (20 << 20, "next"));
    let refused = read_files(&[("t.json.gz", &long(200 << 20))]).unwrap_err().to_string();
    assert!(refused.contains("a single event is longer than 64 MiB"), "{refused}");
}

/// Returns a kernel, a copy and an allocation with these arguments in addition to their usual ones.
fn activities(kernel: &str, copy: &str, allocation: &str) -> trace_model::Dataset {
    let device = r#""pid":0,"tid":7,"ts":1,"dur":2"#;
    read_text(trace(&format!(
        r#"{{"ph":"X","cat":"kernel","name":"gemm",{device},"args":{{"device":0,"stream":7,{kernel}}}}},
           {{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD",{device},"args":{{"device":0,"stream":7,{copy}}}}},
           {{"ph":"i","s":"t","name":"[memory]","pid":1,"tid":1,"ts":5,"args":{{"Device Type":1,"Device Id":0,"Bytes":512,{allocation}}}}}"#
    )))
    .unwrap()
}

#[test]
fn amounts_that_no_device_has_are_missing() {
    let fields = [
        ("kernels", "occupancy_ratio", r#""est. achieved occupancy %""#, ["250", "-1", "1e15"]),
        ("kernels", "registers", r#""registers per thread""#, ["2147483648", "1e15", "-1e300"]),
        ("kernels", "shared_memory_bytes", r#""shared memory""#, ["-1", "9.2e18", "1e300"]),
        ("kernels", "blocks_per_sm", r#""blocks per SM""#, ["1e300", "-1e300", "-0.5"]),
        ("memcpys", "bytes", r#""bytes""#, ["9e18", "-9000000000000000000", "-1"]),
        (
            "memory_events",
            "total_reserved_bytes",
            r#""Total Reserved""#,
            ["9.2e18", "-5e12", "2e13"],
        ),
        (
            "memory_events",
            "total_allocated_bytes",
            r#""Total Allocated""#,
            ["9.2e18", "-9e18", "-1"],
        ),
    ];
    for (table, name, argument, values) in fields {
        for value in values {
            let argument = format!("{argument}:{value}");
            let of = |this: &str| if table == this { argument.as_str() } else { r#""x":1"# };
            let dataset = activities(of("kernels"), of("memcpys"), of("memory_events"));
            assert_eq!(column(&dataset, table, name), ["-"], "{argument}");
            assert_eq!(warnings(&dataset).len(), 1, "{argument}");
        }
        let argument = format!("{argument}:50");
        let of = |this: &str| if table == this { argument.as_str() } else { r#""x":1"# };
        let dataset = activities(of("kernels"), of("memcpys"), of("memory_events"));
        assert_ne!(column(&dataset, table, name), ["-"], "{argument}");
        assert_eq!(warnings(&dataset), [], "{argument}");
    }
}

#[test]
fn integers_whose_thousandths_fit_64_bits_are_missing_and_end_nothing() {
    for key in ["pid", "tid"] {
        let event = event("kernel", "gemm", 7, "1", "2")
            .replace(&format!("\"{key}\":"), &format!("\"{key}\":9223372036854775.807,\"_\":"));
        assert_eq!(read(&[event]).tables.rows("kernels"), 1, "{key}");
    }
    for key in ["correlation", "device", "stream"] {
        let dataset = activities(&format!("\"{key}\":9223372036854775.807"), "\"x\":1", "\"x\":1");
        assert_eq!(dataset.tables.rows("kernels"), 1, "{key}");
        assert_eq!(warnings(&dataset), [("bad-number", 1)], "{key}");
    }
}

#[test]
fn sizes_of_a_rank_cannot_add_up_beyond_64_bits() {
    let copy = r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":0,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7,"bytes":17592186044416}}"#;
    let dataset = read(&vec![copy.to_owned(); 20_000]);
    assert_eq!(warnings(&dataset), [("number-out-of-bounds", 20_000)]);
    assert_eq!(dataset.tables.rows("memcpys"), 20_000);
}

/// Returns marks of steps: number, thread, start and duration in microseconds.
fn steps(marks: &[(i64, u32, u32, u32)]) -> trace_model::Dataset {
    let mark = |&(number, tid, ts, dur): &(i64, u32, u32, u32)| {
        let name = format!("ProfilerStep#{number}");
        event("user_annotation", &name, tid, &ts.to_string(), &dur.to_string())
    };
    read(&marks.iter().map(mark).collect::<Vec<_>>())
}

#[test]
fn steps_of_a_rank_have_numbers_of_their_own() {
    let dataset =
        steps(&[(5, 1, 0, 10), (5, 1, 10, 10), (6, 1, 20, 10), (0, 1, 30, 10), (9, 1, 40, 10)]);
    assert_eq!(column(&dataset, "steps", "step"), ["5", "6", "7", "8", "9"]);
    assert_eq!(warnings(&dataset), [("repeated-step", 3)]);
}

#[test]
fn steps_of_a_rank_do_not_overlap() {
    // Steps inside of a step, and fewer steps of another thread at the same time.
    let dataset = steps(&[
        (1, 1, 0, 100),
        (2, 1, 100, 100),
        (3, 1, 200, 100),
        (8, 1, 110, 50),
        (1, 2, 50, 100),
        (2, 2, 150, 100),
    ]);
    assert_eq!(column(&dataset, "steps", "step"), ["1", "2", "3"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["100000"; 3]);
    assert_eq!(warnings(&dataset), [("overlapping-step", 3)]);
    // Times in whole microseconds let steps end a little late.
    let dataset = steps(&[(1, 1, 0, 101), (2, 1, 100, 101), (3, 1, 200, 101)]);
    assert_eq!(column(&dataset, "steps", "step"), ["1", "2", "3"]);
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn lists_have_one_text_for_all_writers() {
    let op = |dims: &str, types: &str, inputs: &str| {
        read_text(trace(&format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2,"args":{{"Input Dims":{dims},"Input type":{types},"Concrete Inputs":{inputs}}}}}"#
        )))
        .unwrap()
    };
    let pytorch = op("[[8, 128], [128, 8]]", r#"["float", "double"]"#, r#"["", "[1, 2]"]"#);
    assert_eq!(column(&pytorch, "cpu_ops", "input_dims"), ["[[8, 128], [128, 8]]"]);
    assert_eq!(column(&pytorch, "cpu_ops", "args"), [r#"{"Concrete Inputs":["", "[1, 2]"]}"#]);
    for other in [
        op("[[8,128],[128,8]]", r#"["float","double"]"#, r#"["","[1, 2]"]"#),
        op(
            "[\n [\n 8,\n 128\n ],\n [\n 128,\n 8 ] ]",
            "[\n\"float\",\n\"double\"\n]",
            "[\n \"\",\n \"[1, 2]\"\n]",
        ),
        op("[[8.0, 1.28e2], [128.0, 8]]", r#"["float", "double"]"#, r#"["", "[1, 2]"]"#),
    ] {
        assert_eq!(contents(&other), contents(&pytorch));
    }
}

#[test]
fn empty_steps_inside_of_a_step_hide_no_overlap() {
    let dataset =
        steps(&[(1, 1, 0, 1_000), (2, 1, 100, 0), (3, 1, 100, 1_000), (4, 1, 1_100, 100)]);
    assert_eq!(column(&dataset, "steps", "step"), ["1", "4"]);
    assert_eq!(warnings(&dataset), [("overlapping-step", 2)]);
}
