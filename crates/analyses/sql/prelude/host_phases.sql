--! row = "a stretch of one step's host time spent in one phase"
--! needs = ["device_steps", "host_waits", "annotations", "cpu_ops"]
--! order = ["rank", "ts_ns"]
--! materialize = true
--! [columns]
--! rank = "rank"
--! step = "step number"
--! phase = "dataloader, forward, backward, optimizer or other"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
-- Marked by the profiler: loading, Optimizer.step, and the calls of the autograd engine. What lies
-- between two calls of the engine is backward, what leads up to the first is forward, the rest other.
WITH marks AS (
    SELECT rank, ts_ns, end_ns, 1 AS loading, 0 AS optimizing, 0 AS backward
    FROM host_waits
    WHERE cause = 'dataloader'
    UNION ALL
    SELECT rank, ts_ns, ts_ns + dur_ns, 0, 1, 0
    FROM annotations
    WHERE NOT on_device AND name LIKE 'Optimizer.step%'
    UNION ALL
    SELECT
        rank, ts_ns, ts_ns + dur_ns, 0,
        CASE WHEN name LIKE 'Optimizer.step%' THEN 1 ELSE 0 END,
        CASE WHEN name LIKE 'Optimizer.step%' THEN 0 ELSE 1 END
    FROM cpu_ops
    WHERE name LIKE 'Optimizer.step%'
        OR name LIKE 'autograd::engine::evaluate\_function%'
        OR name LIKE 'torch::autograd::%'
        OR name LIKE '%Backward'
        OR name LIKE '%Backward0'
),
-- At one moment, marks end, then the step ends, the next one starts, and marks start.
points AS (
    SELECT rank, ts_ns, 3 AS turn, loading, optimizing, backward, 0 AS step FROM marks
    UNION ALL
    SELECT rank, end_ns, 0, -loading, -optimizing, -backward, 0 FROM marks
    UNION ALL
    SELECT rank, host_ts_ns, 2, 0, 0, 0, step + 1 FROM device_steps
    UNION ALL
    SELECT rank, host_end_ns, 1, 0, 0, 0, -step - 1 FROM device_steps
),
running AS (
    SELECT
        rank, ts_ns,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        backward,
        lead(backward) OVER w AS next_backward,
        sum(loading) OVER w AS loads,
        sum(optimizing) OVER w AS optimizers,
        sum(backward) OVER w AS backwards,
        sum(step) OVER w - 1 AS step
    FROM points
    WINDOW w AS (PARTITION BY rank ORDER BY ts_ns, turn ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT
    rank, step,
    CASE
        WHEN loads > 0 THEN 'dataloader'
        WHEN optimizers > 0 THEN 'optimizer'
        WHEN backwards > 0 THEN 'backward'
        WHEN next_backward = 1 AND backward = -1 THEN 'backward'
        WHEN next_backward = 1 THEN 'forward'
        ELSE 'other'
    END AS phase,
    ts_ns, dur_ns
FROM running
WHERE dur_ns > 0 AND step >= 0
