--! question = "Are gradients reduced more often than the optimizer needs them?"
--! row = "one rank with communication on its devices: forward passes and reductions of gradients per update"
--! window = "counted_steps"
--! scope = "run"
--! needs = ["device_work", "device_windows", "comm_collectives", "comm_exposed", "annotations", "cpu_ops", "device_steps"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no communicating kernel"
--! [columns]
--! rank = "rank"
--! exposed_ratio = { doc = "share of the window in which communication runs and computation does not, see comm_exposed", unit = "ratio", metric = "rank" }
--! forward_count = { doc = "forward passes of DistributedDataParallel in complete steps", unit = "count", metric = "rank" }
--! update_count = { doc = "calls of Optimizer.step in complete steps", unit = "count", metric = "rank" }
--! accumulation = { doc = "forward passes per update of the parameters; absent without either", unit = "number", metric = "rank" }
--! reduction_count = { doc = "all_reduce and reduce_scatter of the backward pass in complete steps", unit = "count", metric = "rank" }
--! redundant_ratio = { doc = "share of the window that reducing gradients once per update would save: exposed_ratio times 1 - 1/accumulation, if every backward pass reduces; else 0", unit = "ratio", metric = "rank" }
WITH communicating_ranks AS (
    SELECT w.rank
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.kind = 'communication' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
    GROUP BY w.rank
    HAVING sum(k.dur_ns) > 0
),
extents AS (
    SELECT rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns FROM device_steps GROUP BY rank
),
passes AS (
    SELECT
        a.rank,
        count_if!(a.name = 'DistributedDataParallel.forward') AS forward_count,
        count_if!(a.name LIKE 'Optimizer.step%') AS update_count,
        count(DISTINCT CASE WHEN a.name LIKE 'Optimizer.step%' THEN a.name END) AS optimizer_count
    FROM (
        SELECT rank, name, ts_ns FROM annotations WHERE NOT on_device
        UNION ALL
        SELECT rank, name, ts_ns
        FROM cpu_ops
        WHERE name = 'DistributedDataParallel.forward' OR name LIKE 'Optimizer.step%'
    ) a
    JOIN extents e ON e.rank = a.rank
    WHERE (a.name = 'DistributedDataParallel.forward' OR a.name LIKE 'Optimizer.step%')
        AND a.ts_ns >= e.start_ns AND a.ts_ns < e.end_ns
    GROUP BY a.rank
),
reductions AS (
    SELECT rank, count(*) AS reduction_count
    FROM comm_collectives
    WHERE name IN ('all_reduce', 'reduce_scatter') AND phase = 'backward'
    GROUP BY rank
)
SELECT
    c.rank,
    e.exposed_ratio,
    coalesce(p.forward_count, 0) AS forward_count,
    coalesce(p.update_count, 0) AS update_count,
    CAST(nullif(p.forward_count, 0) AS DOUBLE) * p.optimizer_count / nullif(p.update_count, 0) AS accumulation,
    coalesce(r.reduction_count, 0) AS reduction_count,
    CASE
        WHEN p.forward_count * p.optimizer_count >= 2 * p.update_count AND r.reduction_count >= p.forward_count
            THEN e.exposed_ratio * (1 - CAST(p.update_count AS DOUBLE) / (p.forward_count * p.optimizer_count))
        ELSE 0
    END AS redundant_ratio
FROM communicating_ranks c
LEFT JOIN comm_exposed e ON e.rank = c.rank
LEFT JOIN passes p ON p.rank = c.rank
LEFT JOIN reductions r ON r.rank = c.rank
