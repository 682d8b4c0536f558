--! question = "When does a host thread load data or wait for the GPU?"
--! row = "one interval that a host thread spends loading data or waiting for the device"
--! window = "recording"
--! needs = ["annotations", "cpu_ops", "runtime_calls", "memcpys"]
--! [columns]
--! rank = "rank"
--! thread = "lane of the thread, see threads"
--! cause = "dataloader (inside __next__ of a DataLoader or DataPipe; a trainer's mark of loading on ranks without these) or sync (a call that returns when the device has caught up)"
--! name = "name of the range or call"
--! ts_ns = { doc = "start", unit = "ns" }
--! end_ns = { doc = "end", unit = "ns" }
WITH fetches AS (
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns AS end_ns
    FROM annotations
    WHERE NOT on_device
        AND (name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%')
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns
    FROM cpu_ops
    WHERE name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%'
),
-- Composer's event/dataloader (dataloader/<loader> before 0.9) and Determined's dataloader_next. In 0.7 to 0.8
-- the mark stays open while the batch is worked on: the wait ends where the batch begins.
marks AS (
    SELECT
        rank, thread, name, ts_ns, ts_ns + dur_ns AS end_ns,
        lead(name) OVER w AS next_name,
        lead(ts_ns) OVER w AS next_ts_ns
    FROM annotations
    WHERE NOT on_device
        AND (name LIKE 'dataloader/%'
            OR name IN ('event/dataloader', 'event/batch', 'event/eval_batch')
            OR (name = 'dataloader_next' AND args LIKE '%"trial"%'))
    WINDOW w AS (PARTITION BY rank ORDER BY ts_ns)
)
SELECT rank, thread, 'dataloader' AS cause, name, ts_ns, end_ns FROM fetches
UNION ALL
-- A mark holds more than the fetch (other ranks are waited for in it), so torch's own ranges go first.
SELECT
    rank, thread, 'dataloader', name, ts_ns,
    CASE WHEN next_name LIKE 'event/%batch' AND next_ts_ns < end_ns THEN next_ts_ns ELSE end_ns END
FROM marks
WHERE name NOT LIKE 'event/%batch' AND rank NOT IN (SELECT DISTINCT rank FROM fetches)
UNION ALL
SELECT rank, thread, 'sync', name, ts_ns, ts_ns + dur_ns
FROM runtime_calls
WHERE name LIKE '%Synchronize'
    OR name IN ('cudaMemcpy', 'cudaMemcpy2D', 'cudaMemset', 'hipMemcpy', 'hipMemcpy2D', 'hipMemcpyWithStream', 'hipMemset')
UNION ALL
-- Asynchronous by name only: copies from or to pageable memory return when the copy is done, by clocks that differ by
-- at most 100 us, and by at most a twentieth of the call.
SELECT rank, launch_thread, 'sync', launch_name, launch_ts_ns, launch_ts_ns + launch_dur_ns
FROM memcpys
WHERE launch_ts_ns + launch_dur_ns + least(100000, launch_dur_ns / 20) >= ts_ns + dur_ns
    AND launch_ts_ns + launch_dur_ns > ts_ns
