--! question = "Which call stacks held the memory at the peak of a snapshot's history?"
--! row = "one call stack whose allocations were held at the peak of a device's memory; if no history was recorded, when the snapshot was taken"
--! window = "history"
--! sort = ["allocated_bytes"]
--! needs = ["snapshot_allocations", "snapshot_devices", "snapshot_stacks"]
--! order = ["rank", "snapshot", "device", "place"]
--! requires = ["memory_snapshot"]
--! when_empty = "the run holds no memory snapshot: call torch.cuda.memory._record_memory_history() where the job begins, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen, and put the file into the run"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! place = "place in the order of what was held at the peak, largest first, from 1"
--! allocated_bytes = { doc = "held by its allocations at the peak, as requested; the rows of a device add up to peak_allocated_bytes", unit = "bytes" }
--! allocation_count = { doc = "allocations", unit = "count" }
--! allocated_ratio = { doc = "share of the peak", unit = "ratio" }
--! peak_allocated_bytes = { doc = "most that was held at once on the device", unit = "bytes" }
--! peak_position = "event after which that was so; absent if before the first one"
--! older_bytes = { doc = "of its allocations, what is older than the history", unit = "bytes" }
--! end_bytes = { doc = "of its allocations, what was still there when the snapshot was taken", unit = "bytes" }
--! user_frame = "innermost frame of the user's own code, as file:line function; without such a frame, snapshot_stacks.place; absent if no frame tells the place"
--! frames = "innermost frames, from the inside out"
--! stack = "number of the stack, see snapshot_stacks; absent for allocations whose stack was not recorded"
WITH held AS (
    SELECT
        a.rank, a.snapshot, a.device, a.stack,
        sum(a.bytes) AS allocated_bytes,
        count(*) AS allocation_count,
        sum_if!(a.bytes, a.alloc_position IS NULL) AS older_bytes,
        sum_if!(a.bytes, a.free_position IS NULL) AS end_bytes,
        max(d.peak_allocated_bytes) AS peak_allocated_bytes,
        max(d.peak_position) AS peak_position
    FROM snapshot_allocations a
    JOIN snapshot_devices d ON d.rank = a.rank AND d.snapshot = a.snapshot AND d.device = a.device
    WHERE coalesce(a.alloc_position, -1) <= coalesce(d.peak_position, -1)
        AND (a.free_position IS NULL OR a.free_position > coalesce(d.peak_position, -1))
    GROUP BY a.rank, a.snapshot, a.device, a.stack
)
SELECT
    h.rank, h.snapshot, h.device,
    row_number() OVER (PARTITION BY h.rank, h.snapshot, h.device ORDER BY h.allocated_bytes DESC, h.stack) AS place,
    h.allocated_bytes, h.allocation_count,
    ratio!(h.allocated_bytes, h.peak_allocated_bytes) AS allocated_ratio,
    h.peak_allocated_bytes, h.peak_position, h.older_bytes, h.end_bytes,
    s.place AS user_frame, s.text AS frames, h.stack
FROM held h
LEFT JOIN snapshot_stacks s ON s.rank = h.rank AND s.snapshot = h.snapshot AND s.stack = h.stack
