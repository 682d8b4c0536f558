--! question = "Which allocations outlive their step?"
--! row = "memory that one operator allocated in one phase and that outlived its step by two steps or more"
--! window = "all_steps"
--! needs = ["memory_allocations", "steps"]
--! order = ["rank", "memory", "place"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events with addresses (record with profile_memory=True and torch 1.10 or newer), or fewer than three steps, or nothing outlived its step so long"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! place = "from 1, by number of steps, then by bytes"
--! op_name = "innermost operator around the allocation"
--! outer_op_name = "the operator around that one"
--! module = "innermost nn.Module around the allocation"
--! phase = "phase of the allocation: dataloader, forward, backward, optimizer or other"
--! step_count = { doc = "steps that left such a piece: one for what is made once (optimizer state), most steps for what piles up", unit = "count" }
--! allocation_count = { doc = "pieces allocated in a step k that were live at the end of step k + 2", unit = "count" }
--! bytes = { doc = "their bytes", unit = "bytes" }
--! live_bytes = { doc = "of these, not released in the recording", unit = "bytes" }
WITH ordered AS (
    SELECT rank, step, ts_ns + dur_ns AS end_ns, row_number() OVER (PARTITION BY rank ORDER BY ts_ns) AS ordinal
    FROM steps
),
made AS (
    SELECT
        a.rank, a.memory, a.device, a.op_name, a.outer_op_name, a.module, a.phase, a.step, a.bytes,
        a.end_position, a.release_ts_ns, s.ordinal
    FROM memory_allocations a
    JOIN ordered s ON s.rank = a.rank AND s.step = a.step
    WHERE a.ts_ns IS NOT NULL AND a.address IS NOT NULL
),
grouped AS (
    SELECT
        m.rank, m.memory, min(m.device) AS device, m.op_name, m.outer_op_name, m.module, m.phase,
        count(DISTINCT m.step) AS step_count,
        count(*) AS allocation_count,
        sum(m.bytes) AS bytes,
        sum_if!(m.bytes, m.end_position IS NULL) AS live_bytes
    FROM made m
    JOIN ordered l ON l.rank = m.rank AND l.ordinal = m.ordinal + 2
    WHERE m.end_position IS NULL OR m.release_ts_ns >= l.end_ns
    GROUP BY m.rank, m.memory, m.op_name, m.outer_op_name, m.module, m.phase
)
SELECT
    rank, memory, device,
    row_number() OVER (
        PARTITION BY rank, memory ORDER BY step_count DESC, bytes DESC, op_name, outer_op_name, module, phase
    ) AS place,
    op_name, outer_op_name, module, phase, step_count, allocation_count, bytes, live_bytes
FROM grouped
