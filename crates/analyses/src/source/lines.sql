--! question = "Which source lines cost the most?"
--! row = "one line of the program on one rank: host and device time it caused"
--! window = "recording"
--! sort = ["device_ns", "operator_self_ns"]
--! needs = ["cpu_ops", "runtime_calls", "annotations", "kernels", "memcpys", "memsets"]
--! order = ["rank", "source"]
--! requires = ["python_stacks"]
--! when_empty = "the trace does not say which line of the program does what: record call stacks (with_stack=True)"
--! [columns]
--! rank = "rank"
--! source = "line of the program: train.py:112; see cpu_ops"
--! operator_count = { doc = "operators called, those inside others included", unit = "count", metric = "line" }
--! operator_self_ns = { doc = "time of these on the host, less what is inside them", unit = "ns", metric = "line" }
--! launch_count = { doc = "kernels, copies and fills launched", unit = "count", metric = "line" }
--! device_ns = { doc = "time of these on the device, overlap not merged", unit = "ns", metric = "line" }
--! communication_ns = { doc = "that of communication kernels", unit = "ns", metric = "line" }
--! copy_ns = { doc = "that of copies and fills", unit = "ns", metric = "line" }
--! data_loading_ns = { doc = "time inside __next__ of a DataLoader or DataPipe", unit = "ns", metric = "line" }
--! sync_ns = { doc = "time in calls that return when the device has caught up: synchronization, copies that block", unit = "ns", metric = "line" }
--! optimizer_ns = { doc = "time inside Optimizer.step, on the host", unit = "ns", metric = "line" }
-- The whole recording. Loading and waiting are those of host_waits.
WITH parts AS (
    SELECT
        rank, source, count(*) AS operator_count, sum(self_dur_ns) AS operator_self_ns,
        0 AS launch_count, 0 AS device_ns, 0 AS communication_ns, 0 AS copy_ns,
        sum_if!(dur_ns, name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%') AS data_loading_ns,
        0 AS sync_ns, 0 AS optimizer_ns
    FROM cpu_ops
    WHERE source IS NOT NULL
    GROUP BY rank, source
    UNION ALL
    SELECT
        rank, source, 0, 0, 0, 0, 0, 0,
        sum_if!(dur_ns, name LIKE 'enumerate(DataLoader)#%.\_\_next\_\_' OR name LIKE 'enumerate(DataPipe)#%'),
        0,
        sum_if!(dur_ns, name LIKE 'Optimizer.step#%')
    FROM annotations
    WHERE source IS NOT NULL AND NOT on_device
    GROUP BY rank, source
    UNION ALL
    SELECT rank, source, 0, 0, 0, 0, 0, 0, 0, sum(dur_ns), 0
    FROM runtime_calls
    WHERE source IS NOT NULL
        AND (name LIKE '%Synchronize'
            OR name IN ('cudaMemcpy', 'cudaMemcpy2D', 'cudaMemset', 'hipMemcpy', 'hipMemcpy2D', 'hipMemcpyWithStream', 'hipMemset'))
    GROUP BY rank, source
    UNION ALL
    SELECT
        rank, source, 0, 0, count(*), sum(dur_ns),
        sum_if!(dur_ns, kind = 'communication'), 0, 0, 0, 0
    FROM kernels
    WHERE source IS NOT NULL
    GROUP BY rank, source
    UNION ALL
    -- Asynchronous by name only: copies from or to pageable memory return when the copy is done.
    SELECT
        rank, source, 0, 0, count(*), sum(dur_ns), 0, sum(dur_ns), 0,
        sum(CASE
            WHEN launch_ts_ns + launch_dur_ns >= ts_ns + dur_ns
                AND launch_name NOT IN ('cudaMemcpy', 'cudaMemcpy2D', 'hipMemcpy', 'hipMemcpy2D', 'hipMemcpyWithStream')
            THEN launch_dur_ns ELSE 0
        END), 0
    FROM memcpys
    WHERE source IS NOT NULL
    GROUP BY rank, source
    UNION ALL
    SELECT rank, source, 0, 0, count(*), sum(dur_ns), 0, sum(dur_ns), 0, 0, 0
    FROM memsets
    WHERE source IS NOT NULL
    GROUP BY rank, source
)
SELECT
    rank, source,
    sum(operator_count) AS operator_count,
    sum(operator_self_ns) AS operator_self_ns,
    sum(launch_count) AS launch_count,
    sum(device_ns) AS device_ns,
    sum(communication_ns) AS communication_ns,
    sum(copy_ns) AS copy_ns,
    sum(data_loading_ns) AS data_loading_ns,
    sum(sync_ns) AS sync_ns,
    sum(optimizer_ns) AS optimizer_ns
FROM parts
GROUP BY rank, source
