--! question = "Is the host loading data, in forward, in backward or in the optimizer at a given moment?"
--! row = "one interval of one step on the host spent in one phase"
--! window = "counted_steps"
--! needs = ["device_steps", "host_waits", "annotations", "cpu_ops"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! step = "step number"
--! phase = "dataloader, forward, backward, optimizer or other"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
-- The profiler marks loading, Optimizer.step, and the calls of the autograd engine. The time
-- between two calls of the engine is backward, the time before the first is forward, the rest other.
-- An optimizer may call the model itself (a closure): the marks of autograd take precedence. Lightning always does that, and
-- a step may end between the two passes, so all of such a call before its first mark of autograd is forward.
-- Steps that Composer or Determined marks have the phases that it marks, and the time between marks is no
-- part of them.
WITH marks AS (
    SELECT rank, ts_ns, end_ns, 1 AS loading, 0 AS optimizing, 0 AS backward, 0 AS marked_forward, 0 AS marked_backward,
        0 AS training, 1 AS accounted
    FROM host_waits
    WHERE cause = 'dataloader'
    UNION ALL
    SELECT rank, ts_ns, ts_ns + dur_ns, 0, 1, 0, 0, 0, 0, 0
    FROM annotations
    WHERE NOT on_device AND name LIKE 'Optimizer.step%'
    UNION ALL
    SELECT
        rank, ts_ns, ts_ns + dur_ns, 0,
        CASE WHEN name LIKE 'Optimizer.step%' THEN 1 ELSE 0 END,
        CASE WHEN name LIKE 'Optimizer.step%' THEN 0 ELSE 1 END,
        0, 0, 0, 0
    FROM cpu_ops
    WHERE name LIKE 'Optimizer.step%'
        OR name LIKE 'autograd::engine::evaluate\_function%'
        OR name LIKE 'torch::autograd::%'
        OR name LIKE '%Backward'
        OR name LIKE '%Backward0'
    UNION ALL
    SELECT
        rank, ts_ns, ts_ns + dur_ns, 0, 0, 0,
        CASE WHEN name = 'event/forward' THEN 1 ELSE 0 END,
        CASE WHEN name IN ('event/backward', 'train_batch.backward') THEN 1 ELSE 0 END,
        CASE WHEN name = 'event/train_batch' THEN 2 WHEN name = 'train_batch' THEN 1 ELSE 0 END,
        CASE WHEN name LIKE 'event/%' OR name = 'train_batch.backward' THEN 0 ELSE 1 END
            + CASE WHEN name = 'event/batch' THEN 1 ELSE 0 END
    FROM annotations
    WHERE NOT on_device
        AND rank IN (SELECT DISTINCT rank FROM device_steps WHERE source IN ('composer', 'determined'))
        AND (name IN ('event/batch', 'event/train_batch', 'event/forward', 'event/backward')
            OR (name IN ('to_device', 'train_batch', 'train_batch.backward', 'step_lr_schedulers', 'from_device', 'reduce_metrics')
                AND args LIKE '%"trial"%'))
),
-- At one moment, marks end, then the step ends, the next one starts, and marks start.
boundaries AS (
    SELECT rank, ts_ns, 3 AS turn, loading, optimizing, backward, marked_forward, marked_backward, training, accounted,
        0 AS step, 0 AS marked
    FROM marks
    UNION ALL
    SELECT rank, end_ns, 0, -loading, -optimizing, -backward, -marked_forward, -marked_backward, -training, -accounted, 0, 0 FROM marks
    UNION ALL
    SELECT rank, host_ts_ns, 2, 0, 0, 0, 0, 0, 0, 0, step + 1, CASE WHEN source IN ('composer', 'determined') THEN 1 ELSE 0 END
    FROM device_steps
    UNION ALL
    SELECT rank, host_end_ns, 1, 0, 0, 0, 0, 0, 0, 0, -step - 1, CASE WHEN source IN ('composer', 'determined') THEN -1 ELSE 0 END
    FROM device_steps
),
running AS (
    SELECT
        rank, ts_ns,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        backward,
        lead(backward) OVER w AS next_backward,
        max(CASE WHEN optimizing = 1 THEN ts_ns END) OVER w AS optimizer_ts_ns,
        max(CASE WHEN backward = -1 THEN ts_ns END) OVER w AS backward_end_ns,
        lead(marked_backward) OVER w AS next_marked_backward,
        sum(loading) OVER w AS loads,
        sum(optimizing) OVER w AS optimizers,
        sum(backward) OVER w AS backwards,
        sum(marked_forward) OVER w AS marked_forwards,
        sum(marked_backward) OVER w AS marked_backwards,
        sum(training) OVER w AS trainings,
        sum(accounted) OVER w AS accounted,
        sum(step) OVER w - 1 AS step,
        sum(marked) OVER w AS marked
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank ORDER BY ts_ns, turn)
),
phased AS (
    SELECT *, max(CASE WHEN optimizers > 0 AND backwards > 0 THEN 1 ELSE 0 END) OVER (PARTITION BY rank) AS has_closures
    FROM running
)
SELECT
    rank, step,
    CASE
        WHEN loads > 0 THEN 'dataloader'
        WHEN marked > 0 THEN
            CASE
                WHEN marked_backwards > 0 THEN 'backward'
                WHEN marked_forwards > 0 THEN 'forward'
                -- Determined marks no forward pass: it leads up to the backward pass.
                WHEN trainings = 1 AND next_marked_backward = 1 THEN 'forward'
                WHEN optimizers > 0 AND trainings = 0 THEN 'optimizer'
                ELSE 'other'
            END
        WHEN backwards > 0 THEN 'backward'
        WHEN next_backward = 1 AND backward = -1 THEN 'backward'
        WHEN next_backward = 1 THEN 'forward'
        WHEN optimizers > 0 AND has_closures = 1 AND coalesce(backward_end_ns <= optimizer_ts_ns, true) THEN 'forward'
        WHEN optimizers > 0 THEN 'optimizer'
        ELSE 'other'
    END AS phase,
    ts_ns, dur_ns
FROM phased
WHERE dur_ns > 0 AND step >= 0 AND (marked = 0 OR accounted > 0)
