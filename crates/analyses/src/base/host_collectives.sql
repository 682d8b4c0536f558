--! question = "Which calls of collectives happen on the host?"
--! row = "one range of a communication library, or one call of PyTorch around it"
--! window = "recording"
--! needs = ["cpu_ops", "annotations"]
--! order = ["rank", "thread", "ts_ns", "event_id"]
--! [columns]
--! rank = "rank"
--! event_id = "the range or call"
--! name = "nccl:all_reduce, record_param_comms, c10d::allreduce_"
--! thread = "lane, see threads"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! external_id = "id shared with the device work it launches"
--! step = "step it starts in"
--! input_dims = "input shapes, JSON"
--! input_types = "input types, JSON"
SELECT rank, event_id, name, thread, ts_ns, dur_ns, external_id, step, input_dims, input_types
FROM cpu_ops
WHERE name = 'record_param_comms'
    OR name LIKE 'c10d::%' OR name LIKE '\_c10d\_functional::%' OR name LIKE 'c10d\_functional::%'
    OR is_collective_range!(name)
UNION ALL
SELECT rank, event_id, name, thread, ts_ns, dur_ns, external_id, step, input_dims, input_types
FROM annotations
WHERE NOT on_device AND is_collective_range!(name)
