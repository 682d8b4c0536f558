--! question = "Which captured operators take the time of graph replays?"
--! row = "one operator with the shapes of its inputs, in one module, over all replays of a rank; the operator is absent for activity without a captured node"
--! window = "recording"
--! sort = ["sum_ns"]
--! needs = ["work_origins", "graph_matches", "graph_nodes", "captured_ops"]
--! order = ["rank", "op_name", "module", "input_dims", "input_types"]
--! when_empty = "no CUDA or HIP graph is launched"
--! [columns]
--! rank = "rank"
--! op_name = "operator that was captured"
--! module = "innermost nn.Module around it"
--! input_dims = "shape of each input, JSON"
--! input_types = "type of each input, JSON"
--! call_count = { doc = "calls: those of the capture, times its replays; 0 for activity without an operator", unit = "count" }
--! kernel_count = { doc = "kernels, copies and fills that ran", unit = "count" }
--! sum_ns = { doc = "their time, overlap not merged; over all rows of a rank that of all its replays", unit = "ns" }
--! ratio = { doc = "share of the time of all replays of the rank", unit = "ratio" }
WITH replayed AS (
    SELECT
        a.rank, a.launch, n.op, n.op_name, n.module, o.input_dims, o.input_types,
        count(*) AS kernel_count, sum(a.dur_ns) AS sum_ns
    FROM work_origins a
    JOIN graph_matches m ON m.rank = a.rank AND m.launch = a.launch
    LEFT JOIN graph_nodes n ON n.rank = a.rank AND n.node_id = a.graph_node
    LEFT JOIN captured_ops o ON o.rank = n.rank AND o.op = n.op
    GROUP BY a.rank, a.launch, n.op, n.op_name, n.module, o.input_dims, o.input_types
),
sums AS (
    SELECT
        rank, op_name, module, input_dims, input_types, count(op) AS call_count, sum(kernel_count) AS kernel_count,
        sum(sum_ns) AS sum_ns
    FROM replayed
    GROUP BY rank, op_name, module, input_dims, input_types
)
SELECT
    rank, op_name, module, input_dims, input_types, call_count, kernel_count, sum_ns,
    ratio!(sum_ns, sum(sum_ns) OVER (PARTITION BY rank)) AS ratio
FROM sums
