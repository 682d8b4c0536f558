--! question = "Which nodes of a captured graph take the most time?"
--! row = "one captured kernel, copy or fill, over all replays of its capture; for activity without a captured node, one name"
--! window = "recording"
--! sort = ["sum_ns"]
--! needs = ["work_origins", "graph_matches", "graph_nodes", "captured_ops"]
--! order = ["rank", "capture", "node_order", "name", "kind"]
--! when_empty = "no CUDA or HIP graph is launched"
--! [columns]
--! rank = "rank"
--! capture = "capture, see graph_nodes; absent for activity without a captured node"
--! capture_name = "innermost host annotation around the capture"
--! node_order = "position in the capture, from 0"
--! kind = "kernel, copy or fill"
--! name = "name of the kernel, copy or fill"
--! op_name = "operator that was captured"
--! input_dims = "shape of each input of that operator, JSON"
--! module = "innermost nn.Module around it"
--! source = "line of the program"
--! call_count = { doc = "executions, one for each replay", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged; over all rows of a rank that of all its replays", unit = "ns" }
--! mean_ns = { doc = "mean duration", unit = "ns" }
--! ratio = { doc = "share of the time of all replays of the rank", unit = "ratio" }
WITH sums AS (
    SELECT
        a.rank, a.graph_node, a.kind, a.name, count(*) AS call_count, sum(a.dur_ns) AS sum_ns,
        avg(CAST(a.dur_ns AS DOUBLE)) AS mean_ns
    FROM work_origins a
    JOIN graph_matches m ON m.rank = a.rank AND m.launch = a.launch
    GROUP BY a.rank, a.graph_node, a.kind, a.name
)
SELECT
    s.rank, n.capture, n.capture_name, n.node_order, s.kind, s.name, n.op_name, o.input_dims, n.module, n.source,
    s.call_count, s.sum_ns, s.mean_ns,
    ratio!(s.sum_ns, sum(s.sum_ns) OVER (PARTITION BY s.rank)) AS ratio
FROM sums s
LEFT JOIN graph_nodes n ON n.rank = s.rank AND n.node_id = s.graph_node
LEFT JOIN captured_ops o ON o.rank = n.rank AND o.op = n.op
