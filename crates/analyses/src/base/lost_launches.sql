--! question = "Which kernel launches have no device activity in the trace?"
--! row = "one kernel launch without device activity; launches that a graph captures are left out, because they do not run"
--! window = "recording"
--! needs = ["runtime_calls", "device_work"]
--! order = ["rank", "ts_ns", "event_id"]
--! [columns]
--! rank = "rank"
--! event_id = "the launching call"
--! name = "name of the call"
--! step = "step that the call is in; absent outside of steps"
--! ts_ns = { doc = "start of the call", unit = "ns" }
-- A complete trace has no lost launches, so the query sorts only these calls and the calls that begin or end a capture. A
-- recording may begin or end inside a capture: then its first end has no begin, or its last begin has no end.
WITH
-- Two calls may share a correlation id. Either they belong to two processes in one file: then each may own an activity that has
-- the id and no known launch. Or one call is nested in the other: then one of them owns the activity.
owners AS (
    SELECT DISTINCT c.rank, c.event_id
    FROM runtime_calls c
    JOIN device_work w ON w.rank = c.rank AND w.correlation = c.correlation
    WHERE c.device_events = 0 AND c.name LIKE '%Launch%Kernel%' AND c.correlation > 0
        AND (
            w.launch IS NULL
            OR (w.launch_thread = c.thread AND w.launch_ts_ns <= c.ts_ns + c.dur_ns AND c.ts_ns <= w.launch_end_ns)
        )
),
calls AS (
    SELECT
        c.rank, c.event_id, c.name, c.step, c.ts_ns,
        CASE WHEN c.name LIKE '%StreamBeginCapture%' THEN 1 ELSE 0 END AS begins,
        CASE WHEN c.name LIKE '%StreamEndCapture%' THEN 1 ELSE 0 END AS ends
    FROM runtime_calls c
    LEFT ANTI JOIN owners o ON o.rank = c.rank AND o.event_id = c.event_id
    WHERE (c.device_events = 0 AND c.name LIKE '%Launch%Kernel%')
        OR c.name LIKE '%StreamBeginCapture%'
        OR c.name LIKE '%StreamEndCapture%'
),
counted AS (
    SELECT
        *,
        running_sum!(begins - ends, PARTITION BY rank ORDER BY ts_ns, event_id) AS open_count
    FROM calls
),
-- The maximum of ended minus begun captures, over all calls up to this one and over all calls from this one on.
bounded AS (
    SELECT
        *,
        running_max!(-open_count, PARTITION BY rank ORDER BY ts_ns, event_id) AS ended_before_count,
        running_max!(-open_count, PARTITION BY rank ORDER BY ts_ns DESC, event_id DESC) AS ended_after_count
    FROM counted
)
SELECT rank, event_id, name, step, ts_ns
FROM bounded
WHERE begins = 0 AND ends = 0
    AND open_count + greatest(ended_before_count, 0) <= 0
    AND ended_after_count + open_count <= 0
