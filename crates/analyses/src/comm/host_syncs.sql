--! question = "Does the host block right after it launches a collective?"
--! row = "one rank with communication on its devices: waits of the host right after the launch of a collective"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "device_idle_gaps", "runtime_calls"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no communicating kernel"
--! [columns]
--! rank = "rank"
--! sync_count = { doc = "calls that wait for the device and begin within 100 us after the launch of a collective on the same thread", unit = "count", metric = "rank" }
--! sync_bubble_ns = { doc = "idle from where the device drained under such a call to its next start", unit = "ns", metric = "rank" }
--! sync_bubble_ratio = { doc = "over the analyzed window of the device", unit = "ratio", metric = "rank" }
WITH communicating_ranks AS (
    SELECT w.rank
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.kind = 'communication' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
    GROUP BY w.rank
    HAVING sum(k.dur_ns) > 0
),
calls AS (
    SELECT rank, launch_thread AS thread, launch_end_ns AS ts_ns, 0 AS is_sync, CAST(NULL AS BIGINT) AS end_ns
    FROM device_work
    WHERE kind = 'communication' AND launch_thread IS NOT NULL
    UNION ALL
    SELECT rank, thread, ts_ns, 1, ts_ns + dur_ns FROM runtime_calls WHERE name LIKE '%Synchronize'
),
calls_after_launch AS (
    SELECT
        rank, ts_ns, end_ns, is_sync,
        ts_ns - running_max!(
            CASE WHEN is_sync = 0 THEN ts_ns END, PARTITION BY rank, thread ORDER BY ts_ns, is_sync
        ) AS since_launch_ns
    FROM calls
),
syncs AS (
    SELECT rank, ts_ns, end_ns FROM calls_after_launch WHERE is_sync = 1 AND since_launch_ns <= 100000
),
sync_counts AS (
    SELECT rank, count(*) AS sync_count FROM syncs GROUP BY rank
),
-- At one moment, calls start, then gaps, then calls end.
boundaries AS (
    SELECT rank, ts_ns, 0 AS turn, 1 AS delta, 0 AS sync_ns FROM syncs
    UNION ALL
    SELECT rank, end_ns, 2, -1, 0 FROM syncs
    UNION ALL
    SELECT rank, ts_ns, 1, 0, sync_ns FROM device_idle_gaps WHERE sync_ns > 0
),
gaps AS (
    SELECT rank, sync_ns, running_sum!(delta, PARTITION BY rank ORDER BY ts_ns, turn) AS open_sync_count
    FROM boundaries
),
bubbles AS (
    SELECT rank, sum_if!(sync_ns, open_sync_count > 0) AS sync_bubble_ns FROM gaps GROUP BY rank
),
windows AS (
    SELECT rank, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
)
SELECT
    r.rank,
    coalesce(c.sync_count, 0) AS sync_count,
    coalesce(b.sync_bubble_ns, 0) AS sync_bubble_ns,
    ratio!(coalesce(b.sync_bubble_ns, 0), w.window_ns) AS sync_bubble_ratio
FROM communicating_ranks r
JOIN windows w ON w.rank = r.rank
LEFT JOIN bubbles b ON b.rank = r.rank
LEFT JOIN sync_counts c ON c.rank = r.rank
