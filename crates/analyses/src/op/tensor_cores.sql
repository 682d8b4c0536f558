--! question = "Which operators could use tensor cores, and do they?"
--! row = "one operator by name on one rank that launches device work, itself or through operators within it"
--! window = "before_last_step"
--! sort = ["eligible_self_ns"]
--! needs = ["cpu_ops", "ranks", "device_activities", "matmul_calls", "device_properties"]
--! order = ["rank", "name"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no device activity is linked to an operator (record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! name = "operator"
--! eligible = "yes: it launches, itself or through operators within, what the device can multiply on tensor cores, as it is or cast to 16 bit; no; unknown: only operators of other libraries or compiled regions launch anything"
--! device_total_ns = { doc = "as in op_device_time: time of the kernels, copies and fills launched by the calls and by operators within them, overlap not merged", unit = "ns", metric = "operator" }
--! device_self_ns = { doc = "time of those launched by the calls themselves", unit = "ns", metric = "operator" }
--! eligible_total_ns = { doc = "of device_total_ns, kernels launched by calls whose inputs the device can multiply on tensor cores, as they are or cast to 16 bit", unit = "ns", metric = "operator" }
--! eligible_self_ns = { doc = "of device_self_ns, those", unit = "ns", metric = "operator" }
--! used_total_ns = { doc = "of device_total_ns, kernels that multiply on tensor cores, by name", unit = "ns", metric = "operator" }
--! used_self_ns = { doc = "of device_self_ns, those", unit = "ns", metric = "operator" }
--! used_total_ratio = { doc = "used_total_ns over device_total_ns", unit = "ratio", metric = "operator" }
--! used_self_ratio = { doc = "used_self_ns over device_self_ns; absent for an operator that launches nothing itself", unit = "ratio", metric = "operator" }
-- As op_device_time: on each host thread, what was launched so far is summed up; what an operator and those
-- within it launch is that sum at its end less that at its start.
WITH launched AS (
    SELECT
        a.rank, a.op,
        sum(a.dur_ns) AS device_ns,
        sum_if!(a.dur_ns, a.tensor_cores = 'yes') AS used_ns,
        sum(CASE
            WHEN a.category <> 'kernel' OR NOT coalesce(d.has_tensor_cores, true) OR p.op IS NULL THEN 0
            WHEN p.input_type = 'integer' OR (p.input_type = 'fp64' AND NOT coalesce(d.has_fp64, false)) THEN 0
            ELSE a.dur_ns
        END) AS eligible_ns
    FROM device_activities a
    LEFT JOIN matmul_calls p ON p.rank = a.rank AND p.op = a.op
    LEFT JOIN device_properties d ON d.rank = a.rank AND d.device = a.device
    WHERE a.op IS NOT NULL
    GROUP BY a.rank, a.op
),
ops AS (
    SELECT
        o.rank, o.event_id, o.name, o.thread, o.depth, o.ts_ns, o.dur_ns,
        zero_for_missing!(l, (device_ns, used_ns, eligible_ns)),
        CASE WHEN o.name LIKE 'aten::%' OR o.name LIKE '%Backward_' THEN 0 ELSE coalesce(l.device_ns, 0) END AS foreign_ns
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
        device_ns, used_ns, eligible_ns, foreign_ns
    FROM ops
    UNION ALL
    SELECT rank, thread, ts_ns + dur_ns, 0, depth, event_id, name, 1, 0, 0, 0, 0
    FROM ops
    WHERE dur_ns > 0
),
running AS (
    SELECT
        rank, name, sign, device_ns, used_ns, eligible_ns, foreign_ns,
        sum(device_ns) OVER w AS devices_ns,
        sum(used_ns) OVER w AS useds_ns,
        sum(eligible_ns) OVER w AS eligibles_ns,
        sum(foreign_ns) OVER w AS foreigns_ns
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, thread ORDER BY ts_ns, turn, depth, event_id)
),
sums AS (
    SELECT
        rank, name,
        sum(sign * devices_ns) + sum(device_ns) AS device_total_ns,
        sum(device_ns) AS device_self_ns,
        sum(sign * eligibles_ns) + sum(eligible_ns) AS eligible_total_ns,
        sum(eligible_ns) AS eligible_self_ns,
        sum(sign * useds_ns) + sum(used_ns) AS used_total_ns,
        sum(used_ns) AS used_self_ns,
        sum(sign * foreigns_ns) + sum(foreign_ns) AS foreign_total_ns
    FROM running
    GROUP BY rank, name
)
SELECT
    rank, name,
    CASE
        WHEN eligible_total_ns + used_total_ns > 0 THEN 'yes'
        WHEN foreign_total_ns > 0 THEN 'unknown'
        ELSE 'no'
    END AS eligible,
    device_total_ns, device_self_ns, eligible_total_ns, eligible_self_ns, used_total_ns, used_self_ns,
    ratio!(used_total_ns, device_total_ns) AS used_total_ratio,
    ratio!(used_self_ns, device_self_ns) AS used_self_ratio
FROM sums
WHERE device_total_ns > 0
