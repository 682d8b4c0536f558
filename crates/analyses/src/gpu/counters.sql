--! question = "How much are the tensor cores, DRAM and SMs of each GPU used while it is busy, by hardware counters?"
--! row = "one GPU: means over the sampling intervals that kernels, copies and fills occupy"
--! window = "counted_steps"
--! needs = ["gpu_counter_samples", "gpu_counters_by_family", "device_windows"]
--! order = ["rank", "device"]
--! requires = ["counters"]
--! when_empty = "the steps contain no samples of tensor core, DRAM or SM counters in percent of their peak: record with PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! sample_count = { doc = "sampling intervals", unit = "count", metric = "device" }
--! sampled_ns = { doc = "total time of the sampling intervals", unit = "ns", metric = "device" }
--! busy_ratio = { doc = "share of sampled_ns in which a kernel, copy or fill runs", unit = "ratio", metric = "device" }
--! busy_sample_count = { doc = "busy intervals: a kernel, copy or fill runs for at least 80 % of the interval", unit = "count", metric = "device" }
--! tensor_ratio = { doc = "use of the tensor cores over the peak, in busy intervals; absent if there are none or the counter was not sampled, like the next three", unit = "ratio", metric = "device" }
--! dram_ratio = { doc = "throughput of DRAM over the peak, in busy intervals", unit = "ratio", metric = "device" }
--! sm_active_ratio = { doc = "SMs with a warp over all SMs, in busy intervals", unit = "ratio", metric = "device" }
--! occupancy_ratio = { doc = "warps on the SMs over their slots, in busy intervals", unit = "ratio", metric = "device" }
--! dram_bound_ratio = { doc = "share of sampled time in which DRAM reaches 80 % of its peak; absent if its throughput was not sampled", unit = "ratio", metric = "device" }
--! dram_bound_mean_ratio = { doc = "throughput of DRAM over the peak in that time", unit = "ratio", metric = "device" }
--! dram_bound_family = "family of kernels with the most of that time; absent if no family fills an interval"
--! matmul_window_ratio = { doc = "share of sampled time in which a matmul runs", unit = "ratio", metric = "device" }
--! matmul_sample_count = { doc = "sampling intervals in which matmuls run for at least 80 % of the time", unit = "count", metric = "device" }
--! matmul_tensor_ratio = { doc = "use of the tensor cores over the peak in these intervals", unit = "ratio", metric = "device" }
--! matmul_dram_ratio = { doc = "throughput of DRAM over the peak in these intervals", unit = "ratio", metric = "device" }
WITH counted AS (
    SELECT
        s.*,
        s.busy_ns >= 0.8 * s.dur_ns AS is_busy
    FROM gpu_counter_samples s
    JOIN device_windows w ON w.rank = s.rank AND w.device = s.device
    WHERE s.ts_ns >= w.start_ns AND s.ts_ns + s.dur_ns <= w.end_ns
),
marked AS (
    SELECT
        rank, device, dur_ns, busy_ns, is_busy, dram_ratio AS any_dram_ratio,
        CASE WHEN is_busy THEN tensor_ratio END AS tensor_ratio,
        CASE WHEN is_busy THEN dram_ratio END AS dram_ratio,
        CASE WHEN is_busy THEN sm_active_ratio END AS sm_active_ratio,
        CASE WHEN is_busy THEN occupancy_ratio END AS occupancy_ratio,
        CASE WHEN dram_ratio >= 0.8 THEN dram_ratio END AS bound_ratio
    FROM counted
),
sums AS (
    SELECT
        rank, device,
        count(*) AS sample_count,
        sum(dur_ns) AS sampled_ns,
        ratio!(sum(busy_ns), sum(dur_ns)) AS busy_ratio,
        count_if!(is_busy) AS busy_sample_count,
        weighted_mean!(tensor_ratio, dur_ns) AS tensor_ratio,
        weighted_mean!(dram_ratio, dur_ns) AS dram_ratio,
        weighted_mean!(sm_active_ratio, dur_ns) AS sm_active_ratio,
        weighted_mean!(occupancy_ratio, dur_ns) AS occupancy_ratio,
        CASE WHEN count(any_dram_ratio) > 0 THEN ratio!(sum_if!(dur_ns, bound_ratio IS NOT NULL), sum(dur_ns)) END AS dram_bound_ratio,
        weighted_mean!(bound_ratio, dur_ns) AS dram_bound_mean_ratio
    FROM marked
    GROUP BY rank, device
),
bound AS (
    SELECT rank, device, first_value(family ORDER BY dram_bound_ns DESC, family) AS family
    FROM gpu_counters_by_family
    WHERE dram_bound_ns > 0
    GROUP BY rank, device
)
SELECT
    s.rank, s.device, s.sample_count, s.sampled_ns, s.busy_ratio, s.busy_sample_count,
    s.tensor_ratio, s.dram_ratio, s.sm_active_ratio, s.occupancy_ratio,
    s.dram_bound_ratio, s.dram_bound_mean_ratio, b.family AS dram_bound_family,
    coalesce(m.window_ratio, 0.0) AS matmul_window_ratio,
    coalesce(m.sample_count, 0) AS matmul_sample_count,
    m.tensor_ratio AS matmul_tensor_ratio,
    m.dram_ratio AS matmul_dram_ratio
FROM sums s
LEFT JOIN bound b ON b.rank = s.rank AND b.device = s.device
LEFT JOIN gpu_counters_by_family m ON m.rank = s.rank AND m.device = s.device AND m.family = 'matmul'
