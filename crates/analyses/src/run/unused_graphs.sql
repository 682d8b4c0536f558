--! question = "Does inference build autograd graphs that it never uses?"
--! row = "one rank: steps that record a graph for autograd and run no backward pass"
--! window = "counted_steps"
--! needs = ["ranks", "cpu_ops", "device_steps", "step_extents", "run_training_mode"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! op_count = { doc = "operators of the recording", unit = "count", metric = "rank" }
--! steps_ns = { doc = "time of complete steps, with the device work that they launched; of the recording where there are none", unit = "ns", metric = "rank" }
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! unused_graph_count = { doc = "complete steps, or the recording, in which operators record a graph for autograd (10 or more sequence numbers) and no backward operator runs", unit = "count", metric = "rank" }
--! unused_graph_ratio = { doc = "share of the time of complete steps", unit = "ratio", metric = "rank" }
--! training_batch_norm_count = { doc = "batch norms of the recording in training mode, see run_training_mode", unit = "count", metric = "rank" }
WITH graphs AS (
    SELECT
        o.rank,
        CASE WHEN e.step_count = 0 THEN 0 ELSE o.step END AS step,
        count(DISTINCT o.sequence) AS recorded_count,
        count_if!(o.name LIKE 'autograd::engine%' OR o.name LIKE '%Backward' OR o.name LIKE '%Backward_'
            OR o.name LIKE 'torch::autograd::%') AS backward_count
    FROM cpu_ops o
    JOIN step_extents e ON e.rank = o.rank
    GROUP BY o.rank, CASE WHEN e.step_count = 0 THEN 0 ELSE o.step END
),
unused_graphs AS (
    SELECT g.rank, count(*) AS unused_graph_count, sum(greatest(s.host_end_ns - s.host_ts_ns, s.dur_ns)) AS unused_graph_ns
    FROM graphs g
    JOIN device_steps s ON s.rank = g.rank AND (s.step = g.step OR s.source = 'trace')
    WHERE g.recorded_count >= 10 AND g.backward_count = 0
    GROUP BY g.rank
),
ranks_with_operators AS (
    SELECT rank, count(*) AS op_count FROM cpu_ops GROUP BY rank
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    coalesce(h.op_count, 0) AS op_count,
    e.steps_ns,
    coalesce(e.step_count, 0) AS step_count,
    coalesce(u.unused_graph_count, 0) AS unused_graph_count,
    ratio!(coalesce(u.unused_graph_ns, 0), e.steps_ns) AS unused_graph_ratio,
    m.training_batch_norm_count
FROM ranks r
LEFT JOIN step_extents e ON e.rank = r.rank
LEFT JOIN unused_graphs u ON u.rank = r.rank
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
LEFT JOIN run_training_mode m ON m.rank = r.rank
WHERE r.vendor IS NOT NULL
