--! question = "Which allocations failed with out-of-memory errors?"
--! row = "one attempt to allocate that failed for lack of memory"
--! window = "history"
--! needs = ["snapshot_events", "snapshot_stacks"]
--! order = ["rank", "snapshot", "device", "position"]
--! requires = ["memory_history"]
--! when_empty = "no memory snapshot of the run holds an out-of-memory error: either there was none, or no history was recorded (torch.cuda.memory._record_memory_history() before, torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") when it is caught)"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! position = "place in the history of the device"
--! ts_ns = { doc = "when; absent where events carry no times", unit = "ns" }
--! requested_bytes = { doc = "size of the request", unit = "bytes" }
--! device_free_bytes = { doc = "free on the device then, as the driver said", unit = "bytes" }
--! allocated_bytes = { doc = "held by allocations then", unit = "bytes" }
--! reserved_bytes = { doc = "held by the caching allocator then", unit = "bytes" }
--! unused_bytes = { doc = "held by the allocator, but in no allocation: reserved minus allocated; if it is more than was requested, memory was there, but in pieces", unit = "bytes" }
--! user_frame = "innermost frame of the user's own code, as file:line function; without such a frame, snapshot_stacks.place; absent if no frame tells the place"
--! frames = "innermost frames, from the inside out"
SELECT
    e.rank, e.snapshot, e.device, e.position, e.ts_ns, e.bytes AS requested_bytes, e.device_free_bytes,
    e.allocated_bytes, e.reserved_bytes, e.reserved_bytes - e.allocated_bytes AS unused_bytes,
    s.place AS user_frame, s.text AS frames
FROM snapshot_events e
LEFT JOIN snapshot_stacks s ON s.rank = e.rank AND s.snapshot = e.snapshot AND s.stack = e.stack
WHERE e.action = 'oom'
