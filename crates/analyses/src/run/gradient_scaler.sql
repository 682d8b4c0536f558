--! question = "Does the gradient scaler leave the GPU idle?"
--! row = "one rank: device idle time under the reads of a gradient scaler"
--! window = "counted_steps"
--! needs = ["ranks", "cpu_ops", "device_idle_gaps", "device_windows"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! scaler_count = { doc = "checks of a gradient scaler for infinities", unit = "count", metric = "rank" }
--! scaler_bubble_ns = { doc = "idle from where the device drained under the read of such a check to its next start", unit = "ns", metric = "rank" }
--! scaler_bubble_ratio = { doc = "over the analyzed window of the device; absent without a device", unit = "ratio", metric = "rank" }
WITH checks AS (
    SELECT
        rank, name, ts_ns, ts_ns + dur_ns AS end_ns,
        lag(name) OVER (PARTITION BY rank, thread ORDER BY ts_ns) AS previous_name
    FROM cpu_ops
    WHERE name IN ('aten::_amp_foreach_non_finite_check_and_unscale_', 'aten::item')
),
check_counts AS (
    SELECT rank, count(*) AS scaler_count FROM checks WHERE name <> 'aten::item' GROUP BY rank
),
reads AS (
    SELECT rank, ts_ns, end_ns
    FROM checks
    WHERE name = 'aten::item' AND previous_name = 'aten::_amp_foreach_non_finite_check_and_unscale_'
),
-- At one moment, reads start, then gaps, then reads end.
boundaries AS (
    SELECT rank, ts_ns, 0 AS turn, 1 AS delta, 0 AS bubble_ns FROM reads
    UNION ALL
    SELECT rank, end_ns, 2, -1, 0 FROM reads
    UNION ALL
    SELECT rank, ts_ns, 1, 0, sync_ns + host_ns FROM device_idle_gaps WHERE sync_ns > 0
),
gaps AS (
    SELECT rank, bubble_ns, running_sum!(delta, PARTITION BY rank ORDER BY ts_ns, turn) AS open_read_count
    FROM boundaries
),
bubbles AS (
    SELECT rank, sum_if!(bubble_ns, open_read_count > 0) AS scaler_bubble_ns FROM gaps GROUP BY rank
),
windows AS (
    SELECT rank, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
),
ranks_with_operators AS (
    SELECT DISTINCT rank FROM cpu_ops
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    coalesce(c.scaler_count, 0) AS scaler_count,
    coalesce(b.scaler_bubble_ns, 0) AS scaler_bubble_ns,
    CASE WHEN w.rank IS NOT NULL THEN ratio!(coalesce(b.scaler_bubble_ns, 0), w.window_ns) END AS scaler_bubble_ratio
FROM ranks r
LEFT JOIN check_counts c ON c.rank = r.rank
LEFT JOIN bubbles b ON b.rank = r.rank
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
WHERE r.vendor IS NOT NULL
