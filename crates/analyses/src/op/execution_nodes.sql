--! question = "Which node of the execution trace does each operator call belong to?"
--! row = "one operator or annotation with its node in the execution trace"
--! window = "recording"
--! needs = ["cpu_ops", "annotations", "execution_nodes"]
--! order = ["rank", "ts_ns", "event_id"]
--! requires = ["execution_trace"]
--! when_empty = "no execution trace (torch.profiler.ExecutionTraceObserver) was recorded together with the profiler's trace"
--! [columns]
--! rank = "rank"
--! event_id = "host event"
--! name = "operator or annotation"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! step = "step it starts in"
--! node_id = "node of the execution trace"
--! parent_node_id = "enclosing node"
--! fw_parent = "node of the forward call, on backward operators"
--! op_schema = "signature of the operator"
--! input_shapes = "shape of each input, JSON"
--! input_types = "type of each input, JSON"
--! output_shapes = "shape of each output, JSON"
--! output_types = "type of each output, JSON"
--! kernel_backend = "generator of the kernel: triton"
--! kernel_file = "file of the generated kernel"
WITH host AS (
    SELECT rank, event_id, name, ts_ns, dur_ns, step FROM cpu_ops
    UNION ALL
    SELECT rank, event_id, name, ts_ns, dur_ns, step FROM annotations WHERE NOT on_device
)
SELECT
    h.rank,
    h.event_id,
    h.name,
    h.ts_ns,
    h.dur_ns,
    h.step,
    n.node_id,
    n.parent AS parent_node_id,
    n.fw_parent,
    n.op_schema,
    n.input_shapes,
    n.input_types,
    n.output_shapes,
    n.output_types,
    n.kernel_backend,
    n.kernel_file
FROM host h
JOIN execution_nodes n ON n.rank = h.rank AND n.event_id = h.event_id
