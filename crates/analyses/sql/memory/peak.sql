--! row = "one device of one rank"
--! needs = ["memory_events", "devices", "gpu_utilization"]
--! order = ["rank", "device"]
--! when_empty = "the trace holds no allocator events with totals (profile_memory was off, or the profiler is older than torch 1.10)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! peak_allocated_bytes = { doc = "most memory allocated at once", unit = "bytes", metric = "device" }
--! peak_reserved_bytes = { doc = "most memory the caching allocator held at once", unit = "bytes", metric = "device" }
--! total_memory_bytes = { doc = "memory on the device; absent where the trace does not say", unit = "bytes", metric = "device" }
--! allocated_ratio = { doc = "peak allocation over memory on the device", unit = "ratio", metric = "device" }
--! reserved_ratio = { doc = "peak reservation over memory on the device", unit = "ratio", metric = "device" }
--! busy_ratio = { doc = "share of the steps in which the device runs anything", unit = "ratio", metric = "device" }
WITH peaks AS (
    SELECT
        rank, device,
        max(total_allocated_bytes) AS peak_allocated_bytes,
        max(total_reserved_bytes) AS peak_reserved_bytes
    FROM memory_events
    WHERE device_type <> 0 AND device >= 0
        AND (total_allocated_bytes IS NOT NULL OR total_reserved_bytes IS NOT NULL)
    GROUP BY rank, device
)
SELECT
    p.rank, p.device, p.peak_allocated_bytes, p.peak_reserved_bytes, d.total_memory_bytes,
    CAST(p.peak_allocated_bytes AS DOUBLE) / nullif(d.total_memory_bytes, 0) AS allocated_ratio,
    CAST(p.peak_reserved_bytes AS DOUBLE) / nullif(d.total_memory_bytes, 0) AS reserved_ratio,
    coalesce(u.busy_ratio, o.busy_ratio) AS busy_ratio
FROM peaks p
LEFT JOIN devices d ON d.rank = p.rank AND d.device = p.device
LEFT JOIN gpu_utilization u ON u.rank = p.rank AND u.device = p.device
-- Allocators count the devices a process sees, tracers those of the machine: where a rank uses one
-- device, both mean that one.
LEFT JOIN (
    SELECT rank, max(busy_ratio) AS busy_ratio
    FROM gpu_utilization
    GROUP BY rank
    HAVING count(*) = 1
) o ON o.rank = p.rank
