--! question = "How full is each segment of the caching allocator?"
--! row = "one segment of one memory snapshot: a stretch of device memory that the caching allocator holds"
--! window = "not_timed"
--! sort = ["total_bytes"]
--! needs = ["snapshot_segments", "snapshot_blocks", "snapshot_stacks"]
--! order = ["rank", "snapshot", "device", "segment"]
--! requires = ["memory_snapshot"]
--! when_empty = "the run holds no memory snapshot: call torch.cuda.memory._record_memory_history() where the job begins, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after what is to be seen, and put the file into the run"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! segment = "number of the segment in the snapshot"
--! kind = "large or small: which allocations it is for"
--! pool = "private pool of a CUDA graph, JSON; [0,0] is the common one"
--! stream = "stream its blocks are for"
--! is_expandable = "it grows and shrinks"
--! total_bytes = { doc = "size: allocated + pending + inactive", unit = "bytes" }
--! allocated_bytes = { doc = "size of blocks in use", unit = "bytes" }
--! rounding_bytes = { doc = "of these, more than was requested: size minus requested", unit = "bytes" }
--! pending_bytes = { doc = "size of blocks that were released while a stream may still use them", unit = "bytes" }
--! inactive_bytes = { doc = "size of free blocks", unit = "bytes" }
--! split_bytes = { doc = "of these, what cannot be given back to the device because other blocks of the segment are in use or pending", unit = "bytes" }
--! largest_free_bytes = { doc = "largest free block", unit = "bytes" }
--! block_count = { doc = "blocks", unit = "count" }
--! free_block_count = { doc = "free blocks", unit = "count" }
--! allocated_ratio = { doc = "allocated over total", unit = "ratio" }
--! user_frame = "innermost frame of the user's own code that had the segment allocated, where stacks were recorded"
WITH blocks AS (
    SELECT
        rank, snapshot, segment,
        count(*) AS block_count,
        count_if!(state = 'inactive') AS free_block_count,
        sum_if!(size_bytes, state = 'active_allocated') AS allocated_bytes,
        sum_if!(size_bytes - requested_bytes, state = 'active_allocated') AS rounding_bytes,
        sum_if!(size_bytes, state = 'inactive') AS inactive_bytes,
        sum(CASE WHEN state IN ('active_allocated', 'inactive') THEN 0 ELSE size_bytes END) AS pending_bytes,
        max(CASE WHEN state = 'inactive' THEN size_bytes ELSE 0 END) AS largest_free_bytes
    FROM snapshot_blocks
    GROUP BY rank, snapshot, segment
)
SELECT
    s.rank, s.snapshot, s.device, s.segment, s.kind, s.pool, s.stream, s.is_expandable, s.total_bytes,
    zero_for_missing!(b, (allocated_bytes, rounding_bytes, pending_bytes, inactive_bytes)),
    CASE WHEN b.allocated_bytes + b.pending_bytes > 0 THEN b.inactive_bytes ELSE 0 END AS split_bytes,
    zero_for_missing!(b, (largest_free_bytes, block_count, free_block_count)),
    ratio!(b.allocated_bytes, s.total_bytes) AS allocated_ratio,
    t.user_frame
FROM snapshot_segments s
LEFT JOIN blocks b ON b.rank = s.rank AND b.snapshot = s.snapshot AND b.segment = s.segment
LEFT JOIN snapshot_stacks t ON t.rank = s.rank AND t.snapshot = s.snapshot AND t.stack = s.stack
