--! question = "Which call stacks hold the memory in a snapshot?"
--! row = "one call stack that made allocations which were there when the snapshot was taken"
--! window = "not_timed"
--! sort = ["allocated_bytes"]
--! needs = ["snapshot_allocations", "snapshot_stacks", "snapshot_devices"]
--! order = ["rank", "snapshot", "device", "place"]
--! requires = ["memory_snapshot"]
--! when_empty = "the run holds no memory snapshot: call torch.cuda.memory._record_memory_history() where the job begins, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen, and put the file into the run"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! place = "place in the order of what is held on the device, largest first, from 1"
--! allocated_bytes = { doc = "held by its allocations, as requested", unit = "bytes" }
--! pending_bytes = { doc = "of these, let go of, while a stream may still use them", unit = "bytes" }
--! allocation_count = { doc = "allocations", unit = "count" }
--! largest_bytes = { doc = "largest of them", unit = "bytes" }
--! allocated_ratio = { doc = "share of what is held on the device", unit = "ratio" }
--! user_frame = "innermost frame of the user's own code, as file:line function; without such a frame, snapshot_stacks.place; absent if no frame tells the place"
--! frames = "innermost frames, from the inside out"
--! stack = "number of the stack, see snapshot_stacks; absent for allocations whose stack was not recorded"
WITH live AS (
    SELECT
        rank, snapshot, device, stack,
        sum(bytes) AS allocated_bytes,
        sum(CASE WHEN free_requested_position IS NULL THEN 0 ELSE bytes END) AS pending_bytes,
        count(*) AS allocation_count,
        max(bytes) AS largest_bytes
    FROM snapshot_allocations
    WHERE free_position IS NULL
    GROUP BY rank, snapshot, device, stack
)
SELECT
    l.rank, l.snapshot, l.device,
    row_number() OVER (PARTITION BY l.rank, l.snapshot, l.device ORDER BY l.allocated_bytes DESC, l.stack) AS place,
    l.allocated_bytes, l.pending_bytes, l.allocation_count, l.largest_bytes,
    ratio!(l.allocated_bytes, d.end_allocated_bytes) AS allocated_ratio,
    s.place AS user_frame, s.text AS frames, l.stack
FROM live l
LEFT JOIN snapshot_devices d ON d.rank = l.rank AND d.snapshot = l.snapshot AND d.device = l.device
LEFT JOIN snapshot_stacks s ON s.rank = l.rank AND s.snapshot = l.snapshot AND s.stack = l.stack
