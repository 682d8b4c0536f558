--! question = "Which categories of tensors hold memory in a snapshot?"
--! row = "one category of tensor, with the memory it held when the snapshot was taken"
--! window = "not_timed"
--! sort = ["allocated_bytes"]
--! scope = "run"
--! needs = ["snapshot_allocations"]
--! order = ["rank", "snapshot", "device", "category"]
--! when_empty = "no memory snapshot of the run holds kinds of tensors: those that torch.cuda.memory._dump_snapshot writes never do; torch.profiler's export_memory_timeline(\"memory_rank0.raw.json.gz\") holds them, see memory_timeline_categories"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! category = "parameter, optimizer_state, input, temporary, activation, gradient, autograd_detail, unknown; absent where not recorded"
--! allocated_bytes = { doc = "held when the snapshot was taken", unit = "bytes" }
--! live_count = { doc = "allocations held then", unit = "count" }
--! ever_allocated_bytes = { doc = "of all allocations, released ones too", unit = "bytes" }
--! allocation_count = { doc = "all allocations", unit = "count" }
SELECT
    rank, snapshot, device, category,
    sum_if!(bytes, free_position IS NULL) AS allocated_bytes,
    count_if!(free_position IS NULL) AS live_count,
    sum(bytes) AS ever_allocated_bytes,
    count(*) AS allocation_count
FROM snapshot_allocations
WHERE (SELECT count(category) FROM snapshot_allocations) > 0
GROUP BY rank, snapshot, device, category
