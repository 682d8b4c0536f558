--! question = "Which Lightning hooks take the most time?"
--! row = "one hook that Lightning ran, at one place among the hooks around it, all its calls together"
--! window = "recording"
--! sort = ["host_total_ns"]
--! needs = ["lightning_calls"]
--! order = ["rank", "path"]
--! when_empty = "the trace holds no ranges of Lightning: record with its PyTorchProfiler (Trainer(profiler=\"pytorch\"))"
--! [columns]
--! rank = "rank"
--! path = "hooks around and its own name, outermost first, '/' between them"
--! parent_path = "path of the hook around; absent at the top"
--! name = "name"
--! call_count = { doc = "calls", unit = "count" }
--! operator_count = { doc = "operators called directly, not by an operator or a range inside", unit = "count" }
--! host_total_ns = { doc = "duration of the calls", unit = "ns" }
--! host_self_ns = { doc = "that less the ranges, operators and launching calls directly inside", unit = "ns" }
--! device_total_ns = { doc = "time of the kernels, copies and fills launched inside, overlap not merged", unit = "ns" }
--! device_self_ns = { doc = "time of those launched by its own operators and calls, not by ranges inside", unit = "ns" }
--! backward_host_ns = { doc = "duration of the backward operators of the operators inside; absent if the trace links no backward operator with its forward operator", unit = "ns" }
--! backward_device_ns = { doc = "time of the kernels, copies and fills that these launched", unit = "ns" }
SELECT
    rank, path, parent_path, name,
    count(*) AS call_count,
    sum_columns!(operator_count, host_total_ns, host_self_ns, device_total_ns, device_self_ns),
    sum_columns!(backward_host_ns, backward_device_ns)
FROM lightning_calls
WHERE class = '[hook]'
GROUP BY rank, path, parent_path, name
