--! question = "How did memory change while the allocator's history was recorded?"
--! row = "one moment at which memory of one device changed while the allocator's history was recorded, and the one before the first"
--! window = "history"
--! needs = ["snapshot_events", "snapshot_devices"]
--! order = ["rank", "snapshot", "device", "position"]
--! requires = ["memory_history"]
--! when_empty = "no memory snapshot of the run holds a history: call torch.cuda.memory._record_memory_history() before what is to be seen, and torch.cuda.memory._dump_snapshot(\"snapshot_rank0.pickle\") after it"
--! [columns]
--! rank = "rank"
--! snapshot = "snapshot, see snapshots"
--! device = "device ordinal as the process counts them"
--! position = "event after which it was so, see snapshot_events; -1 before the first"
--! ts_ns = { doc = "when; absent where events carry no times", unit = "ns" }
--! allocated_bytes = { doc = "held by allocations, as requested, until their release is completed", unit = "bytes" }
--! reserved_bytes = { doc = "held by the caching allocator", unit = "bytes" }
SELECT
    rank, snapshot, device, CAST(-1 AS BIGINT) AS position, start_ts_ns AS ts_ns,
    start_allocated_bytes AS allocated_bytes, start_reserved_bytes AS reserved_bytes
FROM snapshot_devices
WHERE event_count > 0
UNION ALL
SELECT rank, snapshot, device, position, ts_ns, allocated_bytes, reserved_bytes
FROM snapshot_events
WHERE action NOT IN ('free_requested', 'snapshot', 'oom')
