//! CUDA and HIP graphs: what streams captured, and which capture each launch of a graph replays.
//!
//! Operators run when a graph is captured, not when it is replayed. These tables lead from the kernels of a replay back to
//! the operators of the capture, which lies in the same trace or in a trace of its own beside it.

use super::table;

table! {
    GraphNodes / GraphNode = "graph_nodes", "one kernel, copy or fill that a stream captured into a CUDA or HIP graph";
    rank: I32, None, "rank";
    node_id: I64, None, "number of the node, from 0; together with the rank it identifies a node";
    capture: I64, None, "number of the capture, from 0, in the order of files and times";
    capture_name: DictColumn, None, "innermost host annotation around the start of the capture";
    file: DictColumn, None, "trace that holds the capture";
    node_order: I64, None, "position in the capture, from 0, by the time of the launching call";
    kind: DictColumn, None, "kernel, copy or fill";
    name: DictColumn, None, "kernel name; null where the launching call does not state it (CUDA)";
    grid: DictColumn, None, "grid size in x, y and z, where the launching call states it";
    block: DictColumn, None, "threads per block in x, y and z, where the launching call states it";
    launch_name: DictColumn, None, "function that was captured";
    op: OptI64, None, "operator that called it, see captured_ops";
    op_name: DictColumn, None, "name of that operator";
    module: DictColumn, None, "innermost nn.Module around the call";
    python_frame: DictColumn, None, "innermost Python frame around the call";
    source: DictColumn, None, "source line of the call; see cpu_ops";
}

table! {
    CapturedOps / CapturedOp = "captured_ops", "one operator call during the capture of a graph: its kernels run when the graph is launched";
    rank: I32, None, "rank";
    op: I64, None, "number of the call, from -1 downward, so that it differs from that of every event";
    capture: I64, None, "capture, see graph_nodes";
    name: DictColumn, None, "operator";
    ts_ns: I64, Ns, "start";
    dur_ns: I64, Ns, "duration, children included";
    thread: I32, None, "thread, from -1 downward: calls of one thread nest by time";
    sequence: OptI64, None, "autograd sequence number, shared by forward and backward";
    fwd_thread: OptI64, None, "thread of the forward call, on backward operators";
    input_dims: DictColumn, None, "input shapes, JSON";
    input_types: DictColumn, None, "input types, JSON";
    args: Text, None, "other arguments, JSON";
}

table! {
    GraphMatches / GraphMatch = "graph_matches", "one launch of a CUDA or HIP graph, with the capture that it replays";
    rank: I32, None, "rank";
    launch: I64, None, "launching call, see runtime_calls";
    capture: OptI64, None, "capture, see graph_nodes; null if none fits";
    confidence: DictColumn, None, "exact: names and order of all kernels agree; reordered: their names agree, as in graphs with several streams; partial: names of at least half of them agree; order: the capture states no names, kinds and order agree; ambiguous: several captures with different shapes fit equally; none";
    activity_count: I64, Count, "kernels, copies and fills of the replay";
    matched_count: I64, Count, "those with a node of the capture";
}

table! {
    GraphEdges / GraphEdge = "graph_edges", "one dependency between two kernels, copies or fills of one replay of a graph, as the profiler states it (Cuspy, with enable_graph_dependencies)";
    rank: I32, None, "rank";
    source: I64, None, "activity that must end first";
    target: I64, None, "activity that starts after it; event records and host functions between the two are left out";
    is_complete: Flag, None, "all dependencies of the target are known; otherwise it may also depend on other activities";
}
