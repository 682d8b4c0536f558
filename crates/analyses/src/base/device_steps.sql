--! row = "one complete step of one rank, extended to the device work it launched"
--! needs = ["steps", "device_work"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: profiler_step, engine, optimizer or trace (no steps found: the whole recording as one)"
--! ts_ns = { doc = "start, not before the device work of earlier steps has ended", unit = "ns" }
--! end_ns = { doc = "end on the host or on the device, whichever is later", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! host_ts_ns = { doc = "start on the host", unit = "ns" }
--! host_end_ns = { doc = "end on the host", unit = "ns" }
--! device_event_count = { doc = "device activities launched inside the step", unit = "count" }
--! is_last = "the last step that was recorded"
-- As in TensorBoard's plugin: trailing steps without device work are dropped if others have some, and
-- then the last one too, if it has less than 80 % of the activities of the one before.
WITH
-- A step owns what it launched from beginning to end; `host_ts_ns` is absent where no step does.
owners AS (
    SELECT w.rank, s.ts_ns AS host_ts_ns, w.ts_ns, w.end_ns
    FROM device_work w
    LEFT JOIN steps s
        ON s.rank = w.rank AND s.step = w.step
        AND w.launch_ts_ns >= s.ts_ns AND w.launch_end_ns <= s.ts_ns + s.dur_ns
),
owned AS (
    SELECT rank, host_ts_ns, count(*) AS device_event_count, min(ts_ns) AS first_ns, max(end_ns) AS last_ns
    FROM owners
    WHERE host_ts_ns IS NOT NULL
    GROUP BY rank, host_ts_ns
),
first_steps AS (
    SELECT s.rank, o.first_ns
    FROM (SELECT rank, min(ts_ns) AS ts_ns FROM steps GROUP BY rank) s
    JOIN owned o ON o.rank = s.rank AND o.host_ts_ns = s.ts_ns
),
-- Work from before the first step that still runs when it begins is not the step's.
lead_in AS (
    SELECT o.rank, max(o.end_ns) AS end_ns
    FROM owners o
    JOIN first_steps f ON f.rank = o.rank
    WHERE o.host_ts_ns IS NULL AND o.end_ns < f.first_ns
    GROUP BY o.rank
),
bounds AS (
    SELECT
        s.rank, s.step, s.source, s.is_last,
        s.ts_ns AS host_ts_ns,
        s.ts_ns + s.dur_ns AS host_end_ns,
        greatest(s.ts_ns + s.dur_ns, coalesce(o.last_ns, s.ts_ns + s.dur_ns)) AS end_ns,
        coalesce(l.end_ns, s.ts_ns) AS lead_in_ns,
        coalesce(o.device_event_count, 0) AS device_event_count
    FROM steps s
    LEFT JOIN owned o ON o.rank = s.rank AND o.host_ts_ns = s.ts_ns
    LEFT JOIN lead_in l ON l.rank = s.rank
),
extended_steps AS (
    SELECT
        *,
        greatest(host_ts_ns, lead_in_ns, coalesce(max(end_ns) OVER earlier, host_ts_ns)) AS ts_ns,
        sum(device_event_count) OVER (PARTITION BY rank) AS rank_events,
        sum(device_event_count) OVER later AS later_events,
        lag(device_event_count) OVER (PARTITION BY rank ORDER BY host_ts_ns) AS previous_events
    FROM bounds
    WINDOW
        earlier AS (PARTITION BY rank ORDER BY host_ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        later AS (PARTITION BY rank ORDER BY host_ts_ns ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
)
SELECT
    rank, step, source,
    ts_ns,
    greatest(end_ns, ts_ns) AS end_ns,
    greatest(end_ns, ts_ns) - ts_ns AS dur_ns,
    host_ts_ns, host_end_ns, device_event_count, is_last
FROM extended_steps
WHERE rank_events = 0
    OR coalesce(later_events, 0) > 0
    OR (device_event_count > 0 AND coalesce(0.8 * previous_events <= device_event_count, true))
