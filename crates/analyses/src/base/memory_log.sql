--! question = "In which order was memory allocated and released?"
--! row = "one allocation or release, in order, on one memory of one rank"
--! window = "recording"
--! needs = ["memory_events", "host_phases"]
--! order = ["rank", "memory", "position"]
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 (AMD), xpu:0 ..., cpu, or cpu mapped (files mapped into the address space, such as the shared memory of loader workers)"
--! device = "device ordinal; -1 on the host"
--! position = "place in the order of the events of this memory, from 1"
--! event_id = "event"
--! ts_ns = { doc = "when", unit = "ns" }
--! thread = "lane, see threads"
--! step = "step it falls in"
--! phase = "dataloader, forward, backward, optimizer or other: what the host was at"
--! address = "address"
--! bytes = { doc = "allocated; negative when released", unit = "bytes" }
--! allocated_bytes = { doc = "allocated after the event, as the allocator says; absent where it does not", unit = "bytes" }
--! reserved_bytes = { doc = "held by the caching allocator after the event; absent where there is none", unit = "bytes" }
--! change_bytes = { doc = "allocated less released since the recording began, this event included", unit = "bytes" }
--! op = "innermost operator that runs at the time on the thread"
--! op_name = "name of that operator"
--! outer_op_name = "name of the operator around it"
--! annotation = "innermost annotation"
--! module = "innermost nn.Module"
-- Mapped memory is reported as that of the host, but is not in its total: there the total is 0, and what
-- is reserved is the size of the mapping, or 0 when it goes. An allocation of the heap leaves more than 0;
-- a release leaves 0 if it takes all that was left, which the last total above 0 shows.
-- Running maxima and counts find the last value: IGNORE NULLS would look through all events before each.
WITH boundaries AS (
    SELECT
        rank, ts_ns, 0 AS turn,
        CAST(NULL AS INT) AS device_type, CAST(NULL AS INT) AS device, CAST(NULL AS BIGINT) AS event_id,
        CAST(NULL AS INT) AS thread, CAST(NULL AS BIGINT) AS step, CAST(NULL AS BIGINT) AS address,
        CAST(NULL AS BIGINT) AS bytes, CAST(NULL AS BIGINT) AS allocated, CAST(NULL AS BIGINT) AS reserved
    FROM host_phases
    UNION ALL
    SELECT
        rank, ts_ns, 1, device_type, device, event_id, thread, step, address, bytes,
        total_allocated_bytes, total_reserved_bytes
    FROM memory_events
),
phased AS (
    SELECT
        *,
        running_max!(CASE WHEN turn = 0 THEN ts_ns END, PARTITION BY rank ORDER BY ts_ns, turn) AS phase_ts_ns
    FROM boundaries
),
-- A total other than 0 opens a group, in which the totals of 0 that come after it are.
totals AS (
    SELECT
        *,
        running_count!(CASE WHEN allocated <> 0 THEN 1 END, PARTITION BY rank, device_type, device ORDER BY ts_ns, event_id) AS total_number
    FROM phased
    WHERE turn = 1
),
carried AS (
    SELECT
        *,
        max(CASE WHEN allocated <> 0 THEN allocated END) OVER (
            PARTITION BY rank, device_type, device, total_number
        ) AS last_total
    FROM totals
),
kinds AS (
    SELECT
        *,
        device_type = 0 AND allocated = 0
            AND (bytes > 0 OR (coalesce(reserved, 0) = 0 AND coalesce(last_total + bytes <> 0, true))) AS is_mapped
    FROM carried
)
SELECT
    k.rank,
    CASE k.device_type
        WHEN 0 THEN CASE WHEN k.is_mapped THEN 'cpu mapped' ELSE 'cpu' END
        ELSE concat(
            CASE k.device_type
                WHEN 1 THEN 'cuda' WHEN 6 THEN 'hip' WHEN 9 THEN 'xla' WHEN 12 THEN 'xpu' WHEN 13 THEN 'mps'
                WHEN 15 THEN 'hpu' WHEN 18 THEN 'ipu' WHEN 19 THEN 'mtia' WHEN 20 THEN 'privateuseone'
                ELSE concat('type ', coalesce(CAST(k.device_type AS VARCHAR), '?'))
            END,
            ':', coalesce(CAST(k.device AS VARCHAR), '?')
        )
    END AS memory,
    CASE WHEN k.device_type = 0 THEN -1 ELSE k.device END AS device,
    CAST(row_number() OVER w AS BIGINT) AS position,
    k.event_id, k.ts_ns, k.thread, k.step,
    CASE WHEN k.ts_ns < p.ts_ns + p.dur_ns THEN p.phase ELSE 'other' END AS phase,
    k.address, k.bytes,
    CASE WHEN NOT coalesce(k.is_mapped, false) THEN k.allocated END AS allocated_bytes,
    CASE WHEN k.device_type <> 0 THEN k.reserved END AS reserved_bytes,
    sum(k.bytes) OVER w AS change_bytes,
    e.op, e.op_name, e.outer_op_name, e.annotation, e.module
FROM kinds k
JOIN memory_events e ON e.rank = k.rank AND e.event_id = k.event_id
LEFT JOIN host_phases p ON p.rank = k.rank AND p.ts_ns = k.phase_ts_ns
WINDOW w AS running!(PARTITION BY k.rank, k.device_type, k.device, coalesce(k.is_mapped, false) ORDER BY k.ts_ns, k.event_id)
