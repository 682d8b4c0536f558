//! Bad input gets a clear error or a counted warning: never a panic, a hang, or a wrong number.

use std::io::Write;

use crate::support::{column, gzip, read_files, read_text, trace, warnings};

const OP: &str = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":10,"dur":5,"args":{"External id":1}}"#;

fn ops(count: usize) -> String {
    (0..count)
        .map(|i| {
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"aten::op{}","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"External id":{i}}}}}"#,
                i % 100,
                i * 10
            )
        })
        .collect::<Vec<_>>()
        .join(",\n")
}

#[test]
fn truncated_json_keeps_complete_events() {
    let text = trace(&ops(50));
    let whole = read_text(&text).unwrap();
    assert_eq!(whole.tables.rows("cpu_ops"), 50);
    assert_eq!(warnings(&whole), []);
    let cut = read_text(&text[..text.len() / 2]).unwrap();
    let rows = cut.tables.rows("cpu_ops");
    assert!((20..30).contains(&rows), "{rows}");
    assert_eq!(warnings(&cut), [("truncated-json", 1)]);
}

#[test]
fn truncated_json_never_panics_or_adds_events() {
    let text = trace(&ops(6));
    for end in 0..text.len() {
        if let Ok(dataset) = read_text(&text[..end]) {
            assert!(dataset.tables.rows("cpu_ops") <= 6);
            assert!(!dataset.warnings.is_empty(), "cut at {end} went unnoticed");
        }
    }
}

#[test]
fn truncated_gzip_keeps_the_data_before() {
    let packed = gzip(trace(&ops(20_000)).as_bytes());
    let dataset = read_files(&[("t.json.gz", &packed[..packed.len() / 2])]).unwrap();
    let rows = dataset.tables.rows("cpu_ops");
    assert!(rows > 1_000 && rows < 20_000, "{rows}");
    assert_eq!(warnings(&dataset), [("truncated-gzip", 1), ("truncated-json", 1)]);
}

/// The length does not depend on how much was read when the list ended, and so not on the number of cores.
#[test]
fn text_after_a_list_counts() {
    let list = format!("[{OP}]");
    let text = list.clone() + &" oops".repeat(8 << 20);
    let dataset = read_files(&[("t.json.gz", &gzip(text.as_bytes()))]).unwrap();
    assert_eq!(dataset.tables.rows("cpu_ops"), 1);
    assert_eq!(dataset.run.sources[0].json_bytes, text.len() as u64);
}

#[test]
fn damaged_gzip_is_noticed() {
    let mut packed = gzip(trace(&ops(5_000)).as_bytes());
    let checksum = packed.len() - 6;
    packed[checksum] ^= 0xff;
    let dataset = read_files(&[("t.json.gz", &packed)]).unwrap();
    assert_eq!(dataset.tables.rows("cpu_ops"), 5_000);
    assert_eq!(warnings(&dataset), [("truncated-gzip", 1)]);
}

#[test]
fn invalid_durations_and_times_are_dropped() {
    let events = [
        OP,
        r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":NaN,"dur":5}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1,"dur":Infinity}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":"soon","dur":5}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"d","pid":1,"tid":1,"ts":1e300,"dur":5}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"e","pid":1,"tid":1,"ts":1,"dur":9e18}"#,
        r#"{"ph":"X","cat":"cpu_op","name":"f","pid":1,"tid":1,"dur":5}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "name"), ["aten::mm"]);
    assert_eq!(warnings(&dataset), [("bad-time", 6)]);
}

#[test]
fn negative_and_missing_durations_are_counted_and_zero_is_legal() {
    let events = [
        r#"{"ph":"X","cat":"kernel","name":"zero","pid":0,"tid":7,"ts":1,"dur":0}"#,
        r#"{"ph":"X","cat":"kernel","name":"back","pid":0,"tid":7,"ts":1,"dur":-1}"#,
        r#"{"ph":"X","cat":"kernel","name":"none","pid":0,"tid":7,"ts":1}"#,
    ];
    let dataset = read_text(trace(&events.join(","))).unwrap();
    assert_eq!(column(&dataset, "kernels", "name"), ["zero"]);
    assert_eq!(warnings(&dataset), [("negative-duration", 1), ("missing-duration", 1)]);
    assert_eq!(column(&dataset, "event_counts", "stored_in"), ["-", "kernels"]);
}

#[test]
fn strings_in_place_of_numbers_are_counted() {
    let event = r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":"0","tid":"7","ts":"10.5","dur":"2.25",
        "args":{"bytes":"128","stream":"7","device":"0","correlation":"x","memory bandwidth (GB/s)":"1.5"}}"#;
    let dataset = read_text(trace(event)).unwrap();
    assert_eq!(column(&dataset, "memcpys", "bytes"), ["128"]);
    assert_eq!(column(&dataset, "memcpys", "dur_ns"), ["2250"]);
    assert_eq!(column(&dataset, "memcpys", "stream"), ["7"]);
    assert_eq!(column(&dataset, "memcpys", "bandwidth_gb_per_s"), ["1.5"]);
    assert_eq!(column(&dataset, "memcpys", "correlation"), ["-"]);
    assert_eq!(warnings(&dataset), [("bad-number", 1)]);
}

#[test]
fn duplicate_ranks_cause_a_warning() {
    let text = |ts| {
        format!(
            r#"{{"distributedInfo": {{"rank": 3}}, "traceEvents": [{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":100}}]}}"#
        )
    };
    let dataset =
        read_files(&[("a.json", text(0).as_bytes()), ("b.json", text(50).as_bytes())]).unwrap();
    assert_eq!(dataset.run.ranks, [3]);
    assert_eq!(warnings(&dataset), [("duplicate-rank", 1)]);
    assert_eq!(dataset.warnings[0].file, "b.json");
    // One after the other: two cycles of one rank.
    let dataset =
        read_files(&[("a.json", text(0).as_bytes()), ("b.json", text(500).as_bytes())]).unwrap();
    assert_eq!(warnings(&dataset), [("several-cycles", 1)]);
    assert_eq!(dataset.run.sources[0].file, "b.json");
}

#[test]
fn a_cycle_without_operators_belongs_to_its_worker() {
    let text = |category, ts| {
        format!(
            r#"{{"traceEvents": [{{"ph":"X","cat":"{category}","name":"ProfilerStep#1","pid":7,"tid":1,"ts":{ts},"dur":100}}]}}"#
        )
    };
    let (whole, cut_off) = (text("cpu_op", 0), text("user_annotation", 500));
    let dataset = read_files(&[
        ("rank0_cycle0.pt.trace.json", whole.as_bytes()),
        ("rank0_cycle1.pt.trace.json", cut_off.as_bytes()),
    ])
    .unwrap();
    assert_eq!(dataset.run.ranks, [0]);
    assert_eq!(warnings(&dataset), [("several-cycles", 1)]);
}

#[test]
fn a_decompression_bomb_is_refused_quickly() {
    // 600 MB of the same event from about 3 MB; the limit is 256 MiB at this ratio.
    let chunk = format!("{OP},").repeat(10_000);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(br#"{"traceEvents": ["#).unwrap();
    for _ in 0..600_000_000 / chunk.len() {
        encoder.write_all(chunk.as_bytes()).unwrap();
    }
    encoder.write_all(b"{}]}").unwrap();
    let bomb = encoder.finish().unwrap();
    let error = read_files(&[("bomb.json.gz", &bomb)]).unwrap_err().to_string();
    assert!(error.contains("decompression bomb"), "{error}");
}

#[test]
fn endless_white_space_is_not_a_trace() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..300 {
        encoder.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(read_files(&[("bomb.json.gz", &bomb)]).is_err());
}

#[test]
fn hostile_names_are_stored_unchanged() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"\u001b[2J<script>alert(1)</script>'; DROP TABLE kernels; --","pid":1,"tid":1,"ts":1,"dur":1}"#;
    let dataset = read_text(trace(event)).unwrap();
    assert_eq!(
        column(&dataset, "cpu_ops", "name"),
        ["\u{1b}[2J<script>alert(1)</script>'; DROP TABLE kernels; --"]
    );
}

#[test]
fn broken_utf8_and_escapes_are_replaced_and_counted() {
    let mut text =
        trace(&format!("{OP},{}", OP.replace("aten::mm", r"lone \ud800 half"))).into_bytes();
    let at = text.windows(8).position(|w| w == b"aten::mm").unwrap();
    text[at] = 0xff;
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "name"), ["\u{fffd}ten::mm", "lone \u{fffd} half"]);
    assert_eq!(warnings(&dataset), [("bad-utf8", 2)]);
}

#[test]
fn deep_nesting_is_bounded() {
    let deep = format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1,"args":{{"x":{}}}}}"#,
        "[".repeat(100_000)
    );
    let dataset = read_text(trace(&format!("{deep},{OP},{OP}"))).unwrap();
    assert!(warnings(&dataset).iter().any(|(code, _)| *code == "malformed-event"));
    let metadata = format!(r#"{{"x": {}, "traceEvents": []}}"#, "[".repeat(100_000));
    assert!(read_text(&metadata).is_err());
}

#[test]
fn broken_event_loses_only_itself() {
    let text = trace(&format!(r#"{OP},{{"ph":"X" "cat":oops}},{OP},{OP}"#));
    let dataset = read_text(&text).unwrap();
    assert_eq!(dataset.tables.rows("cpu_ops"), 3);
    assert_eq!(warnings(&dataset), [("malformed-event", 1)]);
}

#[test]
fn entries_that_are_not_events_are_counted() {
    let dataset = read_text(trace(&format!("null, 3, \"x\", [1,2], {{}}, {OP}"))).unwrap();
    assert_eq!(dataset.tables.rows("cpu_ops"), 1);
    assert_eq!(warnings(&dataset), [("not-an-event", 4), ("unknown-phase", 1)]);
    assert_eq!(column(&dataset, "cpu_ops", "event_id"), ["5"]);
}

#[test]
fn files_that_are_not_traces_are_an_error_with_a_reason() {
    for (text, reason) in [
        ("", "x.json: empty"),
        ("   ", "not JSON"),
        ("hello", "not JSON"),
        ("{}", "without an event list"),
        (r#"{"traceEvents": 5}"#, "without an event list"),
        ("\0\0\0\0", "not JSON"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let error = crate::support::read(&path).unwrap_err().to_string();
        assert!(error.contains(reason), "{text:?}: {error}");
    }
    assert!(read_files(&[]).unwrap_err().to_string().contains("no profiler trace found"));
    assert!(
        crate::support::read("/no/such/folder".as_ref())
            .unwrap_err()
            .to_string()
            .contains("/no/such/folder")
    );
}

#[test]
fn an_empty_event_list_is_a_run_without_events() {
    let dataset = read_text(trace("")).unwrap();
    assert_eq!(dataset.tables.rows("ranks"), 1);
    assert_eq!(dataset.tables.rows("steps"), 0);
}

#[test]
fn unreadable_file_does_not_fail_the_run() {
    let good = trace(OP);
    let dataset = read_files(&[
        ("rank0.json", good.as_bytes()),
        ("rank1.json", br#"{"schemaVersion": 1, "traceEvents": 7}"#),
        ("notes.txt", b"hello"),
        ("graph.json", br#"{"schema": "1.1", "nodes": []}"#),
    ])
    .unwrap();
    assert_eq!(dataset.run.ranks, [0]);
    assert_eq!(warnings(&dataset), [("unreadable-file", 1), ("skipped-file", 2)]);
    assert!(
        dataset.warnings[1].message.contains("graph.json (JSON, but not a trace)"),
        "{}",
        dataset.warnings[1].message
    );
}

fn execution_trace(nodes: &str) -> String {
    format!(r#"{{"schema": "1.0.1", "pid": 7, "start_ts": 1, "nodes": [{nodes}], "finish_ts": 2}}"#)
}

fn node(id: i64) -> String {
    format!(
        r#"{{"id": {id}, "name": "aten::op{id}", "ctrl_deps": 1, "inputs": {{"values": [1], "shapes": [[]], "types": ["Int"]}},
            "attrs": [{{"name": "rf_id", "type": "uint64", "value": {id}}}, {{"name": "scope", "type": "uint64", "value": 0}}]}}"#
    )
}

#[test]
fn truncated_execution_traces_never_panic() {
    let text = execution_trace(&(1..=4).map(node).collect::<Vec<_>>().join(","));
    for end in 0..text.len() {
        match read_text(&text[..end]) {
            Err(error) => assert!(end < text.find('[').unwrap() + 1, "{end}: {error}"),
            Ok(cut) => {
                let rows = cut.tables.rows("execution_nodes");
                assert_eq!(rows, text[..end].matches("]}").count() / 2, "cut at {end}");
                assert!(warnings(&cut).contains(&("truncated-json", 1)), "cut at {end}");
            }
        }
    }
    let packed =
        gzip(execution_trace(&(1..9_000).map(node).collect::<Vec<_>>().join(",")).as_bytes());
    let cut = read_files(&[("et.json.gz", &packed[..packed.len() / 2])]).unwrap();
    let rows = cut.tables.rows("execution_nodes");
    assert!(rows > 1_000 && rows < 9_000, "{rows}");
    assert_eq!(warnings(&cut)[..2], [("truncated-gzip", 1), ("truncated-json", 1)]);
}

#[test]
fn broken_node_loses_only_itself() {
    // Names are not escaped by the writer: a quote in one breaks its node.
    let quoted = node(2).replace("aten::op2", "say \"hi\"");
    let text = execution_trace(&[node(1), quoted, node(3), node(4)].join(",\n"));
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "execution_nodes", "node_id"), ["1", "3", "4"]);
    assert_eq!(warnings(&dataset), [("malformed-node", 1), ("no-timeline", 1)]);
}

#[test]
fn strings_in_place_of_numbers_in_nodes_are_counted() {
    let nodes = [
        r#"{"id": "5", "name": 7, "parent": "x", "rf_id": "3", "scope": 9e9, "tid": [], "seq_id": true}"#,
        r#"{"id": "five", "name": "a"}"#,
        r#"{"name": "no id"}"#,
        r#"3, null, "x", [1], {}"#,
    ];
    let dataset = read_text(execution_trace(&nodes.join(","))).unwrap();
    let nodes = |name| column(&dataset, "execution_nodes", name);
    assert_eq!(nodes("node_id"), ["5"]);
    assert_eq!(nodes("rf_id"), ["3"]);
    for absent in ["name", "parent", "scope", "tid", "seq_id"] {
        assert_eq!(nodes(absent), ["-"], "{absent}");
    }
    assert_eq!(warnings(&dataset), [("bad-number", 3), ("not-a-node", 7), ("no-timeline", 1)]);
}

#[test]
fn duplicate_nodes_are_dropped() {
    let text = execution_trace(&[node(1), node(2), node(1).replace("op1", "other")].join(","));
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "execution_nodes", "name"), ["aten::op1", "aten::op2"]);
    assert_eq!(warnings(&dataset), [("duplicate-node", 1), ("no-timeline", 1)]);
}

#[test]
fn deep_nesting_in_nodes_is_bounded() {
    let deep = format!(r#"{{"id": 9, "name": "a", "inputs": {}"#, "[".repeat(100_000));
    let text = execution_trace(&[node(1), deep, node(2)].join(","));
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "execution_nodes", "node_id")[0], "1");
    assert!(warnings(&dataset).iter().any(|(code, _)| *code == "malformed-node"));
    let header =
        format!(r#"{{"schema": "1", "pid": {}, "rf_id": 1, "nodes": []}}"#, "[".repeat(1_000));
    assert!(read_text(&header).unwrap_err().to_string().contains("node list"));
}

#[test]
fn files_that_only_resemble_execution_traces_are_refused() {
    for text in [
        r#"{"schema": "1", "nodes": 5, "start_ts": 1}"#,
        r#"{"schema": "1", "nodes": {"rf_id": 1}}"#,
        r#"{"schema": "1", "start_ts": 1, "nodes"#,
    ] {
        let error = read_text(text).unwrap_err().to_string();
        assert!(
            error.contains("node list") || error.contains("no profiler trace"),
            "{text}: {error}"
        );
    }
}
