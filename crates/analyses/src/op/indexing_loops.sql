--! question = "Do Python loops index tensors element by element?"
--! row = "one rank: loops that index tensors element by element"
--! window = "counted_steps"
--! needs = ["cpu_ops", "device_idle_gaps", "device_windows", "ranks"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! loop_count = { doc = "runs of 10 or more calls of aten::select on one thread, each within 200 us of the end of the one before", unit = "count", metric = "rank" }
--! select_count = { doc = "calls in them", unit = "count", metric = "rank" }
--! longest_count = { doc = "calls in the longest", unit = "count", metric = "rank" }
--! loop_ns = { doc = "from the first call to the end of the last, added up", unit = "ns", metric = "rank" }
--! idle_ns = { doc = "while one goes on and no device of the rank runs anything, without gaps most of which no fix returns (see unattributed_ns of gpu_idle_causes)", unit = "ns", metric = "rank" }
--! idle_ratio = { doc = "over the analyzed window of the device; absent without a device", unit = "ratio", metric = "rank" }
--! source = "line of the longest, where the trace has stacks"
WITH selects AS (
    SELECT
        rank, thread, ts_ns, ts_ns + dur_ns AS end_ns, source,
        lag(ts_ns + dur_ns) OVER (PARTITION BY rank, thread ORDER BY ts_ns) AS before_ns
    FROM cpu_ops
    WHERE name = 'aten::select'
),
numbered AS (
    SELECT
        *,
        running_sum!(CASE WHEN before_ns IS NULL OR ts_ns - before_ns > 200000 THEN 1 ELSE 0 END, PARTITION BY rank,
            thread ORDER BY ts_ns) AS run
    FROM selects
),
loops AS (
    SELECT rank, thread, run, min(ts_ns) AS ts_ns, max(end_ns) AS end_ns, count(*) AS select_count, min(source) AS source
    FROM numbered
    GROUP BY rank, thread, run
    HAVING count(*) >= 10
),
counts AS (
    SELECT
        rank, count(*) AS loop_count, sum(select_count) AS select_count, max(select_count) AS longest_count, sum(end_ns - ts_ns) AS loop_ns,
        first_value(source ORDER BY select_count DESC, ts_ns) AS source
    FROM loops
    GROUP BY rank
),
windows_of_rank AS (
    SELECT rank, count(*) AS device_count, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
),
intervals AS (
    SELECT rank, ts_ns, end_ns, 1 AS looping, 0 AS idles FROM loops
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, 1 FROM device_idle_gaps
    WHERE 2 * unlinked_ns <= dur_ns AND rank IN (SELECT DISTINCT rank FROM loops)
),
running AS (
    overlap_counts!(intervals, (rank), (looping, idles))
),
idle AS (
    SELECT r.rank, sum_if!(r.dur_ns, r.looping > 0 AND r.idles = s.device_count) AS idle_ns
    FROM running r
    JOIN windows_of_rank s ON s.rank = r.rank
    GROUP BY r.rank
),
ranks_with_host AS (
    SELECT DISTINCT rank FROM cpu_ops
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    zero_for_missing!(c, (loop_count, select_count, longest_count, loop_ns)),
    coalesce(i.idle_ns, 0) AS idle_ns,
    CASE WHEN s.rank IS NOT NULL THEN ratio!(coalesce(i.idle_ns, 0), s.window_ns) END AS idle_ratio,
    c.source
FROM ranks r
LEFT JOIN counts c ON c.rank = r.rank
LEFT JOIN idle i ON i.rank = r.rank
LEFT JOIN windows_of_rank s ON s.rank = r.rank
LEFT JOIN ranks_with_host h ON h.rank = r.rank
WHERE r.vendor IS NOT NULL
