--! question = "How much device time does each module take?"
--! row = "one module on one device of one rank; activities without a module are one row"
--! window = "recording"
--! sort = ["sum_ns"]
--! needs = ["work_origins", "graph_matches"]
--! order = ["rank", "device", "module"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal; -1 where the trace does not say"
--! module = "innermost nn.Module around the launch, or the module with which the program marked a graph node; absent for the rest"
--! activity_count = { doc = "kernels, copies and fills", unit = "count" }
--! kernel_count = { doc = "number of kernels among these", unit = "count" }
--! sum_ns = { doc = "total time of these activities, overlap not merged", unit = "ns" }
--! ratio = { doc = "share of the device's time", unit = "ratio" }
--! replay_ns = { doc = "part of sum_ns that graphs replay", unit = "ns" }
--! name = "kernel, copy or fill that takes the most of sum_ns"
WITH origins AS (
    SELECT o.rank, o.device, o.module, o.kind, o.name, o.dur_ns, m.launch AS replay
    FROM work_origins o
    LEFT JOIN graph_matches m ON m.rank = o.rank AND m.launch = o.launch
),
names AS (
    SELECT
        rank, device, module, name, count(*) AS activity_count, count_if!(kind = 'kernel') AS kernel_count,
        sum(dur_ns) AS sum_ns, sum_if!(dur_ns, replay IS NOT NULL) AS replay_ns
    FROM origins
    GROUP BY rank, device, module, name
),
modules AS (
    SELECT
        rank, device, module, sum(activity_count) AS activity_count, sum(kernel_count) AS kernel_count,
        sum(sum_ns) AS sum_ns, sum(replay_ns) AS replay_ns, first_value(name ORDER BY sum_ns DESC, name) AS name
    FROM names
    GROUP BY rank, device, module
)
SELECT
    rank, device, module, activity_count, kernel_count, sum_ns,
    ratio!(sum_ns, sum(sum_ns) OVER (PARTITION BY rank, device)) AS ratio,
    replay_ns, name
FROM modules
