--! question = "How long does each launch take, and how long does the kernel wait until it starts?"
--! row = "one device activity and the call that launched it"
--! window = "before_last_step"
--! needs = ["device_activities"]
--! order = ["rank", "correlation", "ts_ns"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no device activity has its launching call in the trace: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [params]
--! runtime_cutoff_us = { default = 50, doc = "a launching call longer than this is an outlier" }
--! launch_delay_cutoff_us = { default = 100, doc = "a longer delay from launch to start is an outlier" }
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
--! event_id = "the activity"
--! category = "kernel, memcpy or memset"
--! name = "name of the kernel, copy or fill"
--! is_short = "the activity is shorter than the call, and the call is no outlier"
--! is_runtime_outlier = "the call takes longer than runtime_cutoff_us"
--! is_delay_outlier = "the delay is longer than launch_delay_cutoff_us"
SELECT
    rank, correlation, launch_name, device, stream, ts_ns,
    launch_end_ns - launch_ts_ns AS launch_dur_ns,
    dur_ns AS device_dur_ns,
    greatest(ts_ns - launch_end_ns, 0) AS launch_delay_ns,
    event_id, category, name,
    launch_end_ns - launch_ts_ns <= $runtime_cutoff_us * 1000 AND dur_ns < launch_end_ns - launch_ts_ns AS is_short,
    launch_end_ns - launch_ts_ns > $runtime_cutoff_us * 1000 AS is_runtime_outlier,
    ts_ns - launch_end_ns > $launch_delay_cutoff_us * 1000 AND ts_ns > launch_end_ns AS is_delay_outlier
FROM device_activities
WHERE launch IS NOT NULL AND launch_name NOT LIKE '%GraphLaunch%'
