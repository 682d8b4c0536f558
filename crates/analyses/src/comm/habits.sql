--! row = "one rank with communication on its devices: how the program calls it"
--! scope = "run"
--! needs = ["device_work", "device_windows", "device_gaps", "comm_collectives", "comm_exposed", "runtime_calls", "annotations", "cpu_ops", "device_steps"]
--! order = ["rank"]
--! when_empty = "the trace holds no communicating kernel"
--! [columns]
--! rank = "rank"
--! comm_ns = { doc = "durations of communicating kernels in the window, added up", unit = "ns", metric = "rank" }
--! shared_ns = { doc = "of these, on streams that also run a tenth or more of the computation of the device", unit = "ns", metric = "rank" }
--! shared_ratio = { doc = "share of comm_ns; absent if no stream is known", unit = "ratio", metric = "rank" }
--! exposed_ratio = { doc = "share of the window in which communication goes on and computation does not, see comm_exposed", unit = "ratio", metric = "rank" }
--! sync_count = { doc = "calls that wait for the device and begin within 100 us after the launch of a collective on the same thread", unit = "count", metric = "rank" }
--! sync_bubble_ns = { doc = "idle from where the device drained under such a call to its next start", unit = "ns", metric = "rank" }
--! sync_bubble_ratio = { doc = "over the analysed window of the device", unit = "ratio", metric = "rank" }
--! forward_count = { doc = "forward passes of DistributedDataParallel in complete steps", unit = "count", metric = "rank" }
--! update_count = { doc = "calls of Optimizer.step in complete steps", unit = "count", metric = "rank" }
--! accumulation = { doc = "forward passes an update of the parameters; absent without either", unit = "number", metric = "rank" }
--! reduction_count = { doc = "all_reduce and reduce_scatter of the backward pass in complete steps", unit = "count", metric = "rank" }
--! redundant_ratio = { doc = "share of the window that reducing gradients once an update would save: exposed_ratio times 1 - 1/accumulation, if every backward pass reduces; else 0", unit = "ratio", metric = "rank" }
WITH kernels AS (
    SELECT w.rank, w.device, k.stream, k.kind, k.dur_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
streams AS (
    SELECT
        rank, device, stream,
        sum_if!(dur_ns, kind = 'communication') AS comm_ns,
        sum_if!(dur_ns, kind = 'computation') AS computing_ns
    FROM kernels
    GROUP BY rank, device, stream
),
totals AS (
    SELECT
        *, sum(computing_ns) OVER (PARTITION BY rank, device) AS device_computing_ns
    FROM streams
),
shared AS (
    SELECT
        rank,
        sum(comm_ns) AS comm_ns,
        sum_if!(comm_ns, computing_ns >= 0.1 * device_computing_ns AND computing_ns > 0) AS shared_ns,
        bool_or(stream >= 0) AS has_streams
    FROM totals
    GROUP BY rank
    HAVING sum(comm_ns) > 0
),
launches AS (
    SELECT rank, launch_thread AS thread, launch_end_ns AS ts_ns, 0 AS is_sync, CAST(NULL AS BIGINT) AS end_ns
    FROM device_work
    WHERE kind = 'communication' AND launch_thread IS NOT NULL
    UNION ALL
    SELECT rank, thread, ts_ns, 1, ts_ns + dur_ns FROM runtime_calls WHERE name LIKE '%Synchronize'
),
after AS (
    SELECT
        rank, ts_ns, end_ns, is_sync,
        ts_ns - running_max!(CASE WHEN is_sync = 0 THEN ts_ns END, PARTITION BY rank, thread ORDER BY ts_ns, is_sync) AS since_ns
    FROM launches
),
syncs AS (
    SELECT rank, ts_ns, end_ns FROM after WHERE is_sync = 1 AND since_ns <= 100000
),
points AS (
    SELECT rank, ts_ns, 0 AS turn, 1 AS delta, 0 AS sync_ns FROM syncs
    UNION ALL
    SELECT rank, end_ns, 2, -1, 0 FROM syncs
    UNION ALL
    SELECT rank, ts_ns, 1, 0, sync_ns FROM device_gaps WHERE sync_ns > 0
),
open AS (
    SELECT rank, sync_ns, running_sum!(delta, PARTITION BY rank ORDER BY ts_ns, turn) AS syncing
    FROM points
),
bubbles AS (
    SELECT rank, sum_if!(sync_ns, syncing > 0) AS sync_bubble_ns FROM open GROUP BY rank
),
sync_counts AS (
    SELECT rank, count(*) AS sync_count FROM syncs GROUP BY rank
),
steps AS (
    SELECT rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns FROM device_steps GROUP BY rank
),
passes AS (
    SELECT
        a.rank,
        count_if!(a.name = 'DistributedDataParallel.forward') AS forward_count,
        count_if!(a.name LIKE 'Optimizer.step%') AS update_count,
        count(DISTINCT CASE WHEN a.name LIKE 'Optimizer.step%' THEN a.name END) AS optimizer_count
    FROM (
        SELECT rank, name, ts_ns FROM annotations WHERE NOT on_device
        UNION ALL
        SELECT rank, name, ts_ns FROM cpu_ops WHERE name = 'DistributedDataParallel.forward' OR name LIKE 'Optimizer.step%'
    ) a
    JOIN steps s ON s.rank = a.rank
    WHERE (a.name = 'DistributedDataParallel.forward' OR a.name LIKE 'Optimizer.step%') AND a.ts_ns >= s.start_ns AND a.ts_ns < s.end_ns
    GROUP BY a.rank
),
reductions AS (
    SELECT rank, count(*) AS reduction_count
    FROM comm_collectives
    WHERE name IN ('all_reduce', 'reduce_scatter') AND phase = 'backward'
    GROUP BY rank
),
device_spans AS (
    SELECT rank, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
)
SELECT
    s.rank, s.comm_ns, s.shared_ns,
    CASE WHEN s.has_streams THEN ratio!(s.shared_ns, s.comm_ns) END AS shared_ratio,
    e.exposed_ratio,
    coalesce(c.sync_count, 0) AS sync_count,
    coalesce(b.sync_bubble_ns, 0) AS sync_bubble_ns,
    ratio!(coalesce(b.sync_bubble_ns, 0), d.window_ns) AS sync_bubble_ratio,
    coalesce(p.forward_count, 0) AS forward_count,
    coalesce(p.update_count, 0) AS update_count,
    CAST(nullif(p.forward_count, 0) AS DOUBLE) * p.optimizer_count / nullif(p.update_count, 0) AS accumulation,
    coalesce(r.reduction_count, 0) AS reduction_count,
    CASE
        WHEN p.forward_count * p.optimizer_count >= 2 * p.update_count AND r.reduction_count >= p.forward_count
            THEN e.exposed_ratio * (1 - CAST(p.update_count AS DOUBLE) / (p.forward_count * p.optimizer_count))
        ELSE 0
    END AS redundant_ratio
FROM shared s
JOIN device_spans d ON d.rank = s.rank
LEFT JOIN comm_exposed e ON e.rank = s.rank
LEFT JOIN bubbles b ON b.rank = s.rank
LEFT JOIN sync_counts c ON c.rank = s.rank
LEFT JOIN passes p ON p.rank = s.rank
LEFT JOIN reductions r ON r.rank = s.rank
