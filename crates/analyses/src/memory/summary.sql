--! question = "How much memory was allocated, released and held at the peak?"
--! row = "one memory of one rank over the recording"
--! window = "recording"
--! needs = ["memory_log"]
--! order = ["rank", "memory"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events: record with profile_memory=True"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! event_count = { doc = "allocations and releases", unit = "count" }
--! allocation_count = { doc = "allocations", unit = "count" }
--! allocation_bytes = { doc = "bytes of all allocations", unit = "bytes" }
--! start_bytes = { doc = "allocated before the first event; absent where the allocator does not say (torch 1.9 and older, mapped memory)", unit = "bytes" }
--! end_bytes = { doc = "allocated after the last event", unit = "bytes" }
--! change_bytes = { doc = "allocated less released within the recording", unit = "bytes" }
--! peak_allocated_bytes = { doc = "most that was allocated after any event", unit = "bytes" }
--! peak_reserved_bytes = { doc = "most that the caching allocator held after any event", unit = "bytes" }
--! peak_change_bytes = { doc = "most that was allocated and not released since the recording began", unit = "bytes" }
--! peak_ts_ns = { doc = "when the most was allocated, the first time; without totals, when the most was allocated and not released", unit = "ns" }
--! peak_step = "step at that time"
--! peak_phase = "dataloader, forward, backward, optimizer or other, at that time"
--! peak_position = "place of that event in the order of the events of this memory"
WITH ordered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY rank, memory ORDER BY allocated_bytes DESC NULLS LAST, change_bytes DESC, position
        ) AS from_top
    FROM memory_log
)
SELECT
    rank, memory, min(device) AS device,
    count(*) AS event_count,
    count_if!(bytes > 0) AS allocation_count,
    sum(greatest(bytes, 0)) AS allocation_bytes,
    first_value(allocated_bytes - bytes ORDER BY position) AS start_bytes,
    last_value(allocated_bytes ORDER BY position) AS end_bytes,
    sum(bytes) AS change_bytes,
    max(allocated_bytes) AS peak_allocated_bytes,
    max(reserved_bytes) AS peak_reserved_bytes,
    max(change_bytes) AS peak_change_bytes,
    max(CASE WHEN from_top = 1 THEN ts_ns END) AS peak_ts_ns,
    max(CASE WHEN from_top = 1 THEN step END) AS peak_step,
    max(CASE WHEN from_top = 1 THEN phase END) AS peak_phase,
    max(CASE WHEN from_top = 1 THEN position END) AS peak_position
FROM ordered
GROUP BY rank, memory
