--! question = "How is the cost divided over the tree of modules?"
--! row = "one module at one place in the tree of modules of one rank, all its calls together"
--! window = "recording"
--! needs = ["module_calls"]
--! order = ["rank", "path"]
--! requires = ["module_names"]
--! when_empty = "the trace holds no calls of modules: record Python frames (with_stack=True), from which they are known"
--! [columns]
--! rank = "rank"
--! path = "names of the modules around and its own, outermost first, '/' between them"
--! parent_path = "path of the module around; absent at the top"
--! name = "class and number of the instance: Linear_0"
--! class = "class: Linear"
--! depth = "modules around"
--! call_count = { doc = "calls", unit = "count" }
--! operator_count = { doc = "operators called directly, not by an operator or a module inside", unit = "count" }
--! host_total_ns = { doc = "duration of the calls", unit = "ns" }
--! host_self_ns = { doc = "that less the modules, operators and launching calls directly inside", unit = "ns" }
--! device_total_ns = { doc = "time of the kernels, copies and fills launched inside, overlap not merged", unit = "ns" }
--! device_self_ns = { doc = "time of those launched by its own operators and calls, not by modules inside", unit = "ns" }
--! backward_host_ns = { doc = "duration of the backward operators of the operators inside, those of modules inside included; absent if the trace links no backward operator with its forward operator", unit = "ns" }
--! backward_device_ns = { doc = "time of the kernels, copies and fills that these launched", unit = "ns" }
SELECT
    rank, path, parent_path, name, class, depth,
    count(*) AS call_count,
    sum_columns!(operator_count, host_total_ns, host_self_ns, device_total_ns, device_self_ns),
    sum_columns!(backward_host_ns, backward_device_ns)
FROM module_calls
GROUP BY rank, path, parent_path, name, class, depth
