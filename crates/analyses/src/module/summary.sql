--! question = "Which classes of modules cost the most?"
--! row = "one class of modules on one rank, all instances and calls together"
--! window = "recording"
--! sort = ["device_total_ns", "host_total_ns"]
--! needs = ["module_calls"]
--! order = ["rank", "class"]
--! requires = ["module_names"]
--! when_empty = "the trace holds no calls of modules: record Python frames (with_stack=True), from which they are known"
--! [columns]
--! rank = "rank"
--! class = "class: Linear"
--! instance_count = { doc = "instances called", unit = "count" }
--! call_count = { doc = "calls", unit = "count" }
--! operator_count = { doc = "operators called directly, not by an operator or a module inside", unit = "count" }
--! host_total_ns = { doc = "duration of the calls; a call within a call of the same class counts in both", unit = "ns" }
--! host_self_ns = { doc = "that less the modules, operators and launching calls directly inside", unit = "ns" }
--! device_total_ns = { doc = "time of the kernels, copies and fills launched inside, overlap not merged; within a call of the same class counted in both", unit = "ns" }
--! device_self_ns = { doc = "time of those launched by its own operators and calls, not by modules inside", unit = "ns" }
--! backward_host_ns = { doc = "duration of the backward operators of the operators inside, those of modules inside included; absent if the trace links no backward operator with its forward operator", unit = "ns" }
--! backward_device_ns = { doc = "time of the kernels, copies and fills that these launched", unit = "ns" }
SELECT
    rank, class,
    count(DISTINCT name) AS instance_count,
    count(*) AS call_count,
    sum_columns!(operator_count, host_total_ns, host_self_ns, device_total_ns, device_self_ns),
    sum_columns!(backward_host_ns, backward_device_ns)
FROM module_calls
GROUP BY rank, class
