--! question = "How much time do callbacks, loggers and checkpoints take?"
--! row = "one rank: the time its loop spends in callbacks, loggers and checkpoints"
--! window = "counted_steps"
--! needs = ["annotations", "idle_gap_causes", "device_windows", "step_time"]
--! order = ["rank"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! callback_ns = { doc = "time in ranges of callbacks, loggers and checkpoints (Composer's callback/..., Lightning's [Callback]... and save_checkpoint), those of profilers left out", unit = "ns", metric = "rank" }
--! callback_count = { doc = "these ranges; absent if the trainer marks none, so that nothing is known", unit = "count", metric = "rank" }
--! steps_ns = { doc = "time of all complete steps", unit = "ns", metric = "rank" }
--! callback_ratio = { doc = "callback_ns over steps_ns, at most 1; absent if the trainer marks none", unit = "ratio", metric = "rank" }
--! cost_ratio = { doc = "with a device: idle time of its window in such ranges, the device with most; without: callback_ratio", unit = "ratio", metric = "rank" }
--! top_name = "the range with most of it"
--! top_ns = { doc = "time in that range", unit = "ns", metric = "rank" }
--! has_device = "the trace holds device activity"
WITH ranges AS (
    SELECT rank, name, dur_ns
    FROM annotations
    WHERE NOT on_device
        AND (name LIKE 'callback/%' OR name LIKE '[pl]%[Callback]%' OR name LIKE '[pl]%save_checkpoint%' OR name LIKE '[pl]%logger%')
),
-- The profiler's own work ends with the recording.
counted AS (
    SELECT rank, name, sum(dur_ns) AS total_ns, count(*) AS range_count
    FROM ranges
    WHERE name NOT LIKE 'callback/JSONTraceHandler/%' AND name NOT LIKE 'callback/Profiler/%'
        AND name NOT LIKE 'callback/SystemProfiler/%' AND name NOT LIKE 'callback/TorchProfiler/%'
        AND name NOT LIKE 'callback/DataLoaderProfiler/%'
    GROUP BY rank, name
),
sums AS (
    SELECT
        rank, sum(total_ns) AS callback_ns, sum(range_count) AS callback_count,
        first_value(name ORDER BY total_ns DESC, name) AS top_name,
        max(total_ns) AS top_ns
    FROM counted
    GROUP BY rank
),
marked AS (
    SELECT DISTINCT rank FROM ranges
),
idle AS (
    SELECT i.rank, i.device, CAST(sum(i.dur_ns) AS DOUBLE) / max(nullif(w.window_ns, 0)) AS idle_ratio
    FROM idle_gap_causes i
    JOIN device_windows w ON w.rank = i.rank AND w.device = i.device
    JOIN counted c ON c.rank = i.rank AND c.name = i.range_name
    WHERE i.side = 'host' AND i.cause <> 'data_loading'
    GROUP BY i.rank, i.device
),
most AS (
    SELECT rank, max(idle_ratio) AS idle_ratio FROM idle GROUP BY rank
),
steps AS (
    SELECT
        t.rank, t.steps_ns,
        d.rank IS NOT NULL AS has_device
    FROM (SELECT rank, sum(dur_ns) AS steps_ns FROM step_time WHERE is_counted GROUP BY rank) t
    LEFT JOIN (SELECT DISTINCT rank FROM device_windows) d ON d.rank = t.rank
),
all_windows AS (
    SELECT
        p.rank, p.steps_ns, p.has_device,
        CASE WHEN m.rank IS NOT NULL THEN coalesce(s.callback_ns, 0) END AS callback_ns,
        CASE WHEN m.rank IS NOT NULL THEN coalesce(s.callback_count, 0) END AS callback_count,
        s.top_name, s.top_ns
    FROM steps p
    LEFT JOIN marked m ON m.rank = p.rank
    LEFT JOIN sums s ON s.rank = p.rank
)
SELECT
    f.rank, f.callback_ns, f.callback_count, f.steps_ns,
    -- least() passes over what is absent.
    CASE
        WHEN f.callback_ns IS NOT NULL THEN least(ratio!(f.callback_ns, f.steps_ns), 1.0)
    END AS callback_ratio,
    CASE
        WHEN f.callback_ns IS NULL THEN NULL
        WHEN f.has_device THEN coalesce(i.idle_ratio, 0.0)
        ELSE least(ratio!(f.callback_ns, f.steps_ns), 1.0)
    END AS cost_ratio,
    f.top_name, f.top_ns, f.has_device
FROM all_windows f
LEFT JOIN most i ON i.rank = f.rank
