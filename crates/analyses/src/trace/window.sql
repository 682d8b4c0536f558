--! question = "Which events were read, and how many of them count?"
--! row = "one kind of event on one rank: events read, and events in the analyzed window"
--! window = "before_last_step"
--! sort = ["event_count"]
--! needs = ["ranks", "cpu_ops", "runtime_calls", "annotations", "python_frames", "device_syncs", "spans", "device_work", "device_activities"]
--! order = ["rank", "stored_in"]
--! when_empty = "no trace was read"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! stored_in = "table that holds the events"
--! event_count = { doc = "events read", unit = "count" }
--! analyzed_count = { doc = "events in the analyzed window: before the last of several profiler steps begins, or launched before", unit = "count" }
WITH moments AS (
    SELECT rank, 'cpu_ops' AS stored_in, ts_ns FROM cpu_ops
    UNION ALL
    SELECT rank, 'runtime_calls', ts_ns FROM runtime_calls
    UNION ALL
    SELECT rank, 'annotations', ts_ns FROM annotations
    UNION ALL
    SELECT rank, 'python_frames', ts_ns FROM python_frames
    UNION ALL
    SELECT rank, 'spans', ts_ns FROM spans
    UNION ALL
    SELECT rank, 'device_syncs', coalesce(launch_ts_ns, ts_ns) FROM device_syncs
),
counts AS (
    SELECT
        m.rank, m.stored_in,
        1 AS events,
        CASE
            WHEN r.cut_ns IS NULL OR m.ts_ns < r.cut_ns OR ($include_last_step AND m.ts_ns <= r.steps_end_ns) THEN 1
            ELSE 0
        END AS kept
    FROM moments m
    JOIN ranks r ON r.rank = m.rank
    UNION ALL
    SELECT rank, concat(category, 's'), 1, 0 FROM device_work
    UNION ALL
    SELECT rank, concat(category, 's'), 0, 1 FROM device_activities
)
SELECT rank, stored_in, sum(events) AS event_count, sum(kept) AS analyzed_count
FROM counts
GROUP BY rank, stored_in
