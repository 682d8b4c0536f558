//! Execution traces: both generations of the format, their ranks, and their links to the timeline.

use crate::support::{column, gzip, read, read_files, trace, warnings};
use trace_model::Dataset;

/// As torch 2.0 writes it: nodes are flat.
const OLD: &str = r#"{
  "schema": "1.0.1", "pid": 7, "time": "2023-07-14 11:53:07", "start_ts": 6278907328,
  "nodes": [
    {"name": "[pytorch|profiler|execution_trace|thread]", "id": 2, "rf_id": 0, "parent": 1, "fw_parent": 0, "seq_id": -1, "scope": 7, "tid": 1, "fw_tid": 0, "op_schema": "",
      "inputs": [], "input_shapes": [], "input_types": [], "outputs": [], "output_shapes": [], "output_types": []},
    {"name": "aten::mm", "id": 5, "rf_id": 3, "parent": 4, "fw_parent": 0, "seq_id": 0, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": "aten::mm(Tensor self, Tensor mat2) -> Tensor",
      "inputs": [[6,7,0,4,4,"cuda:0"],[8,9,0,4,4,"cuda:0"]], "input_shapes": [[2,2],[2,2]], "input_types": ["Tensor(float)","Tensor(float)"],
      "outputs": [[10,11,0,4,4,"cuda:0"]], "output_shapes": [[2,2]], "output_types": ["Tensor(float)"]},
    {"name": "step", "id": 4, "rf_id": 2, "parent": 2, "fw_parent": 0, "seq_id": -1, "scope": 7, "tid": 1, "fw_tid": 0, "op_schema": "",
      "inputs": [], "input_shapes": [], "input_types": [], "outputs": [], "output_shapes": [], "output_types": []},
    {"name": "[pytorch|profiler|execution_trace|process]", "id": 1, "rf_id": 0, "parent": 1, "fw_parent": 0, "seq_id": -1, "scope": 7, "tid": 0, "fw_tid": 0, "op_schema": "",
      "inputs": [], "input_shapes": [], "input_types": [], "outputs": [], "output_shapes": [], "output_types": []}
  ],
  "finish_ts": 6278928026
}"#;

/// The same as torch 2.3 and later write it, in Chakra's layout, with a Triton kernel's fields.
pub(crate) const NEW: &str = r#"{
  "schema": "1.1.1-chakra.0.0.4", "pid": 7, "time": "2025-01-01 00:00:00", "start_ts": 1,
  "nodes": [
    {
      "id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1,
      "inputs": {"values": [], "shapes": [], "types": [], "strides": []},
      "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
      "attrs": [{"name": "rf_id", "type": "uint64", "value": 0},{"name": "fw_parent", "type": "uint64", "value": 0},{"name": "seq_id", "type": "int64", "value": -1},{"name": "scope", "type": "uint64", "value": 7},{"name": "tid", "type": "uint64", "value": 1},{"name": "fw_tid", "type": "uint64", "value": 0},{"name": "op_schema", "type": "string", "value": ""},{"name": "kernel_backend", "type": "string", "value": ""},{"name": "kernel_file", "type": "string", "value": ""}]
    },
    {
      "id": 5, "name": "aten::mm", "ctrl_deps": 4,
      "inputs": {"values": [[6,7,0,4,4,"cuda:0"],[8,9,0,4,4,"cuda:0"]], "shapes": [[2,2],[2,2]], "types": ["Tensor(float)","Tensor(float)"], "strides": [[2,1],[2,1]]},
      "outputs": {"values": [[10,11,0,4,4,"cuda:0"]], "shapes": [[2,2]], "types": ["Tensor(float)"], "strides": [[2,1]]},
      "attrs": [{"name": "rf_id", "type": "uint64", "value": 3},{"name": "fw_parent", "type": "uint64", "value": 4},{"name": "seq_id", "type": "int64", "value": 0},{"name": "scope", "type": "uint64", "value": 0},{"name": "tid", "type": "uint64", "value": 1},{"name": "fw_tid", "type": "uint64", "value": 2},{"name": "op_schema", "type": "string", "value": "aten::mm(Tensor self, Tensor mat2) -> Tensor"},{"name": "kernel_backend", "type": "string", "value": "triton"},{"name": "kernel_file", "type": "string", "value": "c7.py"}, {"name": "pg_name", "type": "string", "value": "0"},
  {"name": "pg_size", "type": "uint64", "value": 8}]
    },
    {
      "id": 4, "name": "step", "ctrl_deps": [2],
      "inputs": {"values": [], "shapes": [], "types": [], "strides": []},
      "outputs": {"values": [], "shapes": [], "types": [], "strides": []},
      "attrs": [{"name": "rf_id", "type": "uint64", "value": 2},{"name": "seq_id", "type": "int64", "value": -1},{"name": "scope", "type": "uint64", "value": 7},{"name": "tid", "type": "uint64", "value": 1}]
    },
    {
      "id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1,
      "inputs": {"values": [], "shapes": [], "types": []},
      "outputs": {"values": [], "shapes": [], "types": []},
      "attrs": [{"name": "rf_id", "type": "uint64", "value": 0},{"name": "seq_id", "type": "int64", "value": -1},{"name": "scope", "type": "uint64", "value": 7},{"name": "tid", "type": "uint64", "value": 0}]
    }
  ],
  "finish_ts": 2
}"#;

/// A timeline of process `pid` in which `aten::mm` runs inside `step`.
fn timeline(rank: i32, pid: i64, mm: &str, step: &str) -> String {
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}}}, "traceEvents": [
        {{"ph":"X","cat":"user_annotation","name":"step","pid":{pid},"tid":1,"ts":10,"dur":50,"args":{{{step}}}}},
        {{"ph":"X","cat":"gpu_user_annotation","name":"step","pid":0,"tid":7,"ts":10,"dur":50,"args":{{{step}}}}},
        {{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":{pid},"tid":1,"ts":20,"dur":5,"args":{{{mm}}}}}]}}"#
    )
}

pub(crate) fn by_external_id(rank: i32, pid: i64) -> String {
    timeline(rank, pid, r#""External id": 3"#, r#""External id": 2"#)
}

fn nodes(dataset: &Dataset, name: &str) -> Vec<String> {
    column(dataset, "execution_nodes", name)
}

#[test]
fn execution_reads_the_flat_generation() {
    let dataset = read_files(&[("et.json", OLD.as_bytes())]).unwrap();
    assert_eq!(nodes(&dataset, "node_id"), ["2", "5", "4", "1"]);
    assert_eq!(nodes(&dataset, "name")[1..3], ["aten::mm", "step"]);
    assert_eq!(nodes(&dataset, "parent"), ["1", "4", "2", "-"]);
    assert_eq!(nodes(&dataset, "rf_id"), ["-", "3", "2", "-"]);
    assert_eq!(nodes(&dataset, "seq_id"), ["-", "0", "-", "-"]);
    assert_eq!(nodes(&dataset, "scope"), ["7", "0", "7", "7"]);
    assert_eq!(nodes(&dataset, "tid"), ["1", "1", "1", "0"]);
    assert_eq!(nodes(&dataset, "fw_parent"), ["-"; 4]);
    assert_eq!(nodes(&dataset, "op_schema")[1], "aten::mm(Tensor self, Tensor mat2) -> Tensor");
    assert_eq!(nodes(&dataset, "input_shapes"), ["-", "[[2, 2], [2, 2]]", "-", "-"]);
    assert_eq!(nodes(&dataset, "input_types")[1], r#"["Tensor(float)", "Tensor(float)"]"#);
    assert_eq!(nodes(&dataset, "output_shapes")[1], "[[2, 2]]");
    assert_eq!(nodes(&dataset, "outputs")[1], r#"[[10, 11, 0, 4, 4, "cuda:0"]]"#);
    assert_eq!(nodes(&dataset, "args"), ["-"; 4]);
}

#[test]
fn execution_reads_the_chakra_generation() {
    let old = read_files(&[("et.json", OLD.as_bytes())]).unwrap();
    let new = read_files(&[("et.json", NEW.as_bytes())]).unwrap();
    for same in [
        "node_id",
        "name",
        "parent",
        "rf_id",
        "seq_id",
        "scope",
        "tid",
        "op_schema",
        "input_shapes",
        "input_types",
        "inputs",
        "output_shapes",
        "output_types",
        "outputs",
    ] {
        assert_eq!(nodes(&new, same), nodes(&old, same), "{same}");
    }
    assert_eq!(nodes(&new, "fw_parent"), ["-", "4", "-", "-"]);
    assert_eq!(nodes(&new, "fw_tid"), ["-", "2", "-", "-"]);
    assert_eq!(nodes(&new, "input_strides")[1], "[[2, 1], [2, 1]]");
    assert_eq!(nodes(&new, "output_strides")[1], "[[2, 1]]");
    assert_eq!(nodes(&new, "kernel_backend"), ["-", "triton", "-", "-"]);
    assert_eq!(nodes(&new, "kernel_file")[1], "c7.py");
    assert_eq!(nodes(&new, "args"), ["-", r#"{"pg_name":"0","pg_size":8}"#, "-", "-"]);
}

#[test]
fn execution_trace_alone_is_a_run_without_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank3_et.json.gz");
    std::fs::write(&path, gzip(NEW.as_bytes())).unwrap();
    // By its folder, or by its name.
    for path in [folder.path(), &path] {
        let dataset = read(path).unwrap();
        assert_eq!(dataset.run.ranks, [3]);
        assert_eq!(dataset.run.wall_ns, 0);
        let source = &dataset.run.sources[0];
        assert_eq!(
            (source.format.as_ref(), source.rank_from.as_ref()),
            ("execution trace", "file name")
        );
        assert_eq!((source.events, source.json_bytes), (4, NEW.len() as u64));
        assert_eq!(column(&dataset, "ranks", "rank"), ["3"]);
        assert_eq!(nodes(&dataset, "rank"), ["3"; 4]);
        assert_eq!(nodes(&dataset, "event_id"), ["-"; 4]);
        assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
    }
}

#[test]
fn execution_nodes_are_linked_by_external_id() {
    let timeline = by_external_id(0, 99);
    let dataset =
        read_files(&[("et.json", NEW.as_bytes()), ("trace.json", timeline.as_bytes())]).unwrap();
    assert_eq!(warnings(&dataset), []);
    assert_eq!(nodes(&dataset, "event_id"), ["-", "2", "0", "-"]);
    assert_eq!(column(&dataset, "ranks", "rank"), ["0"]);
    let formats: Vec<_> = dataset
        .run
        .sources
        .iter()
        .map(|s| (s.format.as_ref(), s.rank, s.rank_from.as_ref()))
        .collect();
    assert_eq!(
        formats,
        [("kineto", 0, "distributedInfo"), ("execution trace", 0, "the only trace")]
    );
}

#[test]
fn execution_nodes_prefer_record_function_ids() {
    // External ids are counted separately then, and would link the wrong nodes.
    let timeline = timeline(
        0,
        7,
        r#""External id": 2, "Record function id": 3"#,
        r#""External id": 3, "Record function id": 2"#,
    );
    let dataset =
        read_files(&[("et.json", OLD.as_bytes()), ("trace.json", timeline.as_bytes())]).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "record_function_id"), ["3"]);
    assert_eq!(nodes(&dataset, "event_id"), ["-", "2", "0", "-"]);
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn execution_ids_of_another_recording_do_not_link() {
    // Other ids altogether.
    let far = timeline(0, 7, r#""External id": 300"#, r#""External id": 200"#);
    // The same ids by chance: none or one of the names agrees.
    let strangers = timeline(0, 7, r#""External id": 2"#, r#""External id": 3"#);
    // No ids.
    let none = timeline(0, 7, "", "");
    for (timeline, why) in [
        (far, "ids 2 to 3, the profiler's events 200 to 300"),
        (strangers, "of 2 nodes with the id of an event only 0 have its name"),
        (none, "carry no ids"),
    ] {
        let dataset =
            read_files(&[("et.json", OLD.as_bytes()), ("t.json", timeline.as_bytes())]).unwrap();
        assert_eq!(nodes(&dataset, "event_id"), ["-"; 4]);
        assert_eq!(warnings(&dataset), [("unlinked-execution-trace", 4)]);
        assert!(dataset.warnings[0].message.contains(why), "{}", dataset.warnings[0].message);
    }
    let without = OLD.replace("\"rf_id\"", "\"other\"");
    let timeline = by_external_id(0, 7);
    let dataset =
        read_files(&[("et.json", without.as_bytes()), ("t.json", timeline.as_bytes())]).unwrap();
    assert_eq!(nodes(&dataset, "rf_id"), ["-"; 4]);
    assert_eq!(nodes(&dataset, "args")[1], r#"{"other":3}"#);
    assert!(dataset.warnings[0].message.contains("carry no rf_id"));
}

#[test]
fn execution_links_are_one_to_one_and_need_equal_names() {
    // Nodes 5 and 6 claim one event; node 4 shares its id with an event of another name.
    let node = r#"{"name": "aten::mm", "id": 6, "rf_id": 3, "parent": 4}"#;
    let twice = OLD
        .replace("\"nodes\": [", &format!("\"nodes\": [{node},"))
        .replace(r#""name": "step""#, r#""name": "renamed""#);
    let timeline = by_external_id(0, 7);
    let dataset =
        read_files(&[("et.json", twice.as_bytes()), ("t.json", timeline.as_bytes())]).unwrap();
    assert_eq!(nodes(&dataset, "node_id"), ["6", "2", "5", "4", "1"]);
    assert_eq!(nodes(&dataset, "event_id"), ["2", "-", "-", "-", "-"]);
    assert_eq!(warnings(&dataset), [("renamed-node", 1)]);
}

#[test]
fn execution_rank_comes_from_file_name_or_process() {
    let (zero, one) = (by_external_id(0, 6), by_external_id(1, 7));
    let files = |et: &'static str| {
        [
            (et, OLD.as_bytes().to_vec()),
            ("a.json", zero.clone().into_bytes()),
            ("b.json", one.clone().into_bytes()),
        ]
    };
    let read = |files: &[(&str, Vec<u8>)]| {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(n, b)| (*n, b.as_slice())).collect();
        read_files(&files).unwrap()
    };
    let by_process = read(&files("et.json"));
    assert_eq!(nodes(&by_process, "rank"), ["1"; 4]);
    assert_eq!(by_process.run.sources[2].rank_from, "process id");
    assert_eq!(nodes(&by_process, "event_id"), ["-", "2", "0", "-"]);
    let by_name = read(&files("et_rank0.json"));
    assert_eq!(nodes(&by_name, "rank"), ["0"; 4]);
    // A rank of which there is no timeline.
    let other = read(&files("et_rank5.json"));
    assert_eq!(nodes(&other, "rank"), ["5"; 4]);
    assert_eq!(other.run.ranks, [0, 1]);
    // Two processes with one id, as in containers.
    let mut containers = files("et.json");
    containers[1].1 = by_external_id(0, 7).into_bytes();
    let ambiguous = read(&containers);
    assert_eq!(nodes(&ambiguous, "rank"), [""; 0]);
    assert_eq!(warnings(&ambiguous)[0], ("unassigned-execution-trace", 1));
}

#[test]
fn execution_of_two_traces_per_rank_the_linked_one_is_read() {
    let stranger = OLD.replace("aten::mm", "aten::add").replace("\"step\"", "\"other\"");
    let timeline = by_external_id(0, 7);
    let dataset = read_files(&[
        ("a.json", stranger.as_bytes()),
        ("b.json", OLD.as_bytes()),
        ("t.json", timeline.as_bytes()),
    ])
    .unwrap();
    assert_eq!(nodes(&dataset, "event_id"), ["-", "2", "0", "-"]);
    assert_eq!(warnings(&dataset), [("duplicate-rank", 1)]);
    assert_eq!(dataset.warnings[0].file, "a.json");
}

#[test]
fn execution_trace_above_does_not_hide_timelines_below() {
    let timeline = by_external_id(0, 7);
    let dataset =
        read_files(&[("et.json", OLD.as_bytes()), ("traces/t.json", timeline.as_bytes())]).unwrap();
    assert_eq!(dataset.tables.rows("cpu_ops"), 1);
    assert_eq!(nodes(&dataset, "event_id"), ["-", "2", "0", "-"]);
}

#[test]
fn execution_keys_may_be_in_any_order() {
    let node = r#"{"attrs":[{"value":9,"name":"rf_id"},7,{"name":"x"}],"outputs":{},"name":"a\"b\u00e9","inputs":null,"ctrl_deps":null,"id":"12"}"#;
    let text = format!("\u{feff}{{\"nodes\":[ {node} ,],\"pid\":1,\"schema\":\"2\"}}");
    let dataset = read_files(&[("et.json", text.as_bytes())]).unwrap();
    assert_eq!(nodes(&dataset, "node_id"), ["12"]);
    assert_eq!(nodes(&dataset, "name"), ["a\"b\u{e9}"]);
    assert_eq!(nodes(&dataset, "rf_id"), ["9"]);
    assert_eq!(nodes(&dataset, "parent"), ["-"]);
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
}

#[test]
fn execution_long_files_are_streamed() {
    // 120 MB of JSON: more than is held whole.
    let pad = "x".repeat(2_000);
    let mut text = String::from(r#"{"schema":"1.0.1","pid":7,"start_ts":1,"nodes":["#);
    for id in 1..=58_000 {
        use std::fmt::Write;
        write!(text, r#"{{"id":{id},"name":"op","parent":1,"rf_id":{id},"inputs":["{pad}"]}},"#)
            .unwrap();
    }
    text.push_str("{\"id\":0}],\"finish_ts\":2}");
    assert!(text.len() > 100 << 20);
    let dataset = read_files(&[("et.json.gz", &gzip(text.as_bytes()))]).unwrap();
    assert_eq!(dataset.tables.rows("execution_nodes"), 58_001);
    assert_eq!(dataset.run.sources[0].json_bytes, text.len() as u64);
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
}

#[test]
fn execution_rejects_trace_event_files() {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"nodes","pid":1,"tid":1,"ts":1,"dur":1,"args":{"schema":1,"rf_id":2,"nodes":3}}"#;
    let dataset = read_files(&[("t.json", trace(event).as_bytes())]).unwrap();
    assert_eq!(dataset.run.sources[0].format, "kineto");
}
