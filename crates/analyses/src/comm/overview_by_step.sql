--! question = "How do computation and communication share each step?"
--! row = "one complete step of one rank that communicates"
--! window = "counted_steps"
--! needs = ["device_steps", "device_work", "comm_collectives", "cpu_ops", "annotations"]
--! order = ["rank", "step"]
--! when_empty = "the trace holds no complete step, or no communication in it: neither a kernel of a communication library nor a collective that the host runs (gloo, MPI)"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! step_ns = { doc = "length of the step, extended to the device work it launched", unit = "ns", metric = "step" }
--! computation_ns = { doc = "computes and does not communicate: kernels; on a rank without kernels, what operators and annotations of the host cover", unit = "ns", metric = "step" }
--! overlap_ns = { doc = "computes and communicates", unit = "ns", metric = "step" }
--! communication_ns = { doc = "communicates and does not compute: kernels of communication libraries, and collectives that the host runs (gloo, MPI)", unit = "ns", metric = "step" }
--! other_ns = { doc = "neither; the four add up to step_ns", unit = "ns", metric = "step" }
--! computation_ratio = { doc = "share of the step", unit = "ratio", metric = "step" }
--! overlap_ratio = { doc = "share of the step", unit = "ratio", metric = "step" }
--! communication_ratio = { doc = "share of the step", unit = "ratio", metric = "step" }
--! other_ratio = { doc = "share of the step", unit = "ratio", metric = "step" }
--! computes_on = "device or host: where computation was looked for"
-- The chart of TensorBoard's plugin. There, kernels of NCCL count as computation.
WITH ranks_without_kernels AS (
    SELECT DISTINCT rank FROM device_steps
    EXCEPT
    SELECT DISTINCT rank FROM device_work WHERE category = 'kernel'
),
run_on_host AS (
    SELECT rank, event_id, ts_ns, ts_ns + dur_ns AS end_ns FROM comm_collectives WHERE timed_on = 'host'
),
communicating AS (
    SELECT rank, ts_ns, end_ns FROM device_work WHERE kind = 'communication'
    UNION ALL
    SELECT rank, ts_ns, end_ns FROM run_on_host
),
intervals AS (
    SELECT rank, ts_ns, end_ns, 1 AS computing, 0 AS communicating, 0 AS step_plus_1
    FROM device_work
    WHERE kind = 'computation'
    UNION ALL
    SELECT c.rank, c.ts_ns, c.ts_ns + c.dur_ns, 1, 0, 0
    FROM cpu_ops c
    JOIN ranks_without_kernels h ON h.rank = c.rank
    LEFT ANTI JOIN run_on_host k ON k.rank = c.rank AND k.event_id = c.event_id
    WHERE c.name NOT LIKE 'ProfilerStep#%'
    UNION ALL
    SELECT a.rank, a.ts_ns, a.ts_ns + a.dur_ns, 1, 0, 0
    FROM annotations a
    JOIN ranks_without_kernels h ON h.rank = a.rank
    LEFT ANTI JOIN run_on_host k ON k.rank = a.rank AND k.event_id = a.event_id
    WHERE NOT a.on_device
        AND a.name NOT LIKE 'ProfilerStep#%'
        AND a.name NOT LIKE 'enumerate(Data%'
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, 1, 0 FROM communicating
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, 0, step + 1 FROM device_steps
),
running AS (
    overlap_counts!(intervals, (rank), (computing, communicating, step_plus_1))
),
sums AS (
    SELECT
        rank, step_plus_1 - 1 AS step,
        sum(dur_ns) AS step_ns,
        sum_if!(dur_ns, computing > 0 AND communicating = 0) AS computation_ns,
        sum_if!(dur_ns, computing > 0 AND communicating > 0) AS overlap_ns,
        sum_if!(dur_ns, computing = 0 AND communicating > 0) AS communication_ns,
        sum_if!(dur_ns, computing = 0 AND communicating = 0) AS other_ns
    FROM running
    WHERE dur_ns > 0 AND step_plus_1 > 0
    GROUP BY rank, step_plus_1
)
SELECT
    s.rank, s.step, s.step_ns, s.computation_ns, s.overlap_ns, s.communication_ns, s.other_ns,
    CAST(s.computation_ns AS DOUBLE) / s.step_ns AS computation_ratio,
    CAST(s.overlap_ns AS DOUBLE) / s.step_ns AS overlap_ratio,
    CAST(s.communication_ns AS DOUBLE) / s.step_ns AS communication_ratio,
    CAST(s.other_ns AS DOUBLE) / s.step_ns AS other_ratio,
    CASE WHEN h.rank IS NULL THEN 'device' ELSE 'host' END AS computes_on
FROM sums s
JOIN (SELECT DISTINCT rank FROM communicating) c ON c.rank = s.rank
LEFT JOIN ranks_without_kernels h ON h.rank = s.rank
