--! question = "How is the host time of each step shared out (input of `advisor diff`)?"
--! row = "one name in one step: its share of the host time of the step"
--! window = "all_steps"
--! needs = ["steps", "cpu_ops", "runtime_calls", "annotations", "python_frames"]
--! order = ["rank", "step", "level", "name"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no host event: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! level = "operator, runtime, annotation, python or module; none where nothing was recorded"
--! name = "name of the range, call or frame; absent where nothing was recorded"
--! dur_ns = { doc = "time of the step in which it is the innermost thing that runs", unit = "ns" }
-- Each moment of a step belongs to one name, so that names add up to the step: to the innermost range
-- of the autograd engine's thread while that works, else to the innermost range of the thread that
-- runs the steps. (While the engine works, the other thread only waits for it.)
WITH host AS (
    SELECT rank, thread, event_id, parent, depth, 'operator' AS level, name, ts_ns, ts_ns + dur_ns AS end_ns, self_dur_ns
    FROM cpu_ops
    WHERE dur_ns > 0
    UNION ALL
    SELECT rank, thread, event_id, parent, depth, 'runtime', name, ts_ns, ts_ns + dur_ns, self_dur_ns
    FROM runtime_calls
    WHERE dur_ns > 0
    UNION ALL
    SELECT rank, thread, event_id, parent, depth, 'annotation', name, ts_ns, ts_ns + dur_ns, self_dur_ns
    FROM annotations
    WHERE dur_ns > 0 AND NOT on_device
    UNION ALL
    SELECT
        rank, thread, event_id, parent, depth,
        CASE WHEN name LIKE 'nn.Module: %' THEN 'module' ELSE 'python' END,
        name, ts_ns, ts_ns + dur_ns, self_dur_ns
    FROM python_frames
    WHERE dur_ns > 0
),
-- A step ends where the next one begins, should they overlap.
numbered AS (
    SELECT
        rank, step, thread, ts_ns,
        least(ts_ns + dur_ns, coalesce(lead(ts_ns) OVER w, ts_ns + dur_ns)) AS end_ns,
        CAST(row_number() OVER w AS BIGINT) AS ordinal
    FROM steps
    WINDOW w AS (PARTITION BY rank ORDER BY ts_ns, step)
),
step_threads AS (
    SELECT rank, thread, count(*) AS step_count FROM steps WHERE thread IS NOT NULL GROUP BY rank, thread
),
threads_used AS (
    SELECT
        rank, thread,
        sum_if!(self_dur_ns, level IN ('operator', 'runtime')) AS busy_ns,
        sum(CASE
            WHEN level = 'operator' AND (
                name LIKE 'autograd::engine::evaluate\_function%'
                OR name LIKE 'torch::autograd::%'
                OR name LIKE '%Backward'
                OR name LIKE '%Backward0'
            ) THEN end_ns - ts_ns ELSE 0
        END) AS engine_ns
    FROM host
    GROUP BY rank, thread
),
ranked_threads AS (
    SELECT
        t.rank, t.thread, t.engine_ns,
        row_number() OVER (
            PARTITION BY t.rank ORDER BY coalesce(s.step_count, 0) DESC, t.busy_ns DESC, t.thread
        ) AS place
    FROM threads_used t
    LEFT JOIN step_threads s ON s.rank = t.rank AND s.thread = t.thread
),
lanes AS (
    SELECT rank, thread, false AS is_engine FROM ranked_threads WHERE place = 1
    UNION ALL
    SELECT rank, thread, true
    FROM (
        SELECT rank, thread, row_number() OVER (PARTITION BY rank ORDER BY engine_ns DESC, thread) AS engine_place
        FROM ranked_threads
        WHERE place > 1 AND engine_ns > 0
    ) engines
    WHERE engine_place = 1
),
-- From its start on a range is the innermost one, from its end on the one around it is. One that seems
-- to outlast the range around it, by rounding, ends with that one.
boundaries AS (
    SELECT h.rank, h.ts_ns, 3 AS turn, h.depth AS nesting, l.is_engine, NOT l.is_engine AS is_main, h.event_id + 1 AS owner
    FROM host h
    JOIN lanes l ON l.rank = h.rank AND l.thread = h.thread
    UNION ALL
    SELECT h.rank, h.end_ns, 0, -h.depth, l.is_engine, NOT l.is_engine, coalesce(h.parent + 1, 0)
    FROM host h
    JOIN lanes l ON l.rank = h.rank AND l.thread = h.thread
    LEFT JOIN host p ON p.rank = h.rank AND p.event_id = h.parent
    WHERE p.end_ns IS NULL OR h.end_ns <= p.end_ns
    UNION ALL
    SELECT rank, ts_ns, 2, 0, false, false, ordinal FROM numbered
    UNION ALL
    SELECT rank, end_ns, 1, 0, false, false, 0 FROM numbered
),
ordered AS (
    SELECT
        rank, ts_ns, is_engine, is_main, owner,
        CAST(row_number() OVER (PARTITION BY rank ORDER BY ts_ns, turn, nesting) AS BIGINT) AS at
    FROM boundaries
),
-- The last point of a kind is the one with the largest position; the owner rides in the low 32 bits.
running AS (
    SELECT
        rank,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        coalesce(max(CASE WHEN NOT is_engine AND NOT is_main THEN at * 4294967296 + owner END) OVER w, 0) % 4294967296 AS ordinal,
        coalesce(max(CASE WHEN is_engine THEN at * 4294967296 + owner END) OVER w, 0) % 4294967296 AS engine_owner,
        coalesce(max(CASE WHEN is_main THEN at * 4294967296 + owner END) OVER w, 0) % 4294967296 AS main_owner
    FROM ordered
    WINDOW w AS running!(PARTITION BY rank ORDER BY at)
),
owned AS (
    SELECT
        rank, ordinal,
        CASE WHEN engine_owner > 0 THEN engine_owner ELSE main_owner END - 1 AS event_id,
        sum(dur_ns) AS dur_ns
    FROM running
    WHERE dur_ns > 0 AND ordinal > 0
    GROUP BY rank, ordinal, CASE WHEN engine_owner > 0 THEN engine_owner ELSE main_owner END
)
SELECT o.rank, s.step, coalesce(h.level, 'none') AS level, h.name, CAST(sum(o.dur_ns) AS BIGINT) AS dur_ns
FROM owned o
JOIN numbered s ON s.rank = o.rank AND s.ordinal = o.ordinal
LEFT JOIN host h ON h.rank = o.rank AND h.event_id = o.event_id
GROUP BY o.rank, s.step, coalesce(h.level, 'none'), h.name
