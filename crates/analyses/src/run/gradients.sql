--! question = "Are gradients cleared between calls of the optimizer?"
--! row = "one rank: gradients that backward passes store or add to earlier gradients"
--! window = "recording"
--! needs = ["ranks", "cpu_ops", "annotations"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! optimizer_step_count = { doc = "calls of Optimizer.step", unit = "count", metric = "rank" }
--! accumulate_count = { doc = "gradients that backward passes store (AccumulateGrad)", unit = "count", metric = "rank" }
--! added_count = { doc = "of these, added to an existing gradient", unit = "count", metric = "rank" }
--! cleared_count = { doc = "operators outside of backward passes that fill a tensor with a value or make one of zeros like another, and calls of Optimizer.zero_grad: any of them may clear gradients", unit = "count", metric = "rank" }
--! never_cleared_count = { doc = "calls of the optimizer, if all gradients of the recording are added to earlier ones and nothing that may clear them runs; else 0. Also 0 if gradients are reduced between ranks, since they are then in other buffers", unit = "count", metric = "rank" }
WITH nodes AS (
    SELECT rank, event_id FROM cpu_ops WHERE name = 'torch::autograd::AccumulateGrad'
),
added AS (
    SELECT DISTINCT o.rank, o.parent
    FROM cpu_ops o
    JOIN nodes n ON n.rank = o.rank AND n.event_id = o.parent
    WHERE o.name IN ('aten::add_', 'aten::add')
),
stored AS (
    SELECT n.rank, count(*) AS accumulate_count, count(a.rank) AS added_count
    FROM nodes n
    LEFT JOIN added a ON a.rank = n.rank AND a.parent = n.event_id
    GROUP BY n.rank
),
-- Operators that another operator calls, such as aten::zeros, fill new tensors.
cleared AS (
    SELECT o.rank, count(*) AS cleared_count
    FROM cpu_ops o
    LEFT JOIN cpu_ops p ON p.rank = o.rank AND p.event_id = o.parent
    WHERE o.name IN ('aten::zero_', 'aten::_foreach_zero_', 'aten::fill_', 'aten::zeros_like', 'aten::zero')
        AND p.rank IS NULL
    GROUP BY o.rank
),
marks AS (
    SELECT
        rank,
        count_if!(name LIKE 'Optimizer.step#%') AS optimizer_step_count,
        count_if!(name LIKE 'Optimizer.zero\_grad#%') AS zero_grad_count
    FROM annotations
    WHERE NOT on_device
    GROUP BY rank
),
reduced AS (
    SELECT DISTINCT rank FROM cpu_ops WHERE name LIKE 'c10d::%' OR name LIKE 'DistributedDataParallel%' OR name LIKE 'FSDP::%'
    UNION
    SELECT DISTINCT rank FROM annotations WHERE name LIKE 'DistributedDataParallel%' OR name LIKE 'FSDP::%'
),
ranks_with_operators AS (
    SELECT DISTINCT rank FROM cpu_ops
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    coalesce(m.optimizer_step_count, 0) AS optimizer_step_count,
    coalesce(s.accumulate_count, 0) AS accumulate_count,
    coalesce(s.added_count, 0) AS added_count,
    coalesce(c.cleared_count, 0) + coalesce(m.zero_grad_count, 0) AS cleared_count,
    CASE
        WHEN s.added_count = s.accumulate_count AND c.rank IS NULL AND m.zero_grad_count = 0 AND d.rank IS NULL
            THEN coalesce(m.optimizer_step_count, 0)
        ELSE 0
    END AS never_cleared_count
FROM ranks r
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
LEFT JOIN marks m ON m.rank = r.rank
LEFT JOIN stored s ON s.rank = r.rank
LEFT JOIN cleared c ON c.rank = r.rank
LEFT JOIN reduced d ON d.rank = r.rank
WHERE r.vendor IS NOT NULL
