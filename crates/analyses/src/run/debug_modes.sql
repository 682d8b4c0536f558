--! question = "Do print calls or anomaly detection slow the run down?"
--! row = "one rank: calls of print, and searches of gradients for NaN in autograd's anomaly mode"
--! window = "counted_steps"
--! needs = ["ranks", "cpu_ops", "python_frames", "step_extents", "device_idle_gaps", "device_windows", "kernels"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_stacks = "Python frames were recorded (with_stack=True)"
--! steps_ns = { doc = "time of complete steps, with the device work that they launched; of the recording where there are none", unit = "ns", metric = "rank" }
--! print_count = { doc = "calls of print; absent without stacks", unit = "count", metric = "rank" }
--! print_ns = { doc = "their time; absent without stacks", unit = "ns", metric = "rank" }
--! print_ratio = { doc = "share of steps_ns; absent without stacks", unit = "ratio", metric = "rank" }
--! nan_search_count = { doc = "functions of autograd's engine that search gradients for NaN and read the answer (anomaly mode)", unit = "count", metric = "rank" }
--! nan_search_ns = { doc = "kernels that these searches launch, and idle from where the device drained under their reads to its next start; without kernels, their time on the host", unit = "ns", metric = "rank" }
--! nan_search_ratio = { doc = "over the analyzed window of the device; without kernels, over steps_ns", unit = "ratio", metric = "rank" }
WITH prints AS (
    SELECT f.rank, count(*) AS print_count, sum(f.dur_ns) AS print_ns
    FROM python_frames f
    JOIN step_extents e ON e.rank = f.rank
    WHERE f.name = '<built-in function print>' AND f.ts_ns >= e.start_ns AND f.ts_ns < e.end_ns
    GROUP BY f.rank
),
-- A hook of the program may search for NaN in the same place, but does not read the answer.
engine_calls AS (
    SELECT o.rank, o.thread, o.parent, min(o.ts_ns) AS start_ns, max(o.ts_ns + o.dur_ns) AS end_ns
    FROM cpu_ops o
    JOIN step_extents e ON e.rank = o.rank
    WHERE o.name IN ('aten::isnan', 'aten::_is_any_true', 'aten::any', 'aten::item', 'aten::is_nonzero')
        AND o.parent IS NOT NULL AND o.ts_ns >= e.start_ns AND o.ts_ns < e.end_ns
    GROUP BY o.rank, o.thread, o.parent
    HAVING bool_or(o.name = 'aten::isnan') AND bool_or(o.name IN ('aten::item', 'aten::is_nonzero'))
),
nan_searches AS (
    SELECT c.rank, c.thread, c.start_ns, c.end_ns
    FROM engine_calls c
    JOIN cpu_ops p ON p.rank = c.rank AND p.event_id = c.parent
    WHERE p.name LIKE 'autograd::engine::evaluate\_function%'
),
search_counts AS (
    SELECT rank, count(*) AS nan_search_count, sum(end_ns - start_ns) AS host_ns FROM nan_searches GROUP BY rank
),
-- At one moment, searches start, then kernels are launched or devices go idle, then searches end.
launch_boundaries AS (
    SELECT rank, thread, start_ns AS ts_ns, 0 AS turn, 1 AS delta, 0 AS kernel_ns FROM nan_searches
    UNION ALL
    SELECT rank, thread, end_ns, 2, -1, 0 FROM nan_searches
    UNION ALL
    SELECT k.rank, k.launch_thread, k.launch_ts_ns, 1, 0, k.dur_ns
    FROM kernels k
    JOIN search_counts s ON s.rank = k.rank
    WHERE k.launch_ts_ns IS NOT NULL
),
launches AS (
    SELECT
        rank, kernel_ns,
        running_sum!(delta, PARTITION BY rank, thread ORDER BY ts_ns, turn) AS open_search_count
    FROM launch_boundaries
),
search_kernels AS (
    SELECT rank, sum_if!(kernel_ns, open_search_count > 0) AS kernel_ns FROM launches GROUP BY rank
),
gap_boundaries AS (
    SELECT rank, start_ns AS ts_ns, 0 AS turn, 1 AS delta, 0 AS sync_ns FROM nan_searches
    UNION ALL
    SELECT rank, end_ns, 2, -1, 0 FROM nan_searches
    UNION ALL
    SELECT rank, ts_ns, 1, 0, sync_ns FROM device_idle_gaps WHERE sync_ns > 0
),
gaps AS (
    SELECT rank, sync_ns, running_sum!(delta, PARTITION BY rank ORDER BY ts_ns, turn) AS open_search_count
    FROM gap_boundaries
),
bubbles AS (
    SELECT rank, sum_if!(sync_ns, open_search_count > 0) AS bubble_ns FROM gaps GROUP BY rank
),
searches AS (
    SELECT
        s.rank, s.nan_search_count,
        CASE WHEN d.rank IS NULL THEN s.host_ns ELSE coalesce(k.kernel_ns, 0) + coalesce(b.bubble_ns, 0) END AS nan_search_ns
    FROM search_counts s
    LEFT JOIN (SELECT DISTINCT rank FROM kernels) d ON d.rank = s.rank
    LEFT JOIN search_kernels k ON k.rank = s.rank
    LEFT JOIN bubbles b ON b.rank = s.rank
),
windows AS (
    SELECT rank, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
),
ranks_with_operators AS (
    SELECT DISTINCT rank FROM cpu_ops
),
ranks_with_stacks AS (
    SELECT DISTINCT rank FROM python_frames
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    t.rank IS NOT NULL AS has_stacks,
    e.steps_ns,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(p.print_count, 0) END AS print_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(p.print_ns, 0) END AS print_ns,
    CASE WHEN t.rank IS NOT NULL THEN ratio!(coalesce(p.print_ns, 0), e.steps_ns) END AS print_ratio,
    coalesce(s.nan_search_count, 0) AS nan_search_count,
    coalesce(s.nan_search_ns, 0) AS nan_search_ns,
    coalesce(ratio!(s.nan_search_ns, coalesce(w.window_ns, e.steps_ns)), 0) AS nan_search_ratio
FROM ranks r
LEFT JOIN step_extents e ON e.rank = r.rank
LEFT JOIN prints p ON p.rank = r.rank
LEFT JOIN searches s ON s.rank = r.rank
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
LEFT JOIN ranks_with_stacks t ON t.rank = r.rank
WHERE r.vendor IS NOT NULL
