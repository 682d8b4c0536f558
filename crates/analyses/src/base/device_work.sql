--! question = "Which kernels, copies and fills does the whole recording hold?"
--! row = "one kernel, copy or fill"
--! window = "recording"
--! needs = ["kernel_runs", "memcpys", "memsets"]
--! [columns]
--! rank = "rank"
--! event_id = "event"
--! category = "kernel, memcpy or memset"
--! kind = "computation, communication or memory"
--! name = "name of the kernel, copy or fill"
--! ts_ns = { doc = "start", unit = "ns" }
--! end_ns = { doc = "end", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! device = "device ordinal; -1 where the trace does not say"
--! stream = "stream on the device; -1 where the trace does not say"
--! correlation = "id shared with the launching call"
--! launch = "launching call; absent if the trace does not hold it"
--! launch_name = "function that launched it"
--! launch_ts_ns = { doc = "start of the launching call", unit = "ns" }
--! launch_end_ns = { doc = "end of the launching call", unit = "ns" }
--! launch_thread = "lane of the launching call"
--! step = "step of the launching call; by time where it has none"
--! bytes = { doc = "bytes copied or filled", unit = "bytes" }
--! blocks_per_sm = { doc = "blocks over SMs (compute units on AMD) of the device: as the profiler gives it, else from the grid", unit = "number" }
--! occupancy_ratio = { doc = "estimated achieved occupancy", unit = "ratio" }
--! thread = "lane, see threads"
--! op = "operator that launched it"
--! op_name = "name of that operator"
--! tensor_cores = "by name: yes, no or unknown: whether the kernel multiplies on tensor cores; absent for copies and fills"
SELECT
    rank, event_id, arrow_cast('kernel', 'Dictionary(Int32, Utf8)') AS category, kind, name,
    ts_ns, ts_ns + dur_ns AS end_ns, dur_ns,
    device, stream, correlation,
    launch, launch_name, launch_ts_ns, launch_end_ns, launch_thread, step,
    CAST(NULL AS BIGINT) AS bytes, blocks_per_sm, occupancy_ratio,
    thread, op, op_name, tensor_cores
FROM kernel_runs
UNION ALL
SELECT
    rank, event_id, arrow_cast('memcpy', 'Dictionary(Int32, Utf8)'), arrow_cast('memory', 'Dictionary(Int32, Utf8)'), name,
    ts_ns, ts_ns + dur_ns, dur_ns,
    coalesce(device, CAST(-1 AS INT)), coalesce(stream, CAST(-1 AS INT)), correlation,
    launch, launch_name, launch_ts_ns, launch_ts_ns + launch_dur_ns, launch_thread, step,
    bytes, CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE),
    thread, op, op_name, arrow_cast(NULL, 'Dictionary(Int32, Utf8)')
FROM memcpys
UNION ALL
SELECT
    rank, event_id, arrow_cast('memset', 'Dictionary(Int32, Utf8)'), arrow_cast('memory', 'Dictionary(Int32, Utf8)'), name,
    ts_ns, ts_ns + dur_ns, dur_ns,
    coalesce(device, CAST(-1 AS INT)), coalesce(stream, CAST(-1 AS INT)), correlation,
    launch, launch_name, launch_ts_ns, launch_ts_ns + launch_dur_ns, launch_thread, step,
    bytes, CAST(NULL AS DOUBLE), CAST(NULL AS DOUBLE),
    thread, op, op_name, arrow_cast(NULL, 'Dictionary(Int32, Utf8)')
FROM memsets
