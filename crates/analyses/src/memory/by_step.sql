--! question = "How much memory does each step allocate and release?"
--! row = "one memory of one rank in one step"
--! window = "all_steps"
--! needs = ["memory_log", "steps"]
--! order = ["rank", "memory", "ts_ns"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events: record with profile_memory=True"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! step = "step number"
--! source = "kind of mark: profiler_step, optimizer or trace (no steps found: the whole recording as one)"
--! ts_ns = { doc = "start of the step on the host", unit = "ns" }
--! end_ns = { doc = "its end on the host", unit = "ns" }
--! start_bytes = { doc = "allocated when it starts; absent where the allocator does not say (torch 1.9 and older, mapped memory)", unit = "bytes" }
--! end_bytes = { doc = "allocated when it ends", unit = "bytes" }
--! peak_bytes = { doc = "most that is allocated at once within it", unit = "bytes" }
--! net_bytes = { doc = "allocated less released within it", unit = "bytes" }
--! end_change_bytes = { doc = "allocated less released from the beginning of the recording to its end", unit = "bytes" }
--! allocation_count = { doc = "allocations within it", unit = "count" }
--! allocation_bytes = { doc = "their bytes", unit = "bytes" }
--! release_count = { doc = "releases within it", unit = "count" }
--! release_bytes = { doc = "their bytes", unit = "bytes" }
-- The level is carried from event to event; a step reads it at its start and at its end, at one moment
-- before what happens then.
WITH memories AS (
    SELECT rank, memory, min(device) AS device, first_value(allocated_bytes - bytes ORDER BY position) AS initial_bytes
    FROM memory_log
    GROUP BY rank, memory
),
boundaries AS (
    SELECT rank, memory, ts_ns, 1 AS turn, position, allocated_bytes, change_bytes, CAST(NULL AS BIGINT) AS step_ts_ns, 0 AS sign
    FROM memory_log
    UNION ALL
    SELECT s.rank, m.memory, s.ts_ns, 0, 0, NULL, NULL, s.ts_ns AS step_ts_ns, -1
    FROM steps s
    JOIN memories m ON m.rank = s.rank
    UNION ALL
    SELECT s.rank, m.memory, s.ts_ns + s.dur_ns, 0, 0, NULL, NULL, s.ts_ns AS step_ts_ns, 1
    FROM steps s
    JOIN memories m ON m.rank = s.rank
),
-- Positions grow with time: the last event with a level is the greatest of them so far. (IGNORE NULLS would
-- look through all events before each.)
levels AS (
    SELECT
        rank, memory, step_ts_ns, sign,
        max(CASE WHEN allocated_bytes IS NOT NULL THEN position END) OVER w AS allocated_position,
        max(CASE WHEN change_bytes IS NOT NULL THEN position END) OVER w AS change_position
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, memory ORDER BY ts_ns, turn, position)
),
bounds AS (
    SELECT
        l.rank, l.memory, l.step_ts_ns,
        max(CASE WHEN l.sign = -1 THEN a.allocated_bytes END) AS start_bytes,
        max(CASE WHEN l.sign = 1 THEN a.allocated_bytes END) AS end_bytes,
        max(CASE WHEN l.sign = 1 THEN coalesce(c.change_bytes, 0) END) AS end_change_bytes
    FROM levels l
    LEFT JOIN memory_log a ON a.rank = l.rank AND a.memory = l.memory AND a.position = l.allocated_position
    LEFT JOIN memory_log c ON c.rank = l.rank AND c.memory = l.memory AND c.position = l.change_position
    WHERE l.sign <> 0
    GROUP BY l.rank, l.memory, l.step_ts_ns
),
inside AS (
    SELECT
        rank, memory, step,
        max(allocated_bytes) AS peak_bytes,
        sum(bytes) AS net_bytes,
        count_if!(bytes > 0) AS allocation_count,
        sum(greatest(bytes, 0)) AS allocation_bytes,
        count_if!(bytes < 0) AS release_count,
        sum(greatest(-bytes, 0)) AS release_bytes
    FROM memory_log
    WHERE step IS NOT NULL
    GROUP BY rank, memory, step
)
SELECT
    s.rank, m.memory, m.device, s.step, s.source, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns,
    coalesce(b.start_bytes, m.initial_bytes) AS start_bytes,
    coalesce(b.end_bytes, m.initial_bytes) AS end_bytes,
    greatest(coalesce(b.start_bytes, m.initial_bytes), i.peak_bytes) AS peak_bytes,
    coalesce(i.net_bytes, 0) AS net_bytes,
    b.end_change_bytes,
    zero_for_missing!(i, (allocation_count, allocation_bytes, release_count, release_bytes))
FROM steps s
JOIN memories m ON m.rank = s.rank
JOIN bounds b ON b.rank = m.rank AND b.memory = m.memory AND b.step_ts_ns = s.ts_ns
LEFT JOIN inside i ON i.rank = s.rank AND i.memory = m.memory AND i.step = s.step
