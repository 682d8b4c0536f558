--! question = "How well is each GPU used: busy time, SMs, occupancy, tensor cores?"
--! row = "one device on which a rank ran kernels"
--! window = "counted_steps"
--! needs = ["gpu_utilization", "gpu_tensor_cores", "device_properties", "device_work"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels (record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "product name; absent where the trace does not say"
--! vendor = "nvidia, amd, mtia or unknown"
--! total_memory_bytes = { doc = "memory on the device", unit = "bytes", metric = "device" }
--! compute_capability = "NVIDIA's compute capability, AMD's gfx generation: major.minor"
--! sm_count = { doc = "streaming multiprocessors (compute units on AMD)", unit = "count", metric = "device" }
--! kernel_busy_ratio = { doc = "GPU utilization: share of the steps in which a kernel runs", unit = "ratio", metric = "device" }
--! sm_efficiency_ratio = { doc = "estimated SM efficiency: blocks over SMs, added up over running kernels, at most 1, averaged over the steps", unit = "ratio", metric = "device" }
--! occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over kernels that have it", unit = "ratio", metric = "device" }
--! tensor_core_ratio = { doc = "share of the time of computing kernels in those that multiply on tensor cores, by name", unit = "ratio", metric = "device" }
--! tensor_core_unknown_ratio = { doc = "share of that time in kernels whose names do not show it", unit = "ratio", metric = "device" }
--! missing = "absent values, with the reason"
SELECT
    u.rank, u.device, p.name, p.vendor, p.total_memory_bytes,
    CASE WHEN p.compute_major IS NOT NULL AND p.compute_minor IS NOT NULL THEN
        concat(CAST(p.compute_major AS VARCHAR), '.', CAST(p.compute_minor AS VARCHAR))
    END AS compute_capability,
    CAST(p.sm_count AS BIGINT) AS sm_count,
    u.kernel_busy_ratio, u.sm_efficiency_ratio, u.occupancy_ratio,
    t.used_ratio AS tensor_core_ratio,
    t.unknown_ratio AS tensor_core_unknown_ratio,
    nullif(concat_ws(
        '; ',
        CASE WHEN p.sm_count IS NULL THEN 'the trace has no properties of this device' END,
        CASE WHEN u.sm_efficiency_ratio IS NULL THEN 'kernels with a tenth of the time or more do not say how many blocks they have' END,
        CASE WHEN u.occupancy_ratio IS NULL THEN
            CASE
                WHEN p.vendor = 'amd' THEN 'the profiler writes no occupancy on AMD, nor the registers and shared memory it depends on'
                ELSE 'no kernel has an occupancy in the trace'
            END
        END
    ), '') AS missing
FROM gpu_utilization u
JOIN device_properties p ON p.rank = u.rank AND p.device = u.device
LEFT JOIN gpu_tensor_cores t ON t.rank = u.rank AND t.device = u.device
WHERE EXISTS (SELECT 1 FROM device_work k WHERE k.rank = u.rank AND k.device = u.device AND k.category = 'kernel')
