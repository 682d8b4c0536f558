--! question = "How much time does each rank wait for parameters that FSDP gathers?"
--! row = "one rank"
--! window = "counted_steps"
--! needs = ["fsdp_collectives", "fsdp_layers", "device_steps", "ranks", "active_ranks"]
--! order = ["rank"]
--! when_empty = "no trace was read"
--! [columns]
--! rank = "rank"
--! has_timeline = "the rank has operators or kernels, which would show what the view is about"
--! window_ns = { doc = "all complete steps", unit = "ns", metric = "rank" }
--! module_count = { doc = "modules that are gathered", unit = "count", metric = "rank" }
--! gather_count = { doc = "all-gathers; 0 where the trace holds no ranges of FSDP (fully_shard in PyTorch 2.4 and later) with collectives in complete steps", unit = "count", metric = "rank" }
--! gather_ns = { doc = "their time", unit = "ns", metric = "rank" }
--! gather_exposed_ns = { doc = "part of it in which nothing is computed", unit = "ns", metric = "rank" }
--! gather_exposed_ratio = { doc = "over the window", unit = "ratio", metric = "rank" }
--! forward_exposed_ns = { doc = "part of gather_exposed_ns in forward", unit = "ns", metric = "rank" }
--! first_exposed_ns = { doc = "part of gather_exposed_ns for the first module of each pass of a step, before which there is nothing to overlap with", unit = "ns", metric = "rank" }
--! later_exposed_ratio = { doc = "gather_exposed_ns without that, over the window", unit = "ratio", metric = "rank" }
--! reduce_exposed_ns = { doc = "time of reductions in which nothing is computed", unit = "ns", metric = "rank" }
--! worst_module = "module with most exposed time of gathers"
--! worst_module_exposed_ns = { doc = "that time", unit = "ns", metric = "rank" }
WITH gathers AS (
    SELECT *, row_number() OVER (PARTITION BY rank, step, pass ORDER BY ts_ns, collective) = 1 AS is_first
    FROM fsdp_collectives
    WHERE name = 'all_gather'
),
sums AS (
    SELECT
        rank, count(*) AS gather_count, count(DISTINCT module) AS module_count,
        sum(dur_ns) AS gather_ns, sum(exposed_ns) AS exposed_ns,
        sum_if!(exposed_ns, pass = 'forward') AS forward_exposed_ns,
        sum_if!(exposed_ns, is_first) AS first_exposed_ns
    FROM gathers
    GROUP BY rank
),
reductions AS (
    SELECT rank, sum(exposed_ns) AS exposed_ns FROM fsdp_collectives WHERE name <> 'all_gather' GROUP BY rank
),
steps AS (
    SELECT rank, sum(dur_ns) AS window_ns FROM device_steps GROUP BY rank
),
modules AS (
    SELECT rank, module, sum(exposed_ns) AS exposed_ns FROM fsdp_layers WHERE name = 'all_gather' GROUP BY rank, module
),
worst AS (
    SELECT rank, module, exposed_ns, row_number() OVER (PARTITION BY rank ORDER BY exposed_ns DESC, module) AS place
    FROM modules
)
SELECT
    k.rank, h.rank IS NOT NULL AS has_timeline, t.window_ns,
    coalesce(s.module_count, 0) AS module_count, coalesce(s.gather_count, 0) AS gather_count, coalesce(s.gather_ns, 0) AS gather_ns,
    coalesce(s.exposed_ns, 0) AS gather_exposed_ns,
    ratio!(coalesce(s.exposed_ns, 0), t.window_ns) AS gather_exposed_ratio,
    coalesce(s.forward_exposed_ns, 0) AS forward_exposed_ns, coalesce(s.first_exposed_ns, 0) AS first_exposed_ns,
    ratio!(coalesce(s.exposed_ns - s.first_exposed_ns, 0), t.window_ns) AS later_exposed_ratio,
    coalesce(r.exposed_ns, 0) AS reduce_exposed_ns,
    w.module AS worst_module, w.exposed_ns AS worst_module_exposed_ns
FROM ranks k
LEFT JOIN active_ranks h ON h.rank = k.rank
LEFT JOIN sums s ON s.rank = k.rank
LEFT JOIN steps t ON t.rank = k.rank
LEFT JOIN worst w ON w.rank = k.rank AND w.place = 1
LEFT JOIN reductions r ON r.rank = k.rank
