--! row = "one device of one rank: its idle time, each nanosecond under one cause"
--! needs = ["device_gaps", "device_windows", "graph_launches"]
--! order = ["rank", "device"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! idle_ns = { doc = "the device runs nothing", unit = "ns", metric = "device" }
--! idle_ratio = { doc = "idle share of the window", unit = "ratio", metric = "device" }
--! dataloader_ns = { doc = "idle while the launching thread was loading data", unit = "ns", metric = "device" }
--! dataloader_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! sync_ns = { doc = "idle from where the device drained under a call that waited for it to the next start", unit = "ns", metric = "device" }
--! sync_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! host_ns = { doc = "idle because the next launch had not returned, or never came", unit = "ns", metric = "device" }
--! host_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! device_wait_ns = { doc = "idle though the next activity had been launched: it waited for another stream, or for its turn", unit = "ns", metric = "device" }
--! device_wait_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! unlinked_ns = { doc = "idle before an activity whose launch is not in the trace", unit = "ns", metric = "device" }
--! unlinked_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! step_count = { doc = "steps in the window", unit = "count", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
WITH sums AS (
    SELECT
        rank, device,
        sum(dur_ns) AS idle_ns,
        sum(dataloader_ns) AS dataloader_ns,
        sum(sync_ns) AS sync_ns,
        sum(host_ns) AS host_ns,
        sum(device_wait_ns) AS device_wait_ns,
        sum(unlinked_ns) AS unlinked_ns
    FROM device_gaps
    GROUP BY rank, device
)
SELECT
    w.rank, w.device, w.window_ns,
    coalesce(s.idle_ns, 0) AS idle_ns,
    CAST(coalesce(s.idle_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS idle_ratio,
    coalesce(s.dataloader_ns, 0) AS dataloader_ns,
    CAST(coalesce(s.dataloader_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS dataloader_ratio,
    coalesce(s.sync_ns, 0) AS sync_ns,
    CAST(coalesce(s.sync_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS sync_ratio,
    coalesce(s.host_ns, 0) AS host_ns,
    CAST(coalesce(s.host_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS host_ratio,
    coalesce(s.device_wait_ns, 0) AS device_wait_ns,
    CAST(coalesce(s.device_wait_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS device_wait_ratio,
    coalesce(s.unlinked_ns, 0) AS unlinked_ns,
    CAST(coalesce(s.unlinked_ns, 0) AS DOUBLE) / nullif(w.window_ns, 0) AS unlinked_ratio,
    w.step_count,
    g.graph_launch_count
FROM device_windows w
LEFT JOIN sums s ON s.rank = w.rank AND s.device = w.device
JOIN graph_launches g ON g.rank = w.rank
