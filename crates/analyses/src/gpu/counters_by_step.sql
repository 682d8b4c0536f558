--! question = "How much are the tensor cores, DRAM and SMs of each GPU used in each step, by hardware counters?"
--! row = "one step on one GPU: means over its sampling intervals"
--! window = "counted_steps"
--! needs = ["gpu_counter_samples", "device_windows"]
--! order = ["rank", "device", "step"]
--! requires = ["counters"]
--! when_empty = "no step contains a whole sampling interval of tensor core, DRAM or SM counters: record with PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! step = "step number"
--! sample_count = { doc = "sampling intervals that are completely within the step", unit = "count", metric = "step" }
--! tensor_ratio = { doc = "use of the tensor cores over the peak, including idle time; absent if the counter was not sampled, like the next three", unit = "ratio", metric = "step" }
--! dram_ratio = { doc = "throughput of DRAM over the peak, including idle time", unit = "ratio", metric = "step" }
--! sm_active_ratio = { doc = "SMs with a warp over all SMs, including idle time", unit = "ratio", metric = "step" }
--! occupancy_ratio = { doc = "warps on the SMs over their slots, including idle time", unit = "ratio", metric = "step" }
SELECT
    s.rank, s.device, s.step,
    count(*) AS sample_count,
    weighted_mean!(s.tensor_ratio, s.dur_ns) AS tensor_ratio,
    weighted_mean!(s.dram_ratio, s.dur_ns) AS dram_ratio,
    weighted_mean!(s.sm_active_ratio, s.dur_ns) AS sm_active_ratio,
    weighted_mean!(s.occupancy_ratio, s.dur_ns) AS occupancy_ratio
FROM gpu_counter_samples s
JOIN device_windows w ON w.rank = s.rank AND w.device = s.device
WHERE s.step IS NOT NULL AND s.ts_ns >= w.start_ns AND s.ts_ns + s.dur_ns <= w.end_ns
GROUP BY s.rank, s.device, s.step
