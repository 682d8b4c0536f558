--! question = "Are the kernels too short to keep the GPU busy?"
--! row = "one device of one rank"
--! window = "counted_steps"
--! needs = ["device_activities", "device_windows", "graph_launches", "idle_gap_causes"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! short_kernel_us = { default = 100, doc = "a kernel shorter than this is short" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! kernel_count = { doc = "kernels launched before the last step", unit = "count", metric = "device" }
--! short_count = { doc = "short kernels", unit = "count", metric = "device" }
--! short_ratio = { doc = "share of kernels that are short", unit = "ratio", metric = "device" }
--! mean_ns = { doc = "mean duration of a kernel", unit = "ns", metric = "device" }
--! busy_ratio = { doc = "share of the complete steps in which a kernel, copy or fill runs, see gpu_utilization", unit = "ratio", metric = "device" }
--! short_gap_ns = { doc = "idle directly before a short kernel because that was not launched yet: causes op_dispatch, launch_api, copy_api and launch_latency", unit = "ns", metric = "device" }
--! short_gap_ratio = { doc = "share of the complete steps", unit = "ratio", metric = "device" }
--! stream_capture_ratio = { doc = "share of the complete steps in which the device is idle while a graph is captured, see idle_gap_causes", unit = "ratio", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
WITH kernels AS (
    SELECT
        rank, device,
        count(*) AS kernel_count,
        count_if!(dur_ns < $short_kernel_us * 1000) AS short_count,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns
    FROM device_activities
    WHERE category = 'kernel'
    GROUP BY rank, device
),
gaps AS (
    SELECT
        rank, device,
        sum(dur_ns) AS idle_ns,
        sum(CASE
            WHEN next_category = 'kernel' AND next_dur_ns < $short_kernel_us * 1000
                AND cause IN ('op_dispatch', 'launch_api', 'copy_api', 'launch_latency') THEN dur_ns
            ELSE 0
        END) AS short_gap_ns,
        sum_if!(dur_ns, cause = 'stream_capture') AS stream_capture_ns
    FROM idle_gap_causes
    GROUP BY rank, device
)
SELECT
    k.rank, k.device, k.kernel_count, k.short_count,
    CAST(k.short_count AS DOUBLE) / k.kernel_count AS short_ratio,
    k.mean_ns,
    1 - ratio!(coalesce(g.idle_ns, 0), w.window_ns) AS busy_ratio,
    coalesce(g.short_gap_ns, 0) AS short_gap_ns,
    ratio!(coalesce(g.short_gap_ns, 0), w.window_ns) AS short_gap_ratio,
    ratio!(coalesce(g.stream_capture_ns, 0), w.window_ns) AS stream_capture_ratio,
    n.graph_launch_count
FROM kernels k
JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
LEFT JOIN gaps g ON g.rank = k.rank AND g.device = k.device
JOIN graph_launches n ON n.rank = k.rank
