--! question = "How does the allocated memory change over time?"
--! row = "one moment at which memory was allocated or released, with the bytes allocated then"
--! window = "recording"
--! needs = ["memory_log"]
--! order = ["rank", "memory", "ts_ns", "event_id"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events: record with profile_memory=True"
--! [params]
--! memory_curve_points = { default = 0, doc = "about how many moments to keep for each memory, and more than 3; highest and lowest levels are kept. 0: all" }
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ..., cpu, or cpu mapped"
--! device = "device ordinal; -1 on the host"
--! ts_ns = { doc = "when", unit = "ns" }
--! event_id = "event"
--! bytes = { doc = "allocated by the event; negative when released", unit = "bytes" }
--! allocated_bytes = { doc = "allocated after it; absent where the allocator does not say (torch 1.9 and older, mapped memory)", unit = "bytes" }
--! reserved_bytes = { doc = "held by the caching allocator after it; absent on the host and in torch 1.9 and older", unit = "bytes" }
--! change_bytes = { doc = "allocated less released since the recording began: the curve less its unknown beginning", unit = "bytes" }
--! step = "step it falls in"
--! phase = "dataloader, forward, backward, optimizer or other"
-- Of each stretch of events the highest and the lowest level, the most that is reserved and the last event
-- are kept: no peak is lost, and none is made up.
WITH stretches AS (
    SELECT
        *,
        coalesce(allocated_bytes, change_bytes) AS level_bytes,
        CASE
            WHEN $memory_curve_points > 0
                THEN (position - 1) * greatest($memory_curve_points / 4, 1) / count(*) OVER (PARTITION BY rank, memory)
            ELSE position
        END AS stretch
    FROM memory_log
),
ranked AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY rank, memory, stretch ORDER BY level_bytes DESC, position) AS from_top,
        row_number() OVER (PARTITION BY rank, memory, stretch ORDER BY level_bytes, position) AS from_bottom,
        row_number() OVER (PARTITION BY rank, memory, stretch ORDER BY reserved_bytes DESC NULLS LAST, position) AS from_most,
        row_number() OVER (PARTITION BY rank, memory, stretch ORDER BY position DESC) AS from_end
    FROM stretches
)
SELECT
    rank, memory, device, ts_ns, event_id, bytes, allocated_bytes, reserved_bytes, change_bytes, step, phase
FROM ranked
WHERE from_top = 1 OR from_bottom = 1 OR from_end = 1 OR (from_most = 1 AND reserved_bytes IS NOT NULL)
