--! question = "Which blocks of memory were allocated, by what, and how long did they live?"
--! row = "one block of memory: its allocation with its release, or one of the two if the other is not in the recording"
--! window = "recording"
--! needs = ["memory_log"]
--! order = ["rank", "memory", "position"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events: record with profile_memory=True"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! position = "place of the allocation (or of the release without one) in the order of the events of this memory"
--! address = "address; without one (torch 1.9 and older) nothing is paired"
--! bytes = { doc = "size", unit = "bytes" }
--! ts_ns = { doc = "allocated; absent if that was before the recording", unit = "ns" }
--! release_ts_ns = { doc = "released: the next release of the address on the same memory; absent if not within the recording", unit = "ns" }
--! dur_ns = { doc = "from one to the other", unit = "ns" }
--! step = "step of the allocation"
--! phase = "phase of the allocation: dataloader, forward, backward, optimizer or other"
--! op_name = "innermost operator that runs at the allocation on its thread; absent without an allocation"
--! outer_op_name = "the operator around that one"
--! module = "innermost nn.Module around the allocation"
--! annotation = "innermost annotation around the allocation"
--! release_step = "step of the release"
--! release_op_name = "innermost operator that runs at the release on its thread"
--! event_id = "event of the allocation"
--! release_event_id = "event of the release"
--! end_position = "position of the event that ends it: the release, or the next allocation at the address, whose release was not recorded"
-- The next event of the same address ends a block of memory. A release that no allocation precedes frees what
-- was there before the recording; one that follows another release has freed nothing that is known.
WITH neighbors AS (
    SELECT
        *,
        lag(bytes) OVER w > 0 AS follows_allocation,
        CASE WHEN address IS NOT NULL THEN lead(position) OVER w END AS next_position,
        CASE WHEN address IS NOT NULL THEN lead(bytes) OVER w < 0 END AS is_released,
        lead(ts_ns) OVER w AS next_ts_ns,
        lead(step) OVER w AS next_step,
        lead(op_name) OVER w AS next_op_name,
        lead(event_id) OVER w AS next_event_id
    FROM memory_log
    WHERE bytes <> 0
    WINDOW w AS (PARTITION BY rank, memory, address ORDER BY position)
)
SELECT
    rank, memory, device, position, address, bytes,
    ts_ns,
    CASE WHEN is_released THEN next_ts_ns END AS release_ts_ns,
    CASE WHEN is_released THEN next_ts_ns - ts_ns END AS dur_ns,
    step, phase, op_name, outer_op_name, module, annotation,
    CASE WHEN is_released THEN next_step END AS release_step,
    CASE WHEN is_released THEN next_op_name END AS release_op_name,
    event_id,
    CASE WHEN is_released THEN next_event_id END AS release_event_id,
    next_position AS end_position
FROM neighbors
WHERE bytes > 0
UNION ALL
SELECT
    rank, memory, device, position, address, -bytes,
    NULL, ts_ns AS release_ts_ns, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    step AS release_step, op_name AS release_op_name, NULL, event_id AS release_event_id, position AS end_position
FROM neighbors
WHERE bytes < 0 AND (address IS NULL OR follows_allocation IS NOT TRUE)
