--! question = "How much do tensor cores, DRAM and SMs of each GPU work in each step, by hardware counters?"
--! row = "one step of one GPU: means of its sampling intervals"
--! window = "counted_steps"
--! needs = ["gpu_counter_samples", "device_windows"]
--! order = ["rank", "device", "step"]
--! requires = ["counters"]
--! when_empty = "no step holds a whole sampling interval of the counters of tensor cores, DRAM or SMs: record with PerformanceMetricsConfig (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! step = "step number"
--! sample_count = { doc = "sampling intervals that lie in the step as a whole", unit = "count", metric = "step" }
--! tensor_ratio = { doc = "work of tensor cores over the peak, idle time included; so are all that follow. Absent where the counter was not sampled", unit = "ratio", metric = "step" }
--! dram_ratio = { doc = "throughput of DRAM over the peak", unit = "ratio", metric = "step" }
--! sm_active_ratio = { doc = "SMs with a warp, over all", unit = "ratio", metric = "step" }
--! occupancy_ratio = { doc = "warps on the SMs, over their slots", unit = "ratio", metric = "step" }
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
