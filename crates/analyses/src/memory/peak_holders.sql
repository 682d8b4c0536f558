--! question = "What holds the memory at the peak?"
--! row = "one holder of memory at the peak: allocations of one operator in one step and phase, or memory from before the recording"
--! window = "recording"
--! sort = ["bytes"]
--! needs = ["memory_summary", "memory_allocations"]
--! order = ["rank", "memory", "place"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events with totals (record with profile_memory=True and torch 1.10 or newer)"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ... or cpu"
--! device = "device ordinal; -1 on the host"
--! place = "from 1, by bytes"
--! origin = "recorded, before the recording (weights, optimizer state, what earlier steps left), or unexplained (totals that the events do not add up to)"
--! op_name = "innermost operator around the allocation"
--! outer_op_name = "the operator around that one"
--! module = "innermost nn.Module around the allocation"
--! phase = "phase of the allocation: dataloader, forward, backward, optimizer or other"
--! step = "step of the allocation"
--! allocation_count = { doc = "pieces; absent where they were not recorded", unit = "count" }
--! bytes = { doc = "bytes held; the rows of a memory add up to its peak, exactly", unit = "bytes" }
--! bytes_ratio = { doc = "share of the peak", unit = "ratio" }
--! min_age_ns = { doc = "from the last of the allocations to the peak", unit = "ns" }
--! max_age_ns = { doc = "from the first of the allocations to the peak", unit = "ns" }
--! peak_bytes = { doc = "the peak", unit = "bytes" }
--! peak_ts_ns = { doc = "when", unit = "ns" }
-- A piece is live at the peak if its allocation is not later and what ends it is. What was there before the
-- recording is the total before the first event, less what releases without an allocation freed of it.
WITH peaks AS (
    SELECT rank, memory, device, start_bytes, peak_allocated_bytes, peak_ts_ns, peak_position
    FROM memory_summary
    WHERE peak_allocated_bytes IS NOT NULL
),
pieces AS (
    SELECT
        p.rank, p.memory, p.device, p.peak_allocated_bytes, p.peak_ts_ns, p.start_bytes, a.ts_ns,
        a.op_name, a.outer_op_name, a.module, a.phase, a.step, a.bytes
    FROM peaks p
    JOIN memory_allocations a ON a.rank = p.rank AND a.memory = p.memory
    WHERE a.position <= p.peak_position
        AND a.address IS NOT NULL
        AND (a.ts_ns IS NULL OR a.end_position IS NULL OR a.end_position > p.peak_position)
),
held AS (
    SELECT
        rank, memory, 'recorded' AS origin, op_name, outer_op_name, module, phase, step,
        count(*) AS allocation_count,
        sum(bytes) AS bytes,
        max(ts_ns) AS last_ts_ns,
        min(ts_ns) AS first_ts_ns
    FROM pieces
    WHERE ts_ns IS NOT NULL
    GROUP BY rank, memory, op_name, outer_op_name, module, phase, step
),
sums AS (
    SELECT
        p.rank, p.memory,
        p.peak_allocated_bytes,
        p.start_bytes - coalesce(sum(CASE WHEN s.ts_ns IS NULL THEN s.bytes END), 0) AS before_bytes,
        coalesce(sum(CASE WHEN s.ts_ns IS NOT NULL THEN s.bytes END), 0) AS live_bytes
    FROM peaks p
    LEFT JOIN pieces s ON s.rank = p.rank AND s.memory = p.memory
    GROUP BY p.rank, p.memory, p.peak_allocated_bytes, p.start_bytes
),
parts AS (
    SELECT * FROM held
    UNION ALL
    SELECT rank, memory, 'before the recording', NULL, NULL, NULL, NULL, NULL, NULL, before_bytes, NULL, NULL
    FROM sums
    WHERE before_bytes <> 0
    UNION ALL
    SELECT
        rank, memory, 'unexplained', NULL, NULL, NULL, NULL, NULL, NULL,
        peak_allocated_bytes - live_bytes - coalesce(before_bytes, 0), NULL, NULL
    FROM sums
    WHERE peak_allocated_bytes - live_bytes - coalesce(before_bytes, 0) <> 0
)
SELECT
    h.rank, h.memory, p.device,
    row_number() OVER (
        PARTITION BY h.rank, h.memory
        ORDER BY h.bytes DESC, h.origin, h.op_name, h.outer_op_name, h.module, h.phase, h.step
    ) AS place,
    h.origin, h.op_name, h.outer_op_name, h.module, h.phase, h.step,
    h.allocation_count, h.bytes,
    ratio!(h.bytes, p.peak_allocated_bytes) AS bytes_ratio,
    p.peak_ts_ns - h.last_ts_ns AS min_age_ns,
    p.peak_ts_ns - h.first_ts_ns AS max_age_ns,
    p.peak_allocated_bytes AS peak_bytes,
    p.peak_ts_ns
FROM parts h
JOIN peaks p ON p.rank = h.rank AND p.memory = h.memory
