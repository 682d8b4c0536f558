--! row = "a stretch of time that a host thread spends loading data or waiting for the device"
--! needs = ["annotations", "cpu_ops", "runtime_calls", "memcpys"]
--! [columns]
--! rank = "rank"
--! thread = "lane of the thread, see threads"
--! cause = "dataloader (inside __next__ of a DataLoader or DataPipe) or sync (a call that returns when the device has caught up)"
--! name = "name of the range or call"
--! ts_ns = { doc = "start", unit = "ns" }
--! end_ns = { doc = "end", unit = "ns" }
SELECT rank, thread, 'dataloader' AS cause, name, ts_ns, ts_ns + dur_ns AS end_ns
FROM annotations
WHERE NOT on_device
    AND (name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%')
UNION ALL
SELECT rank, thread, 'dataloader', name, ts_ns, ts_ns + dur_ns
FROM cpu_ops
WHERE name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%'
UNION ALL
SELECT rank, thread, 'sync', name, ts_ns, ts_ns + dur_ns
FROM runtime_calls
WHERE name LIKE '%Synchronize'
    OR name IN ('cudaMemcpy', 'cudaMemcpy2D', 'cudaMemset', 'hipMemcpy', 'hipMemcpy2D', 'hipMemcpyWithStream', 'hipMemset')
UNION ALL
-- Asynchronous by name only: copies from or to pageable memory return when the copy is done.
SELECT rank, launch_thread, 'sync', launch_name, launch_ts_ns, launch_ts_ns + launch_dur_ns
FROM memcpys
WHERE launch_ts_ns + launch_dur_ns >= ts_ns + dur_ns
