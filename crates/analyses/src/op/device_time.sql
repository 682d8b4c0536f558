--! question = "Which operators launch the most GPU time before the last step?"
--! row = "one operator by name on one rank, with what it launches"
--! window = "before_last_step"
--! sort = ["device_self_ns", "host_self_ns"]
--! needs = ["cpu_ops", "ranks", "device_activities"]
--! order = ["rank", "name"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no operators: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! name = "operator"
--! call_count = { doc = "calls", unit = "count", metric = "operator" }
--! host_total_ns = { doc = "time of all calls on the host; a call within a call of the same name counts in both", unit = "ns", metric = "operator" }
--! host_self_ns = { doc = "that time less what the operators, launching calls and Python frames within take", unit = "ns", metric = "operator" }
--! device_total_ns = { doc = "time of the kernels, copies and fills launched by the calls and by operators within them, overlap not merged", unit = "ns", metric = "operator" }
--! device_self_ns = { doc = "time of those launched by the calls themselves", unit = "ns", metric = "operator" }
--! launch_count = { doc = "kernels, copies and fills launched by the calls themselves", unit = "count", metric = "operator" }
-- On each host thread, the device time launched so far is summed up; what an operator and those within
-- it launch is that sum at its end less that at its start. At one moment operators end first, then they
-- start from the outside in; one without duration has nothing within.
WITH launched AS (
    SELECT rank, op, count(*) AS launch_count, sum(dur_ns) AS device_ns
    FROM device_activities
    WHERE op IS NOT NULL
    GROUP BY rank, op
),
ops AS (
    SELECT
        o.rank, o.event_id, o.name, o.thread, o.depth, o.ts_ns, o.dur_ns, o.self_dur_ns,
        coalesce(l.launch_count, 0) AS launch_count,
        coalesce(l.device_ns, 0) AS device_ns
    FROM cpu_ops o
    JOIN ranks r ON r.rank = o.rank
    LEFT JOIN launched l ON l.rank = o.rank AND l.op = o.event_id
    WHERE r.cut_ns IS NULL
        OR o.ts_ns < r.cut_ns
        OR ($include_last_step AND o.ts_ns <= r.steps_end_ns)
),
boundaries AS (
    SELECT
        rank, thread, ts_ns, 1 AS turn, depth, event_id, name,
        CASE WHEN dur_ns > 0 THEN -1 ELSE 0 END AS sign,
        1 AS calls, dur_ns, self_dur_ns, launch_count, device_ns
    FROM ops
    UNION ALL
    SELECT rank, thread, ts_ns + dur_ns, 0, depth, event_id, name, 1, 0, 0, 0, 0, 0
    FROM ops
    WHERE dur_ns > 0
),
running AS (
    SELECT
        rank, name, sign, calls, dur_ns, self_dur_ns, launch_count, device_ns,
        running_sum!(device_ns, PARTITION BY rank, thread ORDER BY ts_ns, turn, depth, event_id) AS so_far_ns
    FROM boundaries
)
SELECT
    rank, name,
    sum(calls) AS call_count,
    sum(dur_ns) AS host_total_ns,
    sum(self_dur_ns) AS host_self_ns,
    sum(sign * so_far_ns) + sum(device_ns) AS device_total_ns,
    sum(device_ns) AS device_self_ns,
    sum(launch_count) AS launch_count
FROM running
GROUP BY rank, name
