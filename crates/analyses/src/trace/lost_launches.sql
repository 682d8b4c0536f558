--! question = "Did the profiler lose the work of some launches?"
--! row = "one rank that launches kernels: launches without device activity"
--! window = "recording"
--! needs = ["ranks", "runtime_calls", "lost_launches", "steps", "complete_steps"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace contains no kernel launch with GPU activity"
--! [columns]
--! rank = "rank"
--! launch_count = { doc = "kernel launches, except launches that a graph captures", unit = "count", metric = "rank" }
--! lost_count = { doc = "number of these without device activity, see lost_launches", unit = "count", metric = "rank" }
--! lost_ratio = { doc = "lost_count over launch_count", unit = "ratio", metric = "rank" }
--! early_count = { doc = "lost launches before the first launch with device activity", unit = "count", metric = "rank" }
--! early_ns = { doc = "from the start of the recording to the first launch with device activity; absent if early_count is 0", unit = "ns", metric = "rank" }
--! late_count = { doc = "lost launches after the last launch with device activity", unit = "count", metric = "rank" }
--! late_ns = { doc = "from the last launch with device activity to the end of the recording; absent if late_count is 0", unit = "ns", metric = "rank" }
--! step_count = { doc = "steps of the recording", unit = "count", metric = "rank" }
--! counted_step_count = { doc = "number of these that count, see complete_steps", unit = "count", metric = "rank" }
WITH recorded AS (
    SELECT rank, count(*) AS recorded_count, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
    FROM runtime_calls
    WHERE device_events > 0 AND name LIKE '%Launch%Kernel%'
    GROUP BY rank
),
lost AS (
    SELECT
        l.rank, count(*) AS lost_count,
        count_if!(l.ts_ns < r.first_ns) AS early_count,
        count_if!(l.ts_ns > r.last_ns) AS late_count
    FROM lost_launches l
    JOIN recorded r ON r.rank = l.rank
    GROUP BY l.rank
),
marked AS (
    SELECT rank, count(*) AS step_count FROM steps WHERE source <> 'trace' GROUP BY rank
),
counted AS (
    SELECT rank, count(*) AS counted_step_count FROM complete_steps WHERE is_counted AND source <> 'trace' GROUP BY rank
)
SELECT
    r.rank,
    r.recorded_count + coalesce(l.lost_count, 0) AS launch_count,
    coalesce(l.lost_count, 0) AS lost_count,
    ratio!(coalesce(l.lost_count, 0), r.recorded_count + coalesce(l.lost_count, 0)) AS lost_ratio,
    coalesce(l.early_count, 0) AS early_count,
    CASE WHEN l.early_count > 0 THEN r.first_ns - k.start_ns END AS early_ns,
    coalesce(l.late_count, 0) AS late_count,
    CASE WHEN l.late_count > 0 THEN k.end_ns - r.last_ns END AS late_ns,
    coalesce(m.step_count, 0) AS step_count,
    coalesce(c.counted_step_count, 0) AS counted_step_count
FROM recorded r
JOIN ranks k ON k.rank = r.rank
LEFT JOIN lost l ON l.rank = r.rank
LEFT JOIN marked m ON m.rank = r.rank
LEFT JOIN counted c ON c.rank = r.rank
