--! question = "Which gaps lie between the activities of each stream?"
--! row = "the time between two activities that follow each other on one stream"
--! window = "before_last_step"
--! needs = ["device_activities"]
--! order = ["rank", "device", "stream", "ts_ns"]
--! when_empty = "no stream of the trace runs two activities one after the other"
--! [params]
--! consecutive_kernel_delay_us = { default = 30, doc = "a shorter gap between activities already launched is the ordinary cost of starting the next one" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! idle_category = "host_wait (the next activity was launched after the gap began), kernel_wait (launched before, and the gap is shorter than consecutive_kernel_delay_us) or other (launched before, yet the gap is long; or the launch is not in the trace)"
--! ts_ns = { doc = "start: all work of the stream so far has ended", unit = "ns" }
--! dur_ns = { doc = "until the next activity starts; 0 where it follows at once", unit = "ns" }
--! next_event_id = "that activity"
WITH runs AS (
    SELECT
        rank, device, stream, ts_ns, event_id, launch_ts_ns,
        max_before!(end_ns, PARTITION BY rank, device, stream ORDER BY ts_ns, event_id) AS busy_until_ns
    FROM device_activities
)
SELECT
    rank, device, stream,
    CASE
        WHEN launch_ts_ns > busy_until_ns THEN 'host_wait'
        WHEN ts_ns - busy_until_ns < $consecutive_kernel_delay_us * 1000 THEN 'kernel_wait'
        ELSE 'other'
    END AS idle_category,
    busy_until_ns AS ts_ns,
    ts_ns - busy_until_ns AS dur_ns,
    event_id AS next_event_id
FROM runs
WHERE ts_ns >= busy_until_ns
