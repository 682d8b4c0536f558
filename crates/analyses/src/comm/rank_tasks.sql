--! question = "What does the host of each rank that communicates spend its steps on?"
--! row = "one range, operator with its shapes, or loader of one rank"
--! window = "recording"
--! needs = ["annotations", "cpu_ops", "host_waits", "host_phases", "comm_collectives"]
--! order = ["rank", "kind", "name", "input_dims"]
--! when_empty = "no rank communicates, or the hosts were not recorded"
--! [columns]
--! rank = "rank"
--! kind = "range (of the program: those of PyTorch, of trainers and of libraries for communication are left out), operator (aten:: only), or dataloader (all loading)"
--! name = "name of the range or operator; DataLoader"
--! input_dims = "input shapes of the operator, JSON; empty where they were not recorded, and for others"
--! call_count = { doc = "calls within steps, or within the recording without steps; so is total_ns", unit = "count" }
--! total_ns = { doc = "their time, added up: without events inside, except for loading", unit = "ns" }
WITH members AS (
    SELECT DISTINCT rank FROM comm_collectives
),
spans AS (
    SELECT p.rank, min(p.ts_ns) AS from_ns, max(p.ts_ns + p.dur_ns) AS until_ns
    FROM host_phases p
    JOIN members m ON m.rank = p.rank
    GROUP BY p.rank
)
SELECT
    a.rank, 'range' AS kind, CAST(a.name AS VARCHAR) AS name, '' AS input_dims,
    count(*) AS call_count, sum(a.self_dur_ns) AS total_ns
FROM annotations a
JOIN spans s ON s.rank = a.rank AND a.ts_ns >= s.from_ns AND a.ts_ns < s.until_ns
WHERE NOT a.on_device AND a.name IS NOT NULL AND NOT is_collective_range!(a.name)
    AND NOT regexp_like(CAST(a.name AS VARCHAR), '^(ProfilerStep#|enumerate\(|Optimizer\.|DistributedDataParallel|FSDP::|event/|callback/|record_param_comms|c10d::|PP:)')
GROUP BY a.rank, a.name
UNION ALL
SELECT o.rank, 'operator', CAST(o.name AS VARCHAR), coalesce(CAST(o.input_dims AS VARCHAR), ''), count(*), sum(o.self_dur_ns)
FROM cpu_ops o
JOIN spans s ON s.rank = o.rank AND o.ts_ns >= s.from_ns AND o.ts_ns < s.until_ns
WHERE o.name LIKE 'aten::%'
GROUP BY o.rank, o.name, o.input_dims
UNION ALL
SELECT w.rank, 'dataloader', 'DataLoader', '', count(*), sum(w.end_ns - w.ts_ns)
FROM host_waits w
JOIN spans s ON s.rank = w.rank AND w.ts_ns >= s.from_ns AND w.ts_ns < s.until_ns
WHERE w.cause = 'dataloader'
GROUP BY w.rank
ORDER BY rank, kind, name, input_dims
