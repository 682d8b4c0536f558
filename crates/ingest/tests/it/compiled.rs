//! Logs of `torch.compile`: compilations, graph breaks, and the source lines of kernels.

use crate::support::{column, gzip, read_files, trace, warnings};
use trace_model::Dataset;

/// A record with its payload.
fn record(object: &str, payload: &str) -> String {
    let has_payload = if payload.is_empty() { "" } else { ", \"has_payload\": \"0\"" };
    let mut text = String::new();
    for line in payload.lines() {
        text.extend(["\t", line, "\n"]);
    }
    format!("V0521 11:50:39.474000 77 torch/x.py:1] {{{object}{has_payload}}}\n{text}")
}

const ID: &str = r#""rank": 3, "frame_id": 0, "frame_compile_id": 1, "attempt": 0"#;

fn artifact(name: &str, payload: &str) -> String {
    record(&format!(r#""artifact": {{"name": "{name}", "encoding": "json"}}, {ID}"#), payload)
}

/// As PyTorch orders records: a recompilation on rank 3 with a graph break, and a graph of two kernels.
fn log() -> String {
    [
        record(r#""str": ["/a/train.py", 1]"#, ""),
        artifact("recompile_reasons", r#"["0/0: tensor 'x' size mismatch at index 0. expected 8, actual 4"]"#),
        record(
            &format!(r#""dynamo_start": {{"stack": [{{"line": 9, "name": "<module>", "filename": 1}}, {{"line": 3, "name": "forward", "filename": 1}}]}}, {ID}"#),
            "",
        ),
        record(&format!(r#""describe_tensor": {{"id": 0}}, {ID}"#), ""),
        record(&format!(r#""create_symbol": {{"symbol": "s0", "val": "4"}}, {ID}"#), ""),
        artifact(
            "dynamo_graph_break_reason",
            "Graph break in user code at /a/train.py:5\nReason: Unsupported: Tensor.item\nUser code traceback:\n  \
             File \"/a/train.py\", line 5, in forward\n    n = x.item()\n",
        ),
        record(
            &format!(r#""dynamo_output_graph": {{}}, {ID}"#),
            "class GraphModule(torch.nn.Module):
    def forward(self, L_x_: \"f32[s0, 10][10, 1]cpu\"):
        # File: /a/train.py:3 in forward, code: y = x + 1
        y: \"f32[s0, 10][10, 1]cpu\" = L_x_ + 1",
        ),
        record(
            &format!(r#""inductor_post_grad_graph": {{}}, {ID}"#),
            "class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: \"Sym(s0)\", arg1_1: \"f32[s0, 10][10, 1]cpu\"):
        # No stacktrace found for following nodes
        add: \"f32[s0, 10][10, 1]cpu\" = torch.ops.aten.add.Tensor(arg1_1, 1);  arg1_1 = None
        # File: /a/train.py:4 in forward, code: z = y.relu().half()
        relu: \"f32[s0, 10][10, 1]cpu\" = torch.ops.aten.relu.default(add);  add = None
        half: \"f16[s0, 10][10, 1]cpu\" = torch.ops.aten.to(relu);  relu = None
        return (half,)",
        ),
        record(
            &format!(r#""inductor_output_code": {{"filename": "/tmp/x.py"}}, {ID}"#),
            "# AOT ID: ['2_inference']
cpp_fused_add_relu_0 = async_compile.cpp_pybinding(['const float*'], r'''
''')
cpp_fused_other_1 = async_compile.cpp_pybinding(['const float*'], r'''
''')
        extern_kernels.mm(a, b)",
        ),
        artifact("fx_graph_cache_miss", r#"{"key": "fabc", "cache_state": "miss", "components": ["x"]}"#),
        artifact("aotautograd_cache_bypass", r#"{"key": null}"#),
        artifact(
            "inductor_provenance_tracking_node_mappings",
            r#"{"postToPre": {"add": ["y"]}, "cppCodeToPost": {"cpp_fused_add_relu_0:1": ["half", "relu", "add"], "gone_9:7": ["add"]}, "version": 2.0}"#,
        ),
        artifact(
            "inductor_provenance_tracking_kernel_stack_traces",
            r#"{"cpp_fused_other_1:2": ["  File \"/a/train.py\", line 6, in forward\n    w = z.sum()\n"]}"#,
        ),
        record(
            &format!(r#""compilation_metrics": {{"co_name": "forward", "co_filename": "/a/train.py", "co_firstlineno": 2, "start_time_us": 1700000000000500, "duration_us": 2500, "inductor_cumulative_compile_time_us": 1000, "graph_op_count": 3, "guard_count": 8, "fail_reason": null}}, {ID}"#),
            "",
        ),
    ]
    .concat()
}

fn read(log: &str) -> Dataset {
    read_files(&[("dedicated_log_torch_trace_x.log", log.as_bytes())]).unwrap()
}

fn rows(dataset: &Dataset, table: &str, columns: &[&str]) -> Vec<String> {
    let columns: Vec<Vec<String>> = columns.iter().map(|c| column(dataset, table, c)).collect();
    let row = |at: usize| columns.iter().map(|c| c[at].as_str()).collect::<Vec<_>>().join(" | ");
    (0..columns[0].len()).map(row).collect()
}

#[test]
fn compiled_frames_hold_what_the_log_says() {
    let dataset = read(&log());
    let columns = [
        "rank",
        "compile_id",
        "phase",
        "frame_id",
        "attempt",
        "function",
        "file",
        "line",
        "ts_ns",
        "dur_ns",
        "inductor_dur_ns",
        "recompile_reason",
        "fail_reason",
        "graph_cache_hit_count",
        "graph_cache_miss_count",
        "autograd_cache",
        "graph_op_count",
        "guard_count",
    ];
    assert_eq!(
        rows(&dataset, "compiled_frames", &columns),
        [
            "3 | 0/1 | forward | 0 | 0 | forward | /a/train.py | 2 | 0 | 2500000 | 1000000 | 0/0: tensor 'x' size \
          mismatch at index 0. expected 8, actual 4 | - | 0 | 1 | bypass | 3 | 8"
        ]
    );
    assert_eq!(
        rows(
            &dataset,
            "graph_breaks",
            &["rank", "compile_id", "file", "line", "function", "code", "reason"]
        ),
        ["3 | 0/1 | /a/train.py | 5 | forward | n = x.item() | Unsupported: Tensor.item"]
    );
    assert_eq!(dataset.run.ranks, [3]);
    assert_eq!(
        rows(&dataset, "ranks", &["rank", "start_ns", "end_ns", "clock"]),
        ["3 | 0 | 2500000 | single"]
    );
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
}

/// Line 3 reads `arg1_1` (4 x 10 x 4 = 160 bytes) and hands 160 bytes on to line 4, which writes 80 bytes; relu stays in
/// line 4. 320 of 400 bytes are line 3's.
#[test]
fn compiled_kernels_are_split_by_bytes() {
    let dataset = read(&log());
    let columns = [
        "name",
        "backend",
        "graph_id",
        "graph_key",
        "line",
        "code",
        "nodes",
        "pre_grad_nodes",
        "read_bytes",
        "written_bytes",
        "split_by",
        "share_ppm",
    ];
    assert_eq!(
        rows(&dataset, "compiled_kernels", &columns),
        [
            "cpp_fused_add_relu_0 | cpp | 2_inference | fabc | 3 | y = x + 1 | add | y | 160 | 160 | bytes | 800000",
            "cpp_fused_add_relu_0 | cpp | 2_inference | fabc | 4 | z = y.relu().half() | half, relu | - | 0 | 80 | \
             bytes | 200000",
            "cpp_fused_other_1 | cpp | 2_inference | fabc | 6 | w = z.sum() | - | - | - | - | - | 1000000",
            "extern_kernels.mm | extern | 2_inference | fabc | - | - | - | - | - | - | - | 1000000",
        ]
    );
}

#[test]
fn compiled_kernels_are_split_by_nodes_where_a_size_is_unknown() {
    let log = log().replace(r#""symbol": "s0""#, r#""symbol": "s1""#);
    let dataset = read(&log);
    assert_eq!(
        rows(&dataset, "compiled_kernels", &["line", "read_bytes", "split_by", "share_ppm"])[..2],
        ["3 | - | nodes | 333333", "4 | - | nodes | 666667"]
    );
}

#[test]
fn logs_beside_a_timeline_share_its_rank_and_its_clock() {
    let events =
        r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":77,"tid":1,"ts":1000.5,"dur":5}"#;
    let trace = trace(events).replace(
        r#""schemaVersion": 1"#,
        r#""schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000"#,
    );
    let unranked = log().replace("\"rank\": 3, ", "");
    let packed = gzip(unranked.as_bytes());
    let dataset = read_files(&[
        ("trace.json", trace.as_bytes()),
        ("torch_trace/dedicated_log_torch_trace_x.log.gz", &packed),
    ])
    .unwrap();
    // The timeline begins at 1,000,500 ns, the compilation at 500,000 ns after 1,700,000,000 s.
    assert_eq!(rows(&dataset, "compiled_frames", &["rank", "ts_ns"]), ["0 | -500500"]);
    assert_eq!(warnings(&dataset), []);
    let formats: Vec<_> =
        dataset.run.sources.iter().map(|s| (s.format.as_ref(), s.rank_from.as_ref())).collect();
    assert_eq!(formats[1], ("torch.compile log", "the only trace"));

    let without_base = trace.replace(", \"baseTimeNanoseconds\": 1700000000000000000", "");
    let dataset =
        read_files(&[("trace.json", without_base.as_bytes()), ("x.log", log().as_bytes())])
            .unwrap();
    assert_eq!(
        rows(&dataset, "compiled_frames", &["rank", "ts_ns", "dur_ns"]),
        ["3 | - | 2500000"]
    );
    assert_eq!(warnings(&dataset), [("unaligned-clocks", 1)]);
}

#[test]
fn ranks_come_from_records_then_names() {
    let unranked = log().replace("\"rank\": 3, ", "");
    let dataset = read_files(&[
        ("dedicated_log_torch_trace_rank_5_x.log", unranked.as_bytes()),
        ("dedicated_log_torch_trace_rank_7_y.log", log().as_bytes()),
    ])
    .unwrap();
    assert_eq!(rows(&dataset, "compiled_frames", &["rank"]), ["3", "5"]);
    let dataset =
        read_files(&[("a.log", unranked.as_bytes()), ("b.log", unranked.as_bytes())]).unwrap();
    assert_eq!(rows(&dataset, "compiled_frames", &["rank"]), ["0", "0"]);
    assert_eq!(warnings(&dataset), [("guessed-rank", 2), ("no-timeline", 1)]);
}

#[test]
fn ids_start_again_after_a_reset() {
    let again = log().replace("\"frame_compile_id\": 1", "\"frame_compile_id\": 0");
    let unfinished: String = again.split_inclusive('\n').take(4).collect();
    let dataset = read(&format!("{again}{again}{unfinished}"));
    assert_eq!(
        rows(&dataset, "compiled_frames", &["compile_id", "dur_ns", "line"]),
        ["0/0 | 2500000 | 2", "0/0 | 2500000 | 2", "0/0 | - | 3"]
    );
    assert_eq!(dataset.tables.rows("compiled_kernels"), 8);
    assert_eq!(warnings(&dataset), [("unfinished-compilation", 1), ("no-timeline", 1)]);
}

#[test]
fn damaged_records_are_counted() {
    let other = "no record\n\n\tpayload of nothing\n";
    let bad = artifact("fx_graph_cache_miss", "{\"key\": ");
    let missing = artifact("recompile_reasons", "x").lines().next().unwrap().to_owned() + "\n";
    let half = "V0521 11:50:39.474000 77 torch/x.py:1] {\"artifact\": }\n";
    let dataset = read(&format!("{}{other}{bad}{missing}{half}", log()));
    assert_eq!(dataset.tables.rows("compiled_frames"), 1);
    assert_eq!(
        warnings(&dataset),
        [
            ("malformed-record", 3),
            ("missing-payload", 1),
            ("malformed-payload", 1),
            ("no-timeline", 1)
        ]
    );
}

#[test]
fn cut_logs_never_panic_and_never_invent_rows() {
    let whole = log();
    let mut noticed = 0;
    for end in 0..whole.len() {
        let Ok(dataset) = read_files(&[("x.log", &whole.as_bytes()[..end])]) else { continue };
        assert!(dataset.tables.rows("compiled_frames") <= 1, "{end}");
        assert!(dataset.tables.rows("compiled_kernels") <= 4, "{end}");
        noticed += usize::from(warnings(&dataset).iter().any(|(code, _)| *code == "truncated-log"));
    }
    assert!(noticed > whole.len() * 9 / 10, "{noticed} of {}", whole.len());
}
