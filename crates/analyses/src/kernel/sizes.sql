--! question = "Are the kernels too short to keep the GPU busy?"
--! row = "one device of one rank"
--! window = "counted_steps"
--! needs = ["device_activities", "gpu_idle_causes"]
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
--! short_gap_ns = { doc = "idle directly before a short kernel because that was not launched yet, see short_dispatch_ns of gpu_idle_causes", unit = "ns", metric = "device" }
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
)
SELECT
    k.rank, k.device, k.kernel_count, k.short_count,
    CAST(k.short_count AS DOUBLE) / k.kernel_count AS short_ratio,
    k.mean_ns,
    1 - i.idle_ratio AS busy_ratio,
    i.short_dispatch_ns AS short_gap_ns,
    ratio!(i.short_dispatch_ns, i.window_ns) AS short_gap_ratio,
    i.stream_capture_ratio,
    i.graph_launch_count
FROM kernels k
JOIN gpu_idle_causes i ON i.rank = k.rank AND i.device = k.device
