--! question = "When does each complete step begin and end, its GPU work included, and do the analyses count it?"
--! row = "one complete step of one rank, extended to the device work it launched"
--! window = "complete_steps"
--! needs = ["steps", "device_work", "lost_launches"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: see steps.source; trace: no steps found, the whole recording counts as one"
--! ts_ns = { doc = "start, not before the device work of earlier steps has ended", unit = "ns" }
--! end_ns = { doc = "end on the host or on the device, whichever is later", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! host_ts_ns = { doc = "start on the host", unit = "ns" }
--! host_end_ns = { doc = "end on the host", unit = "ns" }
--! device_event_count = { doc = "device activities launched inside the step", unit = "count" }
--! is_last = "the last step that was recorded"
--! is_recorded = "the device work of its launches is in the trace; false if the profiler lost more than 2 % of it, see lost_launches, unless it did so in all steps of the rank"
--! is_anchored = "its duration compares with that of other steps; false for a first step before which no device work was recorded, or for a step after one that is not recorded, if later steps start after their start on the host by more than 2 % of their time: the device may have been busy with earlier work too"
--! is_warm_up = "a first step that takes over 1.3 times the median of the anchored steps after it, of which there are at least two, and over 1.1 times the longest of them"
--! is_counted = "views of complete steps count it: it is recorded and anchored, and is not warm-up"
-- As in TensorBoard's plugin: trailing steps without device work are dropped if others have some, and
-- then the last one too, if it has less than 80 % of the activities of the one before. `ready_ns` covers the work
-- from before the first step, also where a selection of steps leaves out what came before.
-- A profiler may lose the device work of the first or the last launches. Steps without their work do not count. A recording
-- without steps begins with the first launch whose work was recorded, and ends with the last. The threshold of 2 % is an
-- estimate.
WITH
-- A step owns what it launched from beginning to end.
owned AS (
    SELECT w.rank, s.ts_ns AS host_ts_ns, count(*) AS device_event_count, max(w.end_ns) AS last_ns
    FROM device_work w
    JOIN steps s
        ON s.rank = w.rank AND s.step = w.step
        AND w.launch_ts_ns >= s.ts_ns AND w.launch_end_ns <= s.ts_ns + s.dur_ns
    GROUP BY w.rank, s.ts_ns
),
recorded AS (
    SELECT rank, min(launch_ts_ns) AS first_launch_ns, max(launch_end_ns) AS last_launch_ns, max(end_ns) AS last_work_ns
    FROM device_work
    WHERE launch_ts_ns IS NOT NULL
    GROUP BY rank
),
lost AS (
    SELECT
        l.rank, l.step, count(*) AS lost_count,
        count_if!(l.ts_ns < r.first_launch_ns) AS early_count,
        count_if!(l.ts_ns > r.last_launch_ns) AS late_count
    FROM lost_launches l
    JOIN recorded r ON r.rank = l.rank
    WHERE l.step IS NOT NULL
    GROUP BY l.rank, l.step
),
bounds AS (
    SELECT
        s.rank, s.step, s.source, s.is_last, s.ready_ns,
        s.ts_ns AS host_ts_ns,
        s.ts_ns + s.dur_ns AS host_end_ns,
        greatest(s.ts_ns + s.dur_ns, coalesce(o.last_ns, s.ts_ns + s.dur_ns)) AS end_ns,
        coalesce(o.device_event_count, 0) AS device_event_count,
        s.source = 'trace' OR coalesce(l.lost_count <= 0.02 * (l.lost_count + coalesce(o.device_event_count, 0)), true) AS has_work,
        CASE
            WHEN s.source = 'trace' AND l.early_count > 0.02 * (l.lost_count + o.device_event_count) THEN r.first_launch_ns
        END AS work_from_ns,
        CASE
            WHEN s.source = 'trace' AND l.late_count > 0.02 * (l.lost_count + o.device_event_count) THEN r.last_work_ns
        END AS work_until_ns
    FROM steps s
    LEFT JOIN owned o ON o.rank = s.rank AND o.host_ts_ns = s.ts_ns
    LEFT JOIN lost l ON l.rank = s.rank AND l.step = s.step
    LEFT JOIN recorded r ON r.rank = s.rank
),
extended_steps AS (
    SELECT
        *,
        greatest(
            host_ts_ns, coalesce(ready_ns, host_ts_ns), coalesce(work_from_ns, host_ts_ns),
            coalesce(max(end_ns) OVER earlier, host_ts_ns)
        ) AS ts_ns,
        least(end_ns, coalesce(work_until_ns, end_ns)) AS until_ns,
        row_number() OVER (PARTITION BY rank ORDER BY host_ts_ns) = 1 AS is_first,
        coalesce(lag(has_work) OVER (PARTITION BY rank ORDER BY host_ts_ns), true)
            OR NOT bool_or(has_work) OVER (PARTITION BY rank) AS follows_work,
        has_work OR NOT bool_or(has_work) OVER (PARTITION BY rank) AS is_recorded,
        sum(device_event_count) OVER (PARTITION BY rank) AS rank_events,
        sum(device_event_count) OVER later AS later_events,
        lag(device_event_count) OVER (PARTITION BY rank ORDER BY host_ts_ns) AS previous_events
    FROM bounds
    WINDOW
        earlier AS (PARTITION BY rank ORDER BY host_ts_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
        later AS (PARTITION BY rank ORDER BY host_ts_ns ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
),
finished_steps AS (
    SELECT *, greatest(until_ns, ts_ns) - ts_ns AS dur_ns
    FROM extended_steps
    WHERE rank_events = 0
        OR coalesce(later_events, 0) > 0
        OR (device_event_count > 0 AND coalesce(0.8 * previous_events <= device_event_count, true))
),
blind_steps AS (
    -- The trace does not show when the device finished the work before these steps.
    SELECT
        *,
        is_recorded AND (is_first AND ready_ns IS NULL OR NOT follows_work) AS is_blind,
        is_recorded AND NOT is_first AND follows_work AS is_later
    FROM finished_steps
),
anchored AS (
    -- By how much the host is ahead when a later step starts, as a share of its time.
    SELECT
        *,
        NOT (is_blind AND coalesce(
            sum(CASE WHEN is_later THEN ts_ns - host_ts_ns END) OVER all_of_rank
                > 0.02 * sum(CASE WHEN is_later THEN dur_ns END) OVER all_of_rank,
            false)) AS is_anchored,
        sum(CASE WHEN is_recorded THEN 1 ELSE 0 END) OVER all_of_rank AS step_count,
        median(CASE WHEN is_later THEN CAST(dur_ns AS DOUBLE) END) OVER all_of_rank AS later_median_ns,
        max(CASE WHEN is_later THEN dur_ns END) OVER all_of_rank AS later_max_ns
    FROM blind_steps
    WINDOW all_of_rank AS (PARTITION BY rank)
),
flagged AS (
    SELECT
        *,
        is_first AND is_recorded AND source <> 'trace' AND step_count >= 3
            AND coalesce(dur_ns > 1.3 * later_median_ns AND dur_ns > 1.1 * later_max_ns, false) AS is_warm_up
    FROM anchored
)
SELECT
    rank, step, source,
    ts_ns,
    ts_ns + dur_ns AS end_ns,
    dur_ns,
    host_ts_ns, host_end_ns, device_event_count, is_last, is_recorded, is_anchored, is_warm_up,
    is_recorded AND is_anchored AND NOT is_warm_up AS is_counted
FROM flagged
