--! question = "What is the longest time that the GPU is idle, and why?"
--! row = "the longest idle gap between two activities on any device of one rank"
--! window = "counted_steps"
--! needs = ["device_idle_gaps", "device_windows", "idle_gap_causes"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity, or no device that is ever idle between two activities"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns", metric = "device" }
--! step_ratio = { doc = "duration over the mean length of a step; over the window where there are no steps", unit = "ratio", metric = "device" }
--! window_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! cause = "cause of most of it, see idle_gap_causes"
--! cause_ns = { doc = "time of that cause in it", unit = "ns" }
--! name = "the call, loader, operator or function that has most of that"
--! op_name = "operator around that"
--! source = "line of the program around that"
--! step = "step of the activity that ends it"
--! is_attributed = "most of it has a cause that a fix can remove: its side is neither unknown nor warmup"
--! long_count = { doc = "gaps at least half as long", unit = "count", metric = "device" }
--! long_ns = { doc = "time of these", unit = "ns", metric = "device" }
--! long_ratio = { doc = "that as a share of the window", unit = "ratio", metric = "device" }
WITH longest AS (
    SELECT
        g.*,
        max(dur_ns) OVER (PARTITION BY rank, device) AS max_ns,
        row_number() OVER (PARTITION BY rank, device ORDER BY dur_ns DESC, ts_ns) AS place
    FROM device_idle_gaps g
    -- The recording determines the length of activities that begin or end with the window.
    WHERE previous_event_id IS NOT NULL AND next_event_id IS NOT NULL
),
sums AS (
    SELECT
        rank, device,
        count_if!(2 * dur_ns >= max_ns) AS long_count,
        sum_if!(dur_ns, 2 * dur_ns >= max_ns) AS long_ns
    FROM longest
    GROUP BY rank, device
),
parts AS (
    SELECT
        i.rank, i.device, i.cause, i.side, i.dur_ns, i.name, i.op_name, i.source,
        row_number() OVER (PARTITION BY i.rank, i.device ORDER BY i.dur_ns DESC, i.ts_ns) AS place
    FROM idle_gap_causes i
    JOIN longest l ON l.rank = i.rank AND l.device = i.device AND l.ts_ns = i.gap_ts_ns
    WHERE l.place = 1
)
SELECT
    l.rank, l.device, l.ts_ns, l.dur_ns,
    CAST(l.dur_ns AS DOUBLE) * greatest(w.step_count, 1) / nullif(w.window_ns, 0) AS step_ratio,
    ratio!(l.dur_ns, w.window_ns) AS window_ratio,
    p.cause, p.dur_ns AS cause_ns, p.name, p.op_name, p.source, l.step,
    p.side NOT IN ('unknown', 'warmup') AS is_attributed,
    s.long_count, s.long_ns,
    ratio!(s.long_ns, w.window_ns) AS long_ratio
FROM longest l
JOIN device_windows w ON w.rank = l.rank AND w.device = l.device
JOIN sums s ON s.rank = l.rank AND s.device = l.device
JOIN parts p ON p.rank = l.rank AND p.device = l.device AND p.place = 1
WHERE l.place = 1
