--! question = "Which operator, source line, module and graph node does each piece of device work come from?"
--! row = "one kernel, copy or fill"
--! window = "recording"
--! needs = ["kernels", "memcpys", "memsets"]
--! [columns]
--! rank = "rank"
--! event_id = "event"
--! kind = "kernel, copy or fill"
--! name = "name of the kernel, copy or fill"
--! dur_ns = { doc = "duration", unit = "ns" }
--! device = "device ordinal; -1 where the trace does not say"
--! launch = "launching call; absent if the trace does not hold it"
--! op_name = "operator that launched it, or that was captured"
--! module = "innermost nn.Module around it"
--! source = "line of the program"
--! graph_node = "captured node that it replays, see graph_nodes"
SELECT
    rank, event_id, 'kernel' AS kind, name, dur_ns, coalesce(device, CAST(-1 AS INT)) AS device, launch, op_name, module, source,
    graph_node
FROM kernels
UNION ALL
SELECT
    rank, event_id, 'copy', name, dur_ns, coalesce(device, CAST(-1 AS INT)), launch, op_name, module, source, graph_node
FROM memcpys
UNION ALL
SELECT
    rank, event_id, 'fill', name, dur_ns, coalesce(device, CAST(-1 AS INT)), launch, op_name, module, source, graph_node
FROM memsets
