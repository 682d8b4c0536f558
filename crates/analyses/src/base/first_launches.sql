--! question = "Which runtime and driver calls are slow because they are the first of their kind?"
--! row = "one call into the runtime or driver that is slow because it is the first of its kind: it loads a kernel, or sets up a context"
--! window = "recording"
--! needs = ["device_work", "runtime_calls", "memory_driver_calls"]
--! [columns]
--! rank = "rank"
--! thread = "lane of the thread, see threads"
--! event_id = "the call"
--! name = "name of the call"
--! work_name = "what it launches for the first time; absent if it launches nothing"
--! ts_ns = { doc = "start of the call", unit = "ns" }
--! end_ns = { doc = "its end, or where what it launches starts, whichever is earlier", unit = "ns" }
--! later_ns = { doc = "median of that time in later calls that launch the same; where there are none, in other calls of that name; absent where there are none either", unit = "ns" }
-- Code is loaded lazily: the first launch of a kernel takes milliseconds, the second a few microseconds. A first call counts
-- if it takes more than 100 us and 10 times later_ns. Waits and calls that take memory have durations of their own.
WITH calls AS (
    SELECT
        rank, launch_thread AS thread, launch AS event_id, launch_name AS name, name AS work_name,
        launch_ts_ns AS ts_ns,
        least(launch_end_ns, greatest(ts_ns, launch_ts_ns)) AS end_ns
    FROM device_work
    WHERE launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
    UNION ALL
    SELECT rank, thread, event_id, name, arrow_cast('', 'Dictionary(Int32, Utf8)'), ts_ns, ts_ns + dur_ns
    FROM runtime_calls
    WHERE device_events = 0
        AND name NOT LIKE '%Synchronize' AND name NOT LIKE '%Launch%' AND name NOT LIKE '%Graph%' AND name NOT LIKE '%Memcpy%'
        AND name NOT LIKE '%Memset%'
        AND name NOT IN (SELECT DISTINCT name FROM memory_driver_calls)
),
slow AS (
    SELECT DISTINCT rank, name, work_name FROM calls WHERE end_ns - ts_ns > 100000
),
kinds AS (
    SELECT c.rank, c.name, c.work_name, min(c.ts_ns) AS ts_ns
    FROM calls c
    JOIN slow s ON s.rank = c.rank AND s.name = c.name AND s.work_name = c.work_name
    GROUP BY c.rank, c.name, c.work_name
),
firsts AS (
    SELECT c.*
    FROM calls c
    JOIN kinds k ON k.rank = c.rank AND k.name = c.name AND k.work_name = c.work_name AND k.ts_ns = c.ts_ns
    WHERE c.end_ns - c.ts_ns > 100000
),
later_of_kind AS (
    SELECT c.rank, c.name, c.work_name, median(CAST(c.end_ns - c.ts_ns AS DOUBLE)) AS later_ns
    FROM calls c
    JOIN kinds k ON k.rank = c.rank AND k.name = c.name AND k.work_name = c.work_name
    WHERE c.ts_ns > k.ts_ns
    GROUP BY c.rank, c.name, c.work_name
),
later_of_name AS (
    SELECT c.rank, c.name, median(CAST(c.end_ns - c.ts_ns AS DOUBLE)) AS later_ns
    FROM calls c
    WHERE c.event_id NOT IN (SELECT DISTINCT event_id FROM firsts) AND c.name IN (SELECT DISTINCT name FROM firsts)
    GROUP BY c.rank, c.name
)
SELECT
    f.rank, f.thread, f.event_id, f.name,
    nullif(CAST(f.work_name AS VARCHAR), '') AS work_name,
    f.ts_ns, f.end_ns,
    CAST(coalesce(k.later_ns, n.later_ns) AS BIGINT) AS later_ns
FROM firsts f
LEFT JOIN later_of_kind k ON k.rank = f.rank AND k.name = f.name AND k.work_name = f.work_name
LEFT JOIN later_of_name n ON n.rank = f.rank AND n.name = f.name
WHERE f.end_ns - f.ts_ns > 10 * coalesce(k.later_ns, n.later_ns, CASE WHEN f.work_name <> '' THEN 0 END)
