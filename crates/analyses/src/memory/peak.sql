--! question = "How close does memory come to the GPU's capacity?"
--! row = "one device of one rank"
--! window = "recording"
--! needs = ["memory_summary", "devices", "gpu_utilization"]
--! order = ["rank", "device"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events of a GPU with totals (record with profile_memory=True and torch 1.10 or newer)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal; the host's memory is in memory_summary"
--! memory = "memory space: cuda:0, hip:0 ..."
--! peak_allocated_bytes = { doc = "most memory allocated at once", unit = "bytes", metric = "device" }
--! peak_reserved_bytes = { doc = "most memory the caching allocator held at once", unit = "bytes", metric = "device" }
--! total_memory_bytes = { doc = "memory on the device; absent where the trace does not say", unit = "bytes", metric = "device" }
--! allocated_ratio = { doc = "peak allocation over memory on the device", unit = "ratio", metric = "device" }
--! reserved_ratio = { doc = "peak reservation over memory on the device", unit = "ratio", metric = "device" }
--! busy_ratio = { doc = "share of the steps in which the device runs anything", unit = "ratio", metric = "device" }
--! unattributed_ratio = { doc = "share of the steps that is idle and that no fix returns, see gpu_utilization", unit = "ratio", metric = "device" }
--! peak_ts_ns = { doc = "when the most was allocated, the first time; memory_peak_holders says by what", unit = "ns" }
--! peak_step = "step at that time"
--! peak_phase = "dataloader, forward, backward, optimizer or other, at that time"
SELECT
    p.rank, p.device, p.memory, p.peak_allocated_bytes, p.peak_reserved_bytes, d.total_memory_bytes,
    ratio!(p.peak_allocated_bytes, d.total_memory_bytes) AS allocated_ratio,
    ratio!(p.peak_reserved_bytes, d.total_memory_bytes) AS reserved_ratio,
    coalesce(u.busy_ratio, o.busy_ratio) AS busy_ratio,
    coalesce(u.unattributed_ratio, o.unattributed_ratio) AS unattributed_ratio,
    p.peak_ts_ns, p.peak_step, p.peak_phase
FROM memory_summary p
LEFT JOIN devices d ON d.rank = p.rank AND d.device = p.device
LEFT JOIN gpu_utilization u ON u.rank = p.rank AND u.device = p.device
-- Allocators count the devices a process sees, tracers those of the machine: where a rank uses one
-- device, both mean that one.
LEFT JOIN (
    SELECT rank, max(busy_ratio) AS busy_ratio, max(unattributed_ratio) AS unattributed_ratio
    FROM gpu_utilization
    GROUP BY rank
    HAVING count(*) = 1
) o ON o.rank = p.rank
WHERE p.device >= 0 AND (p.peak_allocated_bytes IS NOT NULL OR p.peak_reserved_bytes IS NOT NULL)
