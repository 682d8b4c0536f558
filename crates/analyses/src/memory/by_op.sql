--! question = "Which operators allocate the most memory?"
--! row = "one operator by name on one memory of one rank"
--! window = "recording"
--! sort = ["self_increase_bytes"]
--! needs = ["memory_log", "cpu_ops"]
--! order = ["rank", "memory", "place"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events inside operators: record with profile_memory=True and ProfilerActivity.CPU"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! place = "from 1, by bytes of the allocations where this is the innermost operator"
--! name = "operator"
--! call_count = { doc = "calls in the whole recording", unit = "count" }
--! memory_call_count = { doc = "calls during which this memory changed on their thread; not those within a call of the same name", unit = "count" }
--! increase_bytes = { doc = "allocated less released during the calls, operators within included; what a call within a call of the same name does counts once", unit = "bytes" }
--! self_increase_bytes = { doc = "allocated less released where this is the innermost operator", unit = "bytes" }
--! allocation_count = { doc = "allocations during the calls, operators within included", unit = "count" }
--! self_allocation_count = { doc = "allocations where this is the innermost operator", unit = "count" }
--! allocated_bytes = { doc = "bytes of the allocations during the calls, operators within included", unit = "bytes" }
--! self_allocated_bytes = { doc = "bytes of the allocations where this is the innermost operator", unit = "bytes" }
-- On each host thread, what was allocated so far is summed up; what a call and those within it allocate is
-- that sum at its end less that at its start. A call holds what happens at its start, not at its end.
WITH lanes AS (
    SELECT DISTINCT rank, thread, memory FROM memory_log
),
nested AS (
    SELECT
        o.rank, o.thread, o.event_id, o.ts_ns, o.ts_ns + o.dur_ns AS end_ns,
        max_before!(o.ts_ns + o.dur_ns, PARTITION BY o.rank, o.thread, o.name ORDER BY o.ts_ns, o.depth, o.event_id) AS same_until_ns
    FROM cpu_ops o
    WHERE o.dur_ns > 0
),
outermost AS (
    SELECT n.rank, n.thread, n.event_id, n.ts_ns, n.end_ns, l.memory
    FROM nested n
    JOIN lanes l ON l.rank = n.rank AND l.thread = n.thread
    WHERE coalesce(n.same_until_ns <= n.ts_ns, true)
),
boundaries AS (
    SELECT
        rank, thread, memory, ts_ns, 1 AS turn, CAST(NULL AS BIGINT) AS op, 0 AS sign,
        1 AS events, bytes, CASE WHEN bytes > 0 THEN 1 ELSE 0 END AS allocations, greatest(bytes, 0) AS allocated
    FROM memory_log
    UNION ALL
    SELECT rank, thread, memory, ts_ns, 0, event_id, -1, 0, 0, 0, 0 FROM outermost
    UNION ALL
    SELECT rank, thread, memory, end_ns, 0, event_id, 1, 0 AS no_events, 0 AS no_bytes, 0 AS no_allocations, 0 AS none FROM outermost
),
running AS (
    SELECT
        rank, memory, op, sign,
        sum(events) OVER w AS events,
        sum(bytes) OVER w AS bytes,
        sum(allocations) OVER w AS allocations,
        sum(allocated) OVER w AS allocated
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, thread, memory ORDER BY ts_ns, turn)
),
calls AS (
    SELECT
        rank, memory, op,
        sum(sign * bytes) AS bytes,
        sum(sign * allocations) AS allocations,
        sum(sign * allocated) AS allocated
    FROM running
    WHERE sign <> 0
    GROUP BY rank, memory, op
    HAVING sum(sign * events) > 0
),
totals AS (
    SELECT
        c.rank, c.memory, o.name,
        count(*) AS memory_call_count,
        sum(c.bytes) AS increase_bytes,
        sum(c.allocations) AS allocation_count,
        sum(c.allocated) AS allocated_bytes
    FROM calls c
    JOIN cpu_ops o ON o.rank = c.rank AND o.event_id = c.op
    GROUP BY c.rank, c.memory, o.name
),
selfs AS (
    SELECT
        rank, memory, op_name AS name,
        sum(bytes) AS self_increase_bytes,
        count_if!(bytes > 0) AS self_allocation_count,
        sum(greatest(bytes, 0)) AS self_allocated_bytes
    FROM memory_log
    WHERE op IS NOT NULL
    GROUP BY rank, memory, op_name
),
names AS (
    SELECT rank, name, count(*) AS call_count FROM cpu_ops GROUP BY rank, name
),
memories AS (
    SELECT DISTINCT rank, memory, device FROM memory_log
)
SELECT
    t.rank, t.memory, m.device,
    row_number() OVER (
        PARTITION BY t.rank, t.memory ORDER BY coalesce(s.self_allocated_bytes, 0) DESC, t.allocated_bytes DESC, t.name
    ) AS place,
    t.name, n.call_count, t.memory_call_count,
    t.increase_bytes,
    coalesce(s.self_increase_bytes, 0) AS self_increase_bytes,
    t.allocation_count,
    coalesce(s.self_allocation_count, 0) AS self_allocation_count,
    t.allocated_bytes,
    coalesce(s.self_allocated_bytes, 0) AS self_allocated_bytes
FROM totals t
JOIN memories m ON m.rank = t.rank AND m.memory = t.memory
JOIN names n ON n.rank = t.rank AND n.name = t.name
LEFT JOIN selfs s ON s.rank = t.rank AND s.memory = t.memory AND s.name = t.name
