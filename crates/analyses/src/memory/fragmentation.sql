--! question = "How much memory does the caching allocator hold without using it?"
--! row = "one device of one rank: memory that its caching allocator holds and does not use"
--! window = "recording"
--! needs = ["memory_log", "devices"]
--! order = ["rank", "memory"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events of a GPU with totals (record with profile_memory=True and torch 1.10 or newer)"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..."
--! device = "device ordinal"
--! peak_allocated_bytes = { doc = "most that was allocated at once", unit = "bytes", metric = "device" }
--! reserved_at_peak_bytes = { doc = "held by the caching allocator at that moment", unit = "bytes", metric = "device" }
--! unused_at_peak_bytes = { doc = "held but not allocated at that moment", unit = "bytes", metric = "device" }
--! fragmentation_ratio = { doc = "that over what was held", unit = "ratio", metric = "device" }
--! mean_fragmentation_ratio = { doc = "held but not allocated over held, both averaged over time", unit = "ratio", metric = "device" }
--! unused_ratio = { doc = "bytes reserved but not allocated at the peak, over the memory of the device; absent where the trace does not say how much there is", unit = "ratio", metric = "device" }
--! peak_reserved_bytes = { doc = "most that was held at once", unit = "bytes", metric = "device" }
--! total_memory_bytes = { doc = "memory on the device; absent where the trace does not say", unit = "bytes", metric = "device" }
--! reserve_growth_count = { doc = "events at which the allocator took more from the driver", unit = "count", metric = "device" }
--! reserve_growth_bytes = { doc = "bytes it took", unit = "bytes", metric = "device" }
--! reserve_return_count = { doc = "events at which it had given some back", unit = "count", metric = "device" }
--! reserve_return_bytes = { doc = "bytes it had returned", unit = "bytes", metric = "device" }
WITH levels AS (
    SELECT
        rank, memory, device, allocated_bytes, reserved_bytes,
        reserved_bytes - lag(reserved_bytes) OVER w AS taken_bytes,
        CAST(lead(ts_ns) OVER w - ts_ns AS DOUBLE) AS dur_ns,
        row_number() OVER (PARTITION BY rank, memory ORDER BY allocated_bytes DESC, position) AS from_top
    FROM memory_log
    WHERE reserved_bytes > 0 AND allocated_bytes <= reserved_bytes
    WINDOW w AS (PARTITION BY rank, memory ORDER BY position)
),
sums AS (
    SELECT
        rank, memory, min(device) AS device,
        max(allocated_bytes) AS peak_allocated_bytes,
        max(CASE WHEN from_top = 1 THEN reserved_bytes END) AS reserved_at_peak_bytes,
        sum((reserved_bytes - allocated_bytes) * dur_ns) / nullif(sum(reserved_bytes * dur_ns), 0) AS mean_fragmentation_ratio,
        max(reserved_bytes) AS peak_reserved_bytes,
        count_if!(taken_bytes > 0) AS reserve_growth_count,
        sum(greatest(coalesce(taken_bytes, 0), 0)) AS reserve_growth_bytes,
        count_if!(taken_bytes < 0) AS reserve_return_count,
        sum(greatest(coalesce(-taken_bytes, 0), 0)) AS reserve_return_bytes
    FROM levels
    GROUP BY rank, memory
)
SELECT
    s.rank, s.memory, s.device, s.peak_allocated_bytes, s.reserved_at_peak_bytes,
    s.reserved_at_peak_bytes - s.peak_allocated_bytes AS unused_at_peak_bytes,
    CAST(s.reserved_at_peak_bytes - s.peak_allocated_bytes AS DOUBLE) / s.reserved_at_peak_bytes AS fragmentation_ratio,
    s.mean_fragmentation_ratio,
    ratio!(s.reserved_at_peak_bytes - s.peak_allocated_bytes, d.total_memory_bytes) AS unused_ratio,
    s.peak_reserved_bytes, d.total_memory_bytes,
    s.reserve_growth_count, s.reserve_growth_bytes, s.reserve_return_count, s.reserve_return_bytes
FROM sums s
LEFT JOIN devices d ON d.rank = s.rank AND d.device = s.device
