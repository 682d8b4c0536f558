--! question = "Which source lines hold the memory in a snapshot?"
--! row = "one line of the user's code that made allocations which were there when the snapshot was taken"
--! window = "not_timed"
--! sort = ["allocated_bytes"]
--! needs = ["snapshot_by_stack"]
--! order = ["rank", "snapshot", "device", "place"]
--! requires = ["memory_snapshot"]
--! when_empty = "the run holds no memory snapshot: call torch.cuda.memory._record_memory_history() where the job begins, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen, and put the file into the run"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! place = "place in the order of what is held on the device, largest first, from 1"
--! user_frame = "innermost frame of the user's own code, as file:line function; without such a frame, snapshot_stacks.place; absent if no frame tells the place"
--! allocated_bytes = { doc = "held by its allocations, as requested", unit = "bytes" }
--! pending_bytes = { doc = "of these, let go of, while a stream may still use them", unit = "bytes" }
--! allocation_count = { doc = "allocations", unit = "count" }
--! stack_count = { doc = "distinct call stacks", unit = "count" }
--! largest_bytes = { doc = "largest allocation", unit = "bytes" }
--! allocated_ratio = { doc = "share of what is held on the device", unit = "ratio" }
SELECT
    rank, snapshot, device,
    row_number() OVER (PARTITION BY rank, snapshot, device ORDER BY sum(allocated_bytes) DESC, user_frame) AS place,
    user_frame,
    sum(allocated_bytes) AS allocated_bytes,
    sum(pending_bytes) AS pending_bytes,
    sum(allocation_count) AS allocation_count,
    count(stack) AS stack_count,
    max(largest_bytes) AS largest_bytes,
    sum(allocated_ratio) AS allocated_ratio
FROM snapshot_by_stack
GROUP BY rank, snapshot, device, user_frame
