--! question = "How much device time has a known operator, source line and graph node?"
--! row = "one device of one rank"
--! window = "recording"
--! needs = ["work_origins", "graph_matches", "device_work"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal; -1 where the trace does not say"
--! sum_ns = { doc = "time of all kernels, copies and fills, overlap not merged", unit = "ns" }
--! busy_ns = { doc = "the same, overlap merged", unit = "ns" }
--! operator_ns = { doc = "part of sum_ns with a known operator", unit = "ns" }
--! operator_ratio = { doc = "its share", unit = "ratio" }
--! source_ns = { doc = "part of sum_ns with a known source line", unit = "ns" }
--! source_ratio = { doc = "its share", unit = "ratio" }
--! module_ns = { doc = "part of sum_ns with a known nn.Module", unit = "ns" }
--! module_ratio = { doc = "its share", unit = "ratio" }
--! replay_ns = { doc = "part of sum_ns that graphs replay", unit = "ns" }
--! replay_node_ns = { doc = "part of replay_ns with a known node of a capture", unit = "ns" }
--! replay_node_ratio = { doc = "its share", unit = "ratio" }
--! unowned_ns = { doc = "part of sum_ns with neither an operator nor a source line", unit = "ns" }
--! unowned_ratio = { doc = "its share", unit = "ratio" }
WITH sums AS (
    SELECT
        a.rank, a.device, sum(a.dur_ns) AS sum_ns,
        sum_if!(a.dur_ns, a.op_name IS NOT NULL) AS operator_ns,
        sum_if!(a.dur_ns, a.source IS NOT NULL) AS source_ns,
        sum_if!(a.dur_ns, a.module IS NOT NULL) AS module_ns,
        sum_if!(a.dur_ns, m.launch IS NOT NULL) AS replay_ns,
        sum_if!(a.dur_ns, a.graph_node IS NOT NULL) AS replay_node_ns,
        sum_if!(a.dur_ns, a.op_name IS NULL AND a.source IS NULL) AS unowned_ns
    FROM work_origins a
    LEFT JOIN graph_matches m ON m.rank = a.rank AND m.launch = a.launch
    GROUP BY a.rank, a.device
),
ordered AS (
    SELECT
        rank, device, ts_ns, end_ns,
        max_before!(end_ns, PARTITION BY rank, device ORDER BY ts_ns, end_ns, event_id) AS until_ns
    FROM device_work
),
busy AS (
    SELECT rank, device, sum(greatest(0, end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)))) AS busy_ns
    FROM ordered
    GROUP BY rank, device
)
SELECT
    s.rank, s.device, s.sum_ns, b.busy_ns, s.operator_ns, ratio!(s.operator_ns, s.sum_ns) AS operator_ratio,
    s.source_ns, ratio!(s.source_ns, s.sum_ns) AS source_ratio, s.module_ns, ratio!(s.module_ns, s.sum_ns) AS module_ratio,
    s.replay_ns, s.replay_node_ns, ratio!(s.replay_node_ns, s.replay_ns) AS replay_node_ratio,
    s.unowned_ns, ratio!(s.unowned_ns, s.sum_ns) AS unowned_ratio
FROM sums s
LEFT JOIN busy b ON b.rank = s.rank AND b.device = s.device
