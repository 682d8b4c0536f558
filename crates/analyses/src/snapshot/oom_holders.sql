--! question = "Which source lines held the memory when an allocation failed?"
--! row = "one line of the user's code whose allocations were held when the last attempt to allocate on a device failed"
--! window = "history"
--! sort = ["allocated_bytes"]
--! needs = ["snapshot_oom", "snapshot_allocations", "snapshot_stacks"]
--! order = ["rank", "snapshot", "device", "place"]
--! requires = ["memory_history"]
--! when_empty = "no memory snapshot of the run holds an out-of-memory error: either there was none, or no history was recorded (torch.cuda.memory._record_memory_history() before, torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") when it is caught)"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! place = "place in the order of what was held then, largest first, from 1"
--! position = "the failed attempt, see snapshot_oom"
--! user_frame = "innermost frame of the user's own code, as file:line function; without such a frame, snapshot_stacks.place; absent if no frame tells the place"
--! allocated_bytes = { doc = "held by its allocations then, as requested; the rows of a device add up to allocated_bytes of snapshot_oom", unit = "bytes" }
--! allocation_count = { doc = "allocations", unit = "count" }
--! allocated_ratio = { doc = "share of what was held", unit = "ratio" }
WITH last_oom AS (
    SELECT rank, snapshot, device, max(position) AS position
    FROM snapshot_oom
    GROUP BY rank, snapshot, device
),
held AS (
    SELECT o.rank, o.snapshot, o.device, o.position, a.stack, a.bytes
    FROM last_oom o
    JOIN snapshot_allocations a ON a.rank = o.rank AND a.snapshot = o.snapshot AND a.device = o.device
    WHERE coalesce(a.alloc_position, -1) <= o.position
        AND (a.free_position IS NULL OR a.free_position > o.position)
),
frames AS (
    SELECT
        h.rank, h.snapshot, h.device, h.position, s.place AS user_frame,
        sum(h.bytes) AS allocated_bytes, count(*) AS allocation_count
    FROM held h
    LEFT JOIN snapshot_stacks s ON s.rank = h.rank AND s.snapshot = h.snapshot AND s.stack = h.stack
    GROUP BY h.rank, h.snapshot, h.device, h.position, s.place
)
SELECT
    rank, snapshot, device,
    row_number() OVER (PARTITION BY rank, snapshot, device ORDER BY allocated_bytes DESC, user_frame) AS place,
    position, user_frame, allocated_bytes, allocation_count,
    CAST(allocated_bytes AS DOUBLE)
        / nullif(sum(allocated_bytes) OVER (PARTITION BY rank, snapshot, device), 0) AS allocated_ratio
FROM frames
