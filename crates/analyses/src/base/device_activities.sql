--! question = "Which kernels, copies and fills ran, and what launched them?"
--! row = "one kernel, copy or fill in the analyzed window"
--! window = "before_last_step"
--! needs = ["device_work", "ranks"]
--! order = ["rank", "device", "ts_ns", "event_id"]
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
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
-- As in HTA: where a rank has two profiler steps or more, work launched from the start of the last
-- one on is incomplete and left out, and so is work whose launch is not in the trace.
SELECT w.*
FROM device_work w
JOIN ranks r ON r.rank = w.rank
WHERE r.cut_ns IS NULL
    OR w.launch_ts_ns < r.cut_ns
    OR ($include_last_step AND w.launch_ts_ns <= r.steps_end_ns)
