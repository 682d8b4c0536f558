--! question = "When does a host thread start up, load code, compile, or work for the profiler?"
--! row = "one interval of a host thread that does not recur in a program that keeps running, or does not occur without the profiler"
--! window = "recording"
--! needs = ["first_launches", "device_work", "runtime_calls", "memory_driver_calls", "cpu_ops", "annotations", "python_frames", "spans"]
--! [columns]
--! rank = "rank"
--! thread = "lane of the thread, see threads"
--! kind = "startup (a call before the first work of the rank's devices that takes 100 us or more and neither launches, copies nor waits; a call that takes memory counts from 10 ms on, since it creates a context), first_launch (a first launch, see first_launches, or a call that loads code), compiling (torch.compile, Inductor or Triton compile; this recurs where shapes change, see run_warmup) or profiler (the profiler requests or flushes a buffer and holds the thread up)"
--! name = "name of the call, range or Python function, or the kind of the profiler's overhead"
--! ts_ns = { doc = "start", unit = "ns" }
--! end_ns = { doc = "end", unit = "ns" }
WITH first_work AS (
    SELECT rank, min(ts_ns) AS first_ns FROM device_work GROUP BY rank
),
startups AS (
    SELECT c.rank, c.thread, CAST(c.name AS VARCHAR) AS name, c.ts_ns, c.ts_ns + c.dur_ns AS end_ns
    FROM runtime_calls c
    JOIN first_work f ON f.rank = c.rank
    LEFT JOIN (SELECT DISTINCT name FROM memory_driver_calls) m ON m.name = c.name
    WHERE c.ts_ns < f.first_ns AND c.device_events = 0
        AND c.dur_ns >= CASE WHEN m.name IS NULL THEN 100000 ELSE 10000000 END
        AND c.name NOT LIKE '%Synchronize' AND c.name NOT LIKE '%Launch%' AND c.name NOT LIKE '%Graph%' AND c.name NOT LIKE '%Memcpy%'
        AND c.name NOT LIKE '%Memset%' AND NOT is_code_loading!(c.name)
),
named AS (
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns FROM annotations WHERE NOT on_device
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns FROM python_frames
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns FROM runtime_calls
),
names AS (
    SELECT name, is_compilation!(name) AS is_compilation
    FROM (SELECT DISTINCT name FROM named)
    WHERE is_compilation!(name) OR is_code_loading!(name)
),
marked AS (
    SELECT n.rank, n.thread, CAST(n.name AS VARCHAR) AS name, n.ts_ns, n.end_ns, k.is_compilation
    FROM named n
    JOIN names k ON k.name = n.name
),
-- The profiler writes its overhead on a thread of its own. A full queue counts as time of the program, not of the profiler.
overheads AS (
    SELECT rank, event_id, CAST(name AS VARCHAR) AS name, ts_ns, ts_ns + dur_ns AS end_ns
    FROM spans
    WHERE lower(CAST(category AS VARCHAR)) = 'overhead' AND name <> 'Command Buffer Full'
),
lanes AS (
    SELECT DISTINCT rank, launch_thread AS thread FROM device_work WHERE launch_thread IS NOT NULL
),
moments AS (
    SELECT o.rank, l.thread, o.event_id, o.name, o.ts_ns, o.end_ns, CAST(NULL AS BIGINT) AS call_ts_ns, CAST(NULL AS BIGINT) AS call_end_ns
    FROM overheads o
    JOIN lanes l ON l.rank = o.rank
    UNION ALL
    SELECT rank, thread, NULL, NULL, ts_ns, end_ns, ts_ns AS call_ts_ns, end_ns AS call_end_ns
    FROM (SELECT rank, thread, ts_ns, ts_ns + dur_ns AS end_ns FROM runtime_calls) c
    WHERE c.rank IN (SELECT DISTINCT rank FROM overheads)
),
around AS (
    SELECT
        rank, thread, event_id, name, ts_ns, end_ns,
        max_before!(call_end_ns, PARTITION BY rank, thread ORDER BY ts_ns, event_id NULLS FIRST) AS call_end_ns,
        -max_before!(-call_ts_ns, PARTITION BY rank, thread ORDER BY ts_ns DESC, event_id NULLS FIRST) AS next_ts_ns
    FROM moments
),
-- An overhead holds up the thread whose call is open all the time, else the thread whose next call follows soonest.
held AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY rank, event_id ORDER BY CASE WHEN call_end_ns >= end_ns THEN 0 ELSE 1 END, next_ts_ns, thread
        ) AS place
    FROM around
    WHERE event_id IS NOT NULL AND (call_end_ns >= end_ns OR next_ts_ns >= end_ns)
)
SELECT rank, thread, 'startup' AS kind, name, ts_ns, end_ns FROM startups
UNION ALL
SELECT rank, thread, 'first_launch', CAST(name AS VARCHAR), ts_ns, end_ns FROM first_launches WHERE thread IS NOT NULL
UNION ALL
SELECT rank, thread, CASE WHEN is_compilation THEN 'compiling' ELSE 'first_launch' END, name, ts_ns, end_ns
FROM marked
WHERE thread IS NOT NULL
UNION ALL
SELECT rank, thread, CASE WHEN is_profiler_overhead!(name) THEN 'profiler' ELSE 'first_launch' END, name, ts_ns, end_ns
FROM held
WHERE place = 1
