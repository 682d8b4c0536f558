--! question = "Which kernel, operator or idle cause does each piece of GPU time belong to?"
--! row = "one piece of the analyzed window of a device, or of a rank without devices, and what its time belongs to"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "idle_gap_causes", "critical_path"]
--! order = ["rank", "device", "ts_ns"]
--! when_empty = "the trace holds no host or device event"
--! [columns]
--! rank = "rank"
--! device = "device ordinal; absent for a rank without device activity"
--! kind = "activity (a kernel, copy or fill runs), idle (none runs) or host (a segment of the critical path of a rank without device activity)"
--! owner = "of an activity its kind: computation, communication or memory; of idle time its cause, see idle_gap_causes; of the host what it is bound by, see critical_path"
--! event_id = "the activity; absent for the others"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0; over all rows of a device the length of its window, see device_windows", unit = "ns" }
-- Every nanosecond has one owner. Of activities that run at the same time, the one that began first has it. Causes of a
-- gap are no intervals: their rows follow each other in the gap, in the order in which the causes begin.
WITH clipped AS (
    SELECT
        k.rank, k.device, k.kind, k.event_id,
        greatest(k.ts_ns, w.start_ns) AS ts_ns,
        least(k.end_ns, w.end_ns) AS end_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
),
ordered AS (
    SELECT *, max_before!(end_ns, PARTITION BY rank, device ORDER BY ts_ns, end_ns DESC, event_id) AS until_ns
    FROM clipped
),
gaps AS (
    SELECT
        rank, device, cause, dur_ns,
        gap_ts_ns + running_sum!(dur_ns, PARTITION BY rank, device, gap_ts_ns ORDER BY ts_ns, cause, state) - dur_ns AS ts_ns
    FROM idle_gap_causes
)
SELECT
    rank, device, 'activity' AS kind, CAST(kind AS VARCHAR) AS owner, event_id,
    greatest(ts_ns, coalesce(until_ns, ts_ns)) AS ts_ns,
    end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)) AS dur_ns
FROM ordered
WHERE end_ns > greatest(ts_ns, coalesce(until_ns, ts_ns))
UNION ALL
SELECT rank, device, 'idle', CAST(cause AS VARCHAR), NULL, ts_ns, dur_ns FROM gaps
UNION ALL
SELECT p.rank, NULL, 'host', CAST(p.bound_by AS VARCHAR), p.event_id, p.ts_ns, p.dur_ns
FROM critical_path p
WHERE p.rank NOT IN (SELECT DISTINCT rank FROM device_windows)
