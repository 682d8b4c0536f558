--! row = "one device activity and the call that launched it"
--! needs = ["device_activities"]
--! order = ["rank", "correlation", "ts_ns"]
--! when_empty = "no device activity has its launching call in the trace"
--! [columns]
--! rank = "rank"
--! correlation = "id shared by call and activity"
--! launch_name = "function that launched it; launches of graphs are left out, whose activities follow one another by themselves"
--! device = "device ordinal"
--! stream = "stream on the device"
--! ts_ns = { doc = "start of the activity", unit = "ns" }
--! launch_dur_ns = { doc = "duration of the call", unit = "ns" }
--! device_dur_ns = { doc = "duration of the activity", unit = "ns" }
--! launch_delay_ns = { doc = "from the end of the call to the start of the activity, at least 0", unit = "ns" }
SELECT
    rank, correlation, launch_name, device, stream, ts_ns,
    launch_end_ns - launch_ts_ns AS launch_dur_ns,
    dur_ns AS device_dur_ns,
    greatest(ts_ns - launch_end_ns, 0) AS launch_delay_ns
FROM device_activities
WHERE launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
