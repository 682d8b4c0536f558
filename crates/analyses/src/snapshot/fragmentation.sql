--! question = "How fragmented is the memory in a snapshot?"
--! row = "one device of one memory snapshot"
--! window = "not_timed"
--! needs = ["snapshot_segments_usage"]
--! order = ["rank", "snapshot", "device"]
--! requires = ["memory_snapshot"]
--! when_empty = "the run holds no memory snapshot: call torch.cuda.memory._record_memory_history() where the job begins, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen, and put the file into the run"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! segment_count = { doc = "segments", unit = "count" }
--! reserved_bytes = { doc = "held by the caching allocator: allocated + pending + inactive", unit = "bytes" }
--! allocated_bytes = { doc = "size of blocks in use", unit = "bytes" }
--! requested_bytes = { doc = "of these, bytes that the program requested", unit = "bytes" }
--! rounding_bytes = { doc = "of these, lost to rounding: allocated minus requested", unit = "bytes" }
--! pending_bytes = { doc = "size of blocks that were released while a stream may still use them", unit = "bytes" }
--! inactive_bytes = { doc = "size of free blocks: split + returnable", unit = "bytes" }
--! split_bytes = { doc = "free, but in segments that are partly in use: cannot be given back to the device", unit = "bytes" }
--! returnable_bytes = { doc = "in segments that are all free: empty_cache gives it back", unit = "bytes" }
--! largest_free_bytes = { doc = "largest free block: no larger allocation fits without more memory from the device", unit = "bytes" }
--! free_block_count = { doc = "free blocks", unit = "count" }
--! split_ratio = { doc = "split over reserved: memory that fragmentation keeps from others", unit = "ratio" }
--! free_fragmentation_ratio = { doc = "1 - largest free block over inactive: 0 if all that is free is in one piece", unit = "ratio" }
SELECT
    rank, snapshot, device,
    count(*) AS segment_count,
    sum(total_bytes) AS reserved_bytes,
    sum(allocated_bytes) AS allocated_bytes,
    sum(allocated_bytes - rounding_bytes) AS requested_bytes,
    sum(rounding_bytes) AS rounding_bytes,
    sum(pending_bytes) AS pending_bytes,
    sum(inactive_bytes) AS inactive_bytes,
    sum(split_bytes) AS split_bytes,
    sum(inactive_bytes - split_bytes) AS returnable_bytes,
    max(largest_free_bytes) AS largest_free_bytes,
    sum(free_block_count) AS free_block_count,
    ratio!(sum(split_bytes), sum(total_bytes)) AS split_ratio,
    1.0 - ratio!(max(largest_free_bytes), sum(inactive_bytes)) AS free_fragmentation_ratio
FROM snapshot_segments_usage
GROUP BY rank, snapshot, device
