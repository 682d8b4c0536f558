--! question = "How much does each family of kernels use tensor cores, DRAM and SMs, by hardware counters?"
--! row = "one family of kernels on one GPU: means over the sampling intervals that the family fills"
--! window = "counted_steps"
--! sort = ["family_ns"]
--! needs = ["gpu_counter_samples", "device_windows"]
--! order = ["rank", "device", "family"]
--! requires = ["counters"]
--! when_empty = "no kernel runs in a sampling interval of tensor core, DRAM or SM counters: record with PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! family = "matmul, convolution, attention, pointwise, communication, copy or other"
--! family_ns = { doc = "time within sampling intervals in which the family runs, alone or beside others", unit = "ns" }
--! window_ratio = { doc = "family_ns over the sampled time", unit = "ratio" }
--! sample_count = { doc = "sampling intervals that the family fills: it runs for at least 80 % of the interval", unit = "count" }
--! tensor_ratio = { doc = "use of the tensor cores over the peak, in these intervals; absent if there are none or the counter was not sampled, like the next three", unit = "ratio" }
--! dram_ratio = { doc = "throughput of DRAM over the peak, in these intervals", unit = "ratio" }
--! sm_active_ratio = { doc = "SMs with a warp over all SMs, in these intervals", unit = "ratio" }
--! occupancy_ratio = { doc = "warps on the SMs over their slots, in these intervals", unit = "ratio" }
--! dram_bound_ns = { doc = "time of these intervals in which DRAM reaches 80 % of its peak", unit = "ns" }
-- Kernels are often shorter than a sampling interval, so only intervals that one family fills describe the family.
WITH counted AS (
    SELECT s.*
    FROM gpu_counter_samples s
    JOIN device_windows w ON w.rank = s.rank AND w.device = s.device
    WHERE s.ts_ns >= w.start_ns AND s.ts_ns + s.dur_ns <= w.end_ns
),
parts AS (
    SELECT rank, device, 'matmul' AS family, matmul_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'convolution' AS family, convolution_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'attention' AS family, attention_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'pointwise' AS family, pointwise_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'communication' AS family, communication_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'copy' AS family, copy_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
    UNION ALL
    SELECT rank, device, 'other' AS family, other_ns AS family_ns, dur_ns, tensor_ratio, dram_ratio, sm_active_ratio, occupancy_ratio FROM counted
),
marked AS (
    SELECT
        rank, device, family, family_ns, dur_ns,
        family_ns >= 0.8 * dur_ns AS is_own,
        CASE WHEN family_ns >= 0.8 * dur_ns THEN tensor_ratio END AS tensor_ratio,
        CASE WHEN family_ns >= 0.8 * dur_ns THEN dram_ratio END AS dram_ratio,
        CASE WHEN family_ns >= 0.8 * dur_ns THEN sm_active_ratio END AS sm_active_ratio,
        CASE WHEN family_ns >= 0.8 * dur_ns THEN occupancy_ratio END AS occupancy_ratio
    FROM parts
)
SELECT
    rank, device, family,
    sum(family_ns) AS family_ns,
    ratio!(sum(family_ns), sum(dur_ns)) AS window_ratio,
    count_if!(is_own) AS sample_count,
    weighted_mean!(tensor_ratio, dur_ns) AS tensor_ratio,
    weighted_mean!(dram_ratio, dur_ns) AS dram_ratio,
    weighted_mean!(sm_active_ratio, dur_ns) AS sm_active_ratio,
    weighted_mean!(occupancy_ratio, dur_ns) AS occupancy_ratio,
    sum_if!(dur_ns, dram_ratio >= 0.8) AS dram_bound_ns
FROM marked
GROUP BY rank, device, family
HAVING sum(family_ns) > 0
