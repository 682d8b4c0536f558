--! row = "a stretch of time in which a device runs nothing, and what it waits for"
--! needs = ["device_work", "device_windows", "host_waits"]
--! order = ["rank", "device", "ts_ns"]
--! materialize = true
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start of the gap: everything before it has ended", unit = "ns" }
--! end_ns = { doc = "end of the gap: the next activity starts", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
--! next_event_id = "the activity that ends the gap; absent at the end of the recording"
--! next_category = "kernel, memcpy or memset"
--! next_dur_ns = { doc = "how long that activity runs", unit = "ns" }
--! launch = "call that launched it"
--! launch_thread = "lane of that call"
--! dataloader_ns = { doc = "part in which the launching thread was loading data", unit = "ns" }
--! sync_ns = { doc = "the rest, if the launching thread was waiting for the device when it drained", unit = "ns" }
--! host_ns = { doc = "the rest, if the launch had not returned when the gap began, or never came", unit = "ns" }
--! device_wait_ns = { doc = "all of it, if the launch had returned before the gap began", unit = "ns" }
--! unlinked_ns = { doc = "all of it, if the trace does not hold the launch", unit = "ns" }
WITH runs AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY rank, device ORDER BY ts_ns, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns
    FROM device_work
),
-- All device work counts as busy, also what the trace does not link to a launch; only the gaps are
-- cut to the window.
clipped AS (
    SELECT
        r.rank, r.device,
        greatest(coalesce(r.busy_until_ns, w.start_ns), w.start_ns) AS ts_ns,
        least(r.ts_ns, w.end_ns) AS end_ns,
        r.event_id, r.category, r.dur_ns, r.launch, r.launch_thread, r.launch_end_ns
    FROM runs r
    JOIN device_windows w ON w.rank = r.rank AND w.device = r.device
    UNION ALL
    -- After its last work, a device waits for a launch that never comes.
    SELECT w.rank, w.device, greatest(max(r.end_ns), w.start_ns), w.end_ns, NULL, NULL, NULL, NULL, NULL, NULL
    FROM device_work r
    JOIN device_windows w ON w.rank = r.rank AND w.device = r.device
    GROUP BY w.rank, w.device, w.start_ns, w.end_ns
),
gaps AS (
    SELECT * FROM clipped WHERE end_ns > ts_ns
),
-- The walk of each host thread through its waits. A gap asks at both of its ends: how long has the
-- thread been loading so far, and is it waiting for the device? At one moment, waits begin before a
-- gap asks and end after it has.
points AS (
    SELECT
        rank, thread, ts_ns AS at_ns, 0 AS turn,
        CASE WHEN cause = 'dataloader' THEN 1 ELSE 0 END AS loading,
        CASE WHEN cause = 'sync' THEN 1 ELSE 0 END AS waiting,
        CAST(NULL AS INT) AS device, CAST(NULL AS BIGINT) AS gap_end_ns, 0 AS sign
    FROM host_waits
    UNION ALL
    SELECT
        rank, thread, end_ns, 2,
        CASE WHEN cause = 'dataloader' THEN -1 ELSE 0 END,
        CASE WHEN cause = 'sync' THEN -1 ELSE 0 END,
        NULL, NULL, 0
    FROM host_waits
    UNION ALL
    SELECT rank, launch_thread, ts_ns, 1, 0, 0, device, end_ns AS gap_end_ns, -1 FROM gaps WHERE launch_end_ns > ts_ns
    UNION ALL
    SELECT rank, launch_thread, end_ns, 1, 0, 0, device, end_ns AS gap_end_ns, 1 FROM gaps WHERE launch_end_ns > ts_ns
),
depths AS (
    SELECT
        rank, thread, at_ns, turn, device, gap_end_ns, sign,
        sum(waiting) OVER w AS waits,
        CASE WHEN sum(loading) OVER w - loading > 0 THEN at_ns - lag(at_ns) OVER w ELSE 0 END AS loaded_ns
    FROM points
    WINDOW w AS (PARTITION BY rank, thread ORDER BY at_ns, turn ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
totals AS (
    SELECT
        rank, device, gap_end_ns, sign, waits,
        sum(loaded_ns) OVER (
            PARTITION BY rank, thread ORDER BY at_ns, turn ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS loaded_ns
    FROM depths
),
answers AS (
    SELECT
        rank, device, gap_end_ns,
        sum(sign * loaded_ns) AS dataloader_ns,
        max(CASE WHEN sign = -1 AND waits > 0 THEN 1 ELSE 0 END) AS waiting
    FROM totals
    WHERE sign <> 0
    GROUP BY rank, device, gap_end_ns
)
SELECT
    g.rank, g.device, g.ts_ns, g.end_ns, g.end_ns - g.ts_ns AS dur_ns,
    g.event_id AS next_event_id, g.category AS next_category, g.dur_ns AS next_dur_ns,
    g.launch, g.launch_thread,
    coalesce(a.dataloader_ns, 0) AS dataloader_ns,
    CASE WHEN a.waiting = 1 THEN g.end_ns - g.ts_ns - a.dataloader_ns ELSE 0 END AS sync_ns,
    CASE
        WHEN a.waiting = 0 THEN g.end_ns - g.ts_ns - a.dataloader_ns
        WHEN g.event_id IS NULL THEN g.end_ns - g.ts_ns
        ELSE 0
    END AS host_ns,
    CASE WHEN g.launch IS NOT NULL AND g.launch_end_ns <= g.ts_ns THEN g.end_ns - g.ts_ns ELSE 0 END AS device_wait_ns,
    CASE WHEN g.launch IS NULL AND g.event_id IS NOT NULL THEN g.end_ns - g.ts_ns ELSE 0 END AS unlinked_ns
FROM gaps g
LEFT JOIN answers a ON a.rank = g.rank AND a.device = g.device AND a.gap_end_ns = g.end_ns
