--! question = "How do activations, gradients and other categories of memory change over time?"
--! row = "one moment of one exported memory timeline"
--! window = "recording"
--! needs = ["memory_timelines", "memory_timeline_sizes"]
--! order = ["rank", "timeline", "position"]
--! when_empty = "the run holds no exported memory timeline: record with profile_memory=True, record_shapes=True, with_stack=True, and call prof.export_memory_timeline(\"memory_rank0.raw.json.gz\", device=\"cuda:0\") after it"
--! [columns]
--! rank = "rank"
--! timeline = "file, see memory_timelines"
--! position = "place in the file"
--! since_start_ns = { doc = "time since the first moment: the time axis of HTA's plot", unit = "ns" }
--! parameter_bytes = { doc = "parameters", unit = "bytes" }
--! optimizer_state_bytes = { doc = "optimizer state", unit = "bytes" }
--! input_bytes = { doc = "inputs", unit = "bytes" }
--! temporary_bytes = { doc = "temporaries", unit = "bytes" }
--! activation_bytes = { doc = "activations", unit = "bytes" }
--! gradient_bytes = { doc = "gradients", unit = "bytes" }
--! autograd_detail_bytes = { doc = "made by autograd, and no gradient", unit = "bytes" }
--! unknown_bytes = { doc = "memory that PyTorch assigned no category", unit = "bytes" }
--! total_bytes = { doc = "all categories: the top of HTA's plot", unit = "bytes" }
SELECT
    s.rank, s.timeline, s.position, s.ts_ns - t.start_ns AS since_start_ns,
    s.parameter_bytes, s.optimizer_state_bytes, s.input_bytes, s.temporary_bytes, s.activation_bytes,
    s.gradient_bytes, s.autograd_detail_bytes, s.unknown_bytes, s.total_bytes
FROM memory_timeline_sizes s
JOIN memory_timelines t ON t.rank = s.rank AND t.timeline = s.timeline
