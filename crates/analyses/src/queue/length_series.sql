--! question = "How does the queue of each stream change over time?"
--! row = "one change of the number of activities that wait on a stream"
--! window = "before_last_step"
--! needs = ["device_activities"]
--! order = ["rank", "device", "stream", "ts_ns"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no device activity has its launching call in the trace: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! ts_ns = { doc = "when", unit = "ns" }
--! queue_length = { doc = "activities launched and not yet started, from here to the next change", unit = "number" }
--! dur_ns = { doc = "until the next change: 0 where others follow in the same moment, absent at the last", unit = "ns" }
-- A launch adds one when the call starts, the activity takes it off when it starts itself. Graphs are
-- left out: one launch stands for many activities.
WITH boundaries AS (
    SELECT rank, device, stream, launch_ts_ns AS ts_ns, 0 AS turn, 1 AS delta
    FROM device_activities
    WHERE launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
    UNION ALL
    SELECT rank, device, stream, ts_ns, 1, -1
    FROM device_activities
    WHERE launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
)
SELECT
    rank, device, stream, ts_ns,
    sum(delta) OVER w AS queue_length,
    lead(ts_ns) OVER w - ts_ns AS dur_ns
FROM boundaries
WINDOW w AS running!(PARTITION BY rank, device, stream ORDER BY ts_ns, turn)
