--! question = "Which kernels does each operator launch?"
--! row = "one sequence of kernels that calls of one operator launch on one rank"
--! window = "before_last_step"
--! sort = ["device_ns"]
--! needs = ["device_activities", "cpu_ops"]
--! order = ["rank", "name", "kernel_sequence"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no kernel has both its launching call and its operator in the trace"
--! [columns]
--! rank = "rank"
--! name = "operator: the innermost one around the launches"
--! kernel_sequence = "kernels in the order of their launches, ' -> ' between them"
--! kernel_count = { doc = "kernels in the sequence", unit = "count" }
--! call_count = { doc = "calls of the operator that launch just this sequence", unit = "count" }
--! device_ns = { doc = "time of all these kernels, overlap not merged", unit = "ns" }
--! mean_launch_delay_ns = { doc = "mean time from the start of the operator to the start of its first launching call", unit = "ns" }
--! mean_runtime_delay_ns = { doc = "mean time from the start of that call to the start of the first kernel", unit = "ns" }
-- Launches of graphs are left out, as in kernel_launch_stats.
WITH launches AS (
    SELECT
        rank, op, op_name, name, ts_ns, dur_ns, launch_ts_ns,
        row_number() OVER (PARTITION BY rank, op ORDER BY launch_ts_ns, ts_ns, event_id) AS place
    FROM device_activities
    WHERE category = 'kernel' AND op IS NOT NULL AND launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
),
calls AS (
    SELECT
        rank, op,
        min(op_name) AS name,
        string_agg(name, ' -> ' ORDER BY place) AS kernel_sequence,
        count(*) AS kernel_count,
        sum(dur_ns) AS device_ns,
        min(launch_ts_ns) AS launch_ts_ns,
        min(CASE WHEN place = 1 THEN ts_ns END) AS kernel_ts_ns
    FROM launches
    GROUP BY rank, op
)
SELECT
    c.rank, c.name, c.kernel_sequence, c.kernel_count,
    count(*) AS call_count,
    sum(c.device_ns) AS device_ns,
    avg(CAST(c.launch_ts_ns - o.ts_ns AS DOUBLE)) AS mean_launch_delay_ns,
    avg(CAST(c.kernel_ts_ns - c.launch_ts_ns AS DOUBLE)) AS mean_runtime_delay_ns
FROM calls c
JOIN cpu_ops o ON o.rank = c.rank AND o.event_id = c.op
GROUP BY c.rank, c.name, c.kernel_sequence, c.kernel_count
