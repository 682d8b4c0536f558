--! row = "one rank: its mean step"
--! needs = ["step_phases_by_step", "host_waits", "ranks"]
--! order = ["rank"]
--! when_empty = "the trace holds no complete step: call prof.step() once a step, and record two or more"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! step_ns = { doc = "mean length of a step on the host", unit = "ns", metric = "rank" }
--! dataloader_ns = { doc = "inside __next__ of a DataLoader or DataPipe, a step", unit = "ns", metric = "rank" }
--! forward_ns = { doc = "from there to the first call of the autograd engine, a step; absent without backward", unit = "ns", metric = "rank" }
--! backward_ns = { doc = "from the first call of the autograd engine to the last, a step; absent without backward", unit = "ns", metric = "rank" }
--! optimizer_ns = { doc = "inside Optimizer.step, a step", unit = "ns", metric = "rank" }
--! other_ns = { doc = "the rest of a step", unit = "ns", metric = "rank" }
--! dataloader_ratio = { doc = "share of step time spent loading", unit = "ratio", metric = "rank" }
--! forward_ratio = { doc = "share of step time spent in forward", unit = "ratio", metric = "rank" }
--! backward_ratio = { doc = "share of step time spent in backward", unit = "ratio", metric = "rank" }
--! optimizer_ratio = { doc = "share of step time spent in the optimizer", unit = "ratio", metric = "rank" }
--! other_ratio = { doc = "share of step time spent in none of these", unit = "ratio", metric = "rank" }
--! dataloader_idle_ns = { doc = "part of the loading time, a step, in which no device of the rank runs anything; all of it if the trace has no device activity", unit = "ns", metric = "rank" }
--! dataloader_idle_ratio = { doc = "share of step time in which loading keeps all devices waiting", unit = "ratio", metric = "rank" }
--! has_device = "the trace holds device activity"
--! dataloader_workers = "single-process or multi-process, from the name of the iterator; absent if nothing is loaded or the name does not say"
WITH loaders AS (
    SELECT
        rank,
        CASE
            WHEN bool_or(name LIKE '%SingleProcess%') THEN 'single-process'
            WHEN bool_or(name LIKE '%MultiProcess%') THEN 'multi-process'
        END AS dataloader_workers
    FROM host_waits
    WHERE cause = 'dataloader'
    GROUP BY rank
),
sums AS (
    SELECT
        rank,
        count(*) AS row_count,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        CAST(sum(step_ns) AS DOUBLE) AS step_ns,
        CAST(sum(dataloader_ns) AS DOUBLE) AS dataloader_ns,
        CAST(sum(forward_ns) AS DOUBLE) AS forward_ns,
        CAST(sum(backward_ns) AS DOUBLE) AS backward_ns,
        CAST(sum(optimizer_ns) AS DOUBLE) AS optimizer_ns,
        CAST(sum(other_ns) AS DOUBLE) AS other_ns,
        CAST(sum(dataloader_idle_ns) AS DOUBLE) AS dataloader_idle_ns
    FROM step_phases_by_step
    GROUP BY rank
)
SELECT
    s.rank, s.step_count,
    s.step_ns / s.row_count AS step_ns,
    s.dataloader_ns / s.row_count AS dataloader_ns,
    s.forward_ns / s.row_count AS forward_ns,
    s.backward_ns / s.row_count AS backward_ns,
    s.optimizer_ns / s.row_count AS optimizer_ns,
    s.other_ns / s.row_count AS other_ns,
    s.dataloader_ns / nullif(s.step_ns, 0) AS dataloader_ratio,
    s.forward_ns / nullif(s.step_ns, 0) AS forward_ratio,
    s.backward_ns / nullif(s.step_ns, 0) AS backward_ratio,
    s.optimizer_ns / nullif(s.step_ns, 0) AS optimizer_ratio,
    s.other_ns / nullif(s.step_ns, 0) AS other_ratio,
    s.dataloader_idle_ns / s.row_count AS dataloader_idle_ns,
    s.dataloader_idle_ns / nullif(s.step_ns, 0) AS dataloader_idle_ratio,
    coalesce(r.vendor <> 'cpu', false) AS has_device,
    l.dataloader_workers
FROM sums s
JOIN ranks r ON r.rank = s.rank
LEFT JOIN loaders l ON l.rank = s.rank
