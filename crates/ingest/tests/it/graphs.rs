//! CUDA and HIP graphs: captures, replays, and which node each kernel of a replay is given.

use trace_model::Dataset;

use crate::support::{column, read_files, read_text, trace, warnings};

/// Calls of one host thread while a stream captures: begin, launches, end.
struct Capture {
    events: Vec<String>,
    ts: i64,
    correlation: i64,
}

impl Capture {
    /// A capture that starts at `ts`, inside of an annotation.
    fn new(annotation: &str, ts: i64) -> Self {
        let annotation = format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{annotation}","pid":1,"tid":1,"ts":{ts},"dur":900}}"#
        );
        let mut capture = Self { events: vec![annotation], ts: ts + 1, correlation: ts };
        capture.call("hipStreamBeginCapture", "");
        capture
    }

    fn call(&mut self, name: &str, more: &str) {
        let (ts, correlation) = (self.ts, self.correlation);
        self.events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":2,"args":{{"correlation":{correlation}{more}}}}}"#
        ));
        self.ts += 10;
        self.correlation += 1;
    }

    /// A captured kernel, launched by an operator with an input of this many rows.
    fn kernel(mut self, op: &str, rows: i64, kernel: Option<&str>) -> Self {
        let ts = self.ts - 2;
        self.events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{op}","pid":1,"tid":1,"ts":{ts},"dur":8,"args":{{"Input Dims":[[{rows},4]],"Input type":["float"]}}}}"#
        ));
        match kernel {
            Some(kernel) => self.call(
                "hipModuleLaunchKernel",
                &format!(r#","kernel":"{kernel}","grid":[{rows},1,1],"block":[64,1,1]"#),
            ),
            None => self.call("cudaLaunchKernel", ""),
        }
        self
    }

    fn end(mut self) -> String {
        self.call("hipStreamEndCapture", "");
        self.events.join(",")
    }
}

/// A graph launch at `ts` and its kernels, one after the other from 100 us later on.
fn replay(annotation: &str, ts: i64, kernels: &[&str]) -> String {
    let on_streams: Vec<(&str, i64)> = kernels.iter().map(|kernel| (*kernel, 7)).collect();
    replay_on(annotation, ts, &on_streams, false)
}

fn replay_on(annotation: &str, ts: i64, kernels: &[(&str, i64)], has_node_ids: bool) -> String {
    let correlation = ts + 500_000;
    let mut events = vec![
        format!(
            r#"{{"ph":"X","cat":"user_annotation","name":"{annotation}","pid":1,"tid":1,"ts":{ts},"dur":90}}"#
        ),
        format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"hipGraphLaunch","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{correlation}}}}}"#,
            ts + 1
        ),
    ];
    for (order, (kernel, stream)) in kernels.iter().enumerate() {
        let start = ts + 100 + 10 * order as i64;
        // Node ids count down, against the order of times.
        let ids = if has_node_ids {
            format!(r#","graph id":3,"graph node id":{}"#, 100 - order)
        } else {
            r#","graph id":0,"graph node id":0"#.to_owned()
        };
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{kernel}","pid":0,"tid":{stream},"ts":{start},"dur":9,"args":{{"correlation":{correlation},"device":0,"stream":{stream}{ids}}}}}"#
        ));
    }
    events.join(",")
}

fn read_events(events: &[String]) -> Dataset {
    read_text(trace(&events.join(","))).unwrap()
}

fn ops(dataset: &Dataset) -> Vec<String> {
    column(dataset, "kernels", "op_name")
}

fn confidence(dataset: &Dataset) -> Vec<String> {
    column(dataset, "graph_matches", "confidence")
}

#[test]
fn kernels_of_a_replay_get_the_operators_of_the_capture_in_the_same_trace() {
    let capture = Capture::new("capture_8", 0).kernel("aten::mm", 8, Some("gemm")).kernel(
        "aten::add",
        8,
        Some("add"),
    );
    let dataset = read_events(&[capture.end(), replay("execute_8", 2_000, &["gemm", "add"])]);
    assert_eq!(ops(&dataset), ["aten::mm", "aten::add"]);
    assert_eq!(column(&dataset, "kernels", "op"), ["-", "-"], "no operator of the trace ran then");
    assert_eq!(column(&dataset, "kernels", "graph_node"), ["0", "1"]);
    assert_eq!(confidence(&dataset), ["exact"]);
    assert_eq!(column(&dataset, "graph_nodes", "capture_name"), ["capture_8", "capture_8"]);
    assert_eq!(column(&dataset, "graph_nodes", "grid"), ["[8, 1, 1]", "[8, 1, 1]"]);
    assert_eq!(column(&dataset, "graph_nodes", "op"), ["-1", "-2"]);
    assert_eq!(column(&dataset, "captured_ops", "op"), ["-1", "-2"]);
    assert_eq!(column(&dataset, "captured_ops", "input_dims"), ["[[8, 4]]", "[[8, 4]]"]);
}

#[test]
fn captures_beside_a_trace_explain_its_replays() {
    let capture = trace(&Capture::new("capture_8", 0).kernel("aten::mm", 8, Some("gemm")).end());
    let events = replay("execute_8", 2_000, &["gemm"]);
    let run = trace(&events);
    for file in ["capture_traces/graph_capture_rank_0.json", "capture.json"] {
        let files: [(&str, &[u8]); 2] =
            [("trace.json", run.as_bytes()), (file, capture.as_bytes())];
        let dataset = read_files(&files).unwrap();
        assert_eq!(ops(&dataset), ["aten::mm"], "{file}");
        assert_eq!(column(&dataset, "graph_nodes", "file"), [file]);
        assert_eq!(
            column(&dataset, "cpu_ops", "name"),
            [""; 0],
            "the capture is not part of the timeline"
        );
        let formats: Vec<&str> = dataset.run.sources.iter().map(|s| s.format.as_ref()).collect();
        assert_eq!(formats, ["kineto", "graph capture"], "{file}");
        assert_eq!(dataset.run.ranks, [0]);
    }
}

/// A server launches each graph once after it has captured it.
#[test]
fn captures_that_launch_their_graphs_are_no_second_cycle() {
    let capture = Capture::new("capture_8", 0).kernel("aten::mm", 8, Some("gemm")).end();
    let tried = trace(&[capture, replay("warm_up", 1_000, &["gemm"])].join(","));
    let run = trace(&replay("execute_8", 900_000, &["gemm"]));
    let files: [(&str, &[u8]); 2] =
        [("trace.json", run.as_bytes()), ("capture_traces/rank_0.json", tried.as_bytes())];
    let dataset = read_files(&files).unwrap();
    assert_eq!(ops(&dataset), ["aten::mm"]);
    let formats: Vec<&str> = dataset.run.sources.iter().map(|s| s.format.as_ref()).collect();
    assert_eq!(formats, ["kineto", "graph capture"]);
    assert_eq!(warnings(&dataset), []);
    // Where no other trace needs captures, it is a timeline like others.
    let other = trace(r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":2}"#);
    let files: [(&str, &[u8]); 2] =
        [("rank0.json", other.as_bytes()), ("capture_rank1.json", tried.as_bytes())];
    assert_eq!(read_files(&files).unwrap().run.ranks, [0, 1]);
}

#[test]
fn captures_of_ranks_without_a_trace_are_skipped_with_a_warning() {
    let capture = trace(&Capture::new("capture_8", 0).kernel("aten::mm", 8, Some("gemm")).end());
    let run = trace(&replay("execute_8", 2_000, &["gemm"]));
    let files: [(&str, &[u8]); 2] =
        [("rank0.json", run.as_bytes()), ("graph_capture_rank3.json", capture.as_bytes())];
    let dataset = read_files(&files).unwrap();
    assert_eq!(ops(&dataset), ["-"]);
    assert_eq!(confidence(&dataset), ["none"]);
    assert_eq!(warnings(&dataset), [("unassigned-graph-capture", 1)]);
}

#[test]
fn a_trace_of_captures_alone_is_a_timeline() {
    let capture = Capture::new("capture_8", 0).kernel("aten::mm", 8, Some("gemm"));
    let dataset = read_events(&[capture.end()]);
    assert_eq!(column(&dataset, "cpu_ops", "name"), ["aten::mm"]);
    assert_eq!(column(&dataset, "graph_nodes", "op_name"), ["aten::mm"]);
    assert_eq!(confidence(&dataset), [""; 0]);
}

#[test]
fn the_annotation_around_the_launch_tells_captures_of_different_sizes_apart() {
    let small = Capture::new("capture_8_FULL", 0).kernel("aten::mm", 8, Some("gemm")).end();
    let large = Capture::new("capture_16_FULL", 1_000).kernel("aten::mm", 16, Some("gemm")).end();
    let dataset = read_events(&[
        small.clone(),
        large.clone(),
        replay("execute_16_context_0", 3_000, &["gemm"]),
        replay("execute_8_context_0", 4_000, &["gemm"]),
    ]);
    assert_eq!(column(&dataset, "graph_matches", "capture"), ["1", "0"]);
    assert_eq!(confidence(&dataset), ["exact", "exact"]);
    let dataset = read_events(&[small, large, replay("step", 3_000, &["gemm"])]);
    assert_eq!(confidence(&dataset), ["ambiguous"]);
    assert_eq!(ops(&dataset), ["aten::mm"], "the operator is the same in both");
}

#[test]
fn equal_captures_are_replayed_in_the_order_of_their_capture() {
    let layer = |ts| Capture::new("capture_8", ts).kernel("aten::mm", 8, Some("gemm")).end();
    let launch = |ts| replay("execute_8", ts, &["gemm"]);
    let dataset =
        read_events(&[layer(0), layer(1_000), launch(3_000), launch(4_000), launch(5_000)]);
    assert_eq!(column(&dataset, "graph_matches", "capture"), ["0", "1", "0"]);
    assert_eq!(confidence(&dataset), ["exact"; 3]);
}

#[test]
fn streams_of_a_graph_are_matched_by_name() {
    let capture = Capture::new("capture", 0)
        .kernel("aten::mm", 8, Some("gemm"))
        .kernel("aten::add", 8, Some("add"))
        .kernel("aten::mul", 8, Some("mul"));
    let kernels = [("add", 7), ("gemm", 8), ("mul", 7)];
    let dataset = read_events(&[capture.end(), replay_on("step", 2_000, &kernels, false)]);
    assert_eq!(ops(&dataset), ["aten::add", "aten::mm", "aten::mul"]);
    assert_eq!(confidence(&dataset), ["reordered"]);
}

#[test]
fn node_ids_give_the_order_of_the_capture() {
    let capture =
        Capture::new("capture", 0).kernel("aten::mm", 8, None).kernel("aten::add", 8, None);
    // Ran as add, gemm on two streams; ids say that gemm was captured first.
    let kernels = [("add", 7), ("gemm", 8)];
    let dataset = read_events(&[capture.end(), replay_on("step", 2_000, &kernels, true)]);
    assert_eq!(ops(&dataset), ["aten::add", "aten::mm"]);
    assert_eq!(confidence(&dataset), ["order"], "CUDA's launching calls state no names");
    assert_eq!(column(&dataset, "kernels", "graph_id"), ["3", "3"]);
    assert_eq!(column(&dataset, "kernels", "graph_node_id"), ["12884901988", "12884901987"]);
    assert_eq!(column(&dataset, "kernels", "args"), ["-", "-"]);
}

#[test]
fn captures_with_other_kernels_do_not_match() {
    let capture = || {
        Capture::new("capture", 0)
            .kernel("aten::mm", 8, Some("gemm"))
            .kernel("aten::add", 8, Some("add"))
            .kernel("aten::mul", 8, Some("mul"))
            .end()
    };
    let dataset = read_events(&[capture(), replay("step", 2_000, &["gemm", "copyBuffer", "mul"])]);
    assert_eq!(ops(&dataset), ["aten::mm", "-", "aten::mul"]);
    assert_eq!(confidence(&dataset), ["partial"]);
    assert_eq!(column(&dataset, "graph_matches", "matched_count"), ["2"]);
    let dataset = read_events(&[capture(), replay("step", 2_000, &["gemm", "x", "y"])]);
    assert_eq!(ops(&dataset), ["-", "-", "-"]);
    assert_eq!(confidence(&dataset), ["none"]);
    // Without names, the number of kernels must agree.
    let nameless = Capture::new("capture", 0).kernel("aten::mm", 8, None).end();
    let dataset = read_events(&[nameless, replay("step", 2_000, &["gemm", "add"])]);
    assert_eq!(confidence(&dataset), ["none"]);
}

#[test]
fn launches_outside_of_a_capture_and_captures_that_are_cut_off_do_not_count() {
    let mut capture = Capture::new("capture", 0).kernel("aten::mm", 8, Some("gemm"));
    capture.call("hipStreamEndCapture", "");
    let mut capture = capture.kernel("aten::add", 8, Some("add"));
    capture.call("hipStreamBeginCapture", "");
    let events = capture.kernel("aten::mul", 8, Some("mul")).events.join(",");
    let dataset = read_events(&[events]);
    assert_eq!(column(&dataset, "graph_nodes", "op_name"), ["aten::mm"]);
    assert_eq!(column(&dataset, "captured_ops", "name"), ["aten::mm"]);
}

#[test]
fn empty_captures_and_launches_without_kernels_are_fine() {
    let dataset = read_events(&[Capture::new("capture", 0).end(), replay("step", 2_000, &[])]);
    assert_eq!(column(&dataset, "graph_nodes", "capture"), [""; 0]);
    assert_eq!(confidence(&dataset), [""; 0]);
}
