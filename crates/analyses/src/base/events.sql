--! question = "Which events of any kind happened, in order of time?"
--! row = "one event of the trace, whatever its kind"
--! window = "recording"
--! needs = ["cpu_ops", "runtime_calls", "annotations", "python_frames", "kernels", "memcpys", "memsets", "device_syncs", "profiler_ranges", "memory_events", "counters", "flows", "instants", "spans", "unpaired_events"]
--! order = ["rank", "ts_ns", "event_id"]
--! [columns]
--! rank = "rank"
--! event_id = "position in the file's event list"
--! stored_in = "table that holds the event with all its columns"
--! name = "name"
--! ts_ns = { doc = "start, or when", unit = "ns" }
--! dur_ns = { doc = "duration, for events that have one", unit = "ns" }
--! thread = "lane, see threads; absent for counters that an agent sampled"
--! device = "device ordinal, for device events"
--! stream = "stream on the device, for device events"
--! step = "step it belongs to"
--! args = "arguments that no column holds, JSON"
SELECT rank, event_id, 'cpu_ops' AS stored_in, name, ts_ns, dur_ns, thread, CAST(NULL AS INT) AS device,
    CAST(NULL AS INT) AS stream, step, args
FROM cpu_ops
UNION ALL
SELECT rank, event_id, 'runtime_calls', name, ts_ns, dur_ns, thread, NULL, NULL, step, args FROM runtime_calls
UNION ALL
SELECT rank, event_id, 'annotations', name, ts_ns, dur_ns, thread, NULL, NULL, step, args FROM annotations
UNION ALL
SELECT rank, event_id, 'python_frames', name, ts_ns, dur_ns, thread, NULL, NULL, step, args FROM python_frames
UNION ALL
SELECT rank, event_id, 'kernels', name, ts_ns, dur_ns, thread, device, stream, step, args FROM kernels
UNION ALL
SELECT rank, event_id, 'memcpys', name, ts_ns, dur_ns, thread, device, stream, step, args FROM memcpys
UNION ALL
SELECT rank, event_id, 'memsets', name, ts_ns, dur_ns, thread, device, stream, step, args FROM memsets
UNION ALL
SELECT rank, event_id, 'device_syncs', name, ts_ns, dur_ns, thread, device, stream, step, args FROM device_syncs
UNION ALL
SELECT rank, event_id, 'profiler_ranges', name, ts_ns, dur_ns, thread, device, stream, step, args FROM profiler_ranges
UNION ALL
SELECT rank, event_id, 'memory_events', arrow_cast('[memory]', 'Dictionary(Int32, Utf8)'), ts_ns, NULL, thread, device, NULL, step, args
FROM memory_events
UNION ALL
SELECT rank, event_id, 'counters', name, ts_ns, NULL, thread, NULL, NULL, NULL, NULL FROM counters
UNION ALL
SELECT rank, event_id, 'flows', category, ts_ns, NULL, thread, NULL, NULL, NULL, NULL FROM flows
UNION ALL
SELECT rank, event_id, 'instants', name, ts_ns, NULL, thread, NULL, NULL, NULL, args FROM instants
UNION ALL
SELECT rank, event_id, 'spans', name, ts_ns, dur_ns, thread, NULL, NULL, step, args FROM spans
UNION ALL
SELECT rank, event_id, 'unpaired_events', name, ts_ns, NULL, thread, NULL, NULL, NULL, args FROM unpaired_events
