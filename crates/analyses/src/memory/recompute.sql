--! question = "How much time does activation checkpointing cost, and is it needed?"
--! row = "one rank: forward passes that activation checkpointing recomputes in the backward pass"
--! window = "counted_steps"
--! needs = ["kernels", "cpu_ops", "python_frames", "device_windows", "memory_peak"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! kernel_ns = { doc = "durations of computing kernels in the window, added up", unit = "ns", metric = "rank" }
--! recompute_ns = { doc = "of these, launched where checkpointing runs a forward pass again: in recompute_fn, in CheckpointFunctionBackward before its own backward pass begins, or in layers that autograd numbers inside a backward node", unit = "ns", metric = "rank" }
--! recompute_count = { doc = "such kernels", unit = "count", metric = "rank" }
--! recompute_ratio = { doc = "share of kernel_ns", unit = "ratio", metric = "rank" }
--! recompute_window_ratio = { doc = "over the analyzed window of the device", unit = "ratio", metric = "rank" }
--! reserved_ratio = { doc = "peak reservation over memory on the device, the largest of the rank's devices; absent where the trace does not say", unit = "ratio", metric = "rank" }
--! recompute_host_ratio = { doc = "time of host threads that run forward passes again, over the window of the rank's devices", unit = "ratio", metric = "rank" }
--! avoidable_ratio = { doc = "the larger of recompute_window_ratio and recompute_host_ratio, times the share of recomputing that free memory up to 90 % of the device could hold instead: (0.9 - reserved_ratio) / 0.9", unit = "ratio", metric = "rank" }
-- Non-reentrant checkpointing runs the forward pass where a backward node first unpacks what it saved. Only
-- operators that run with gradients on get a number, and gradient formulas call no layers: this distinguishes it from a gradient
-- that is itself differentiated (create_graph=True).
WITH recomputing_nodes AS (
    SELECT DISTINCT o.rank, o.parent
    FROM cpu_ops o
    JOIN cpu_ops p ON p.rank = o.rank AND p.event_id = o.parent
    WHERE o.name IN ('aten::linear', 'aten::conv1d', 'aten::conv2d', 'aten::conv3d', 'aten::layer_norm', 'aten::batch_norm',
        'aten::group_norm', 'aten::rms_norm',
        'aten::scaled_dot_product_attention', 'aten::embedding', 'aten::dropout', 'aten::gelu', 'aten::silu', 'aten::relu', 'aten::softmax')
        AND o.sequence IS NOT NULL AND coalesce(o.fwd_thread, 0) = 0
        AND p.name LIKE '%Backward%'
),
marks AS (
    SELECT rank, thread, ts_ns, ts_ns + dur_ns AS end_ns, 1 AS checkpoint, 0 AS engine FROM python_frames
    WHERE name LIKE 'torch/utils/checkpoint.py(%: recompute\_fn'
    UNION ALL
    SELECT o.rank, o.thread, o.ts_ns, o.ts_ns + o.dur_ns, 1, 0
    FROM cpu_ops o
    JOIN recomputing_nodes n ON n.rank = o.rank AND n.parent = o.parent
    WHERE o.sequence IS NOT NULL AND coalesce(o.fwd_thread, 0) = 0
    UNION ALL
    SELECT rank, thread, ts_ns, ts_ns + dur_ns, CASE WHEN name = 'CheckpointFunctionBackward' THEN 1 ELSE 0 END,
        CASE WHEN name = 'CheckpointFunctionBackward' THEN 0 ELSE 1 END
    FROM cpu_ops
    WHERE name = 'CheckpointFunctionBackward' OR name LIKE 'autograd::engine::evaluate\_function%'
),
ranked AS (
    SELECT DISTINCT rank FROM marks WHERE checkpoint = 1
),
work AS (
    SELECT k.rank, k.event_id, k.dur_ns, k.launch_thread AS thread, k.launch_ts_ns
    FROM kernels k
    JOIN device_windows w ON w.rank = k.rank AND w.device = coalesce(k.device, CAST(-1 AS INT))
    WHERE k.kind = 'computation' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
boundaries AS (
    SELECT m.rank, m.thread, m.ts_ns, 0 AS turn, m.checkpoint, m.engine, 0 AS dur_ns FROM marks m JOIN ranked r ON r.rank = m.rank
    UNION ALL
    SELECT m.rank, m.thread, m.end_ns, 2, -m.checkpoint, -m.engine, 0 FROM marks m JOIN ranked r ON r.rank = m.rank
    UNION ALL
    SELECT w.rank, w.thread, w.launch_ts_ns, 1, 0, 0, w.dur_ns FROM work w JOIN ranked r ON r.rank = w.rank WHERE w.launch_ts_ns IS NOT NULL
),
open_intervals AS (
    SELECT
        rank, ts_ns, turn, dur_ns,
        sum(checkpoint) OVER w AS checkpoints,
        sum(engine) OVER w AS engines,
        lead(ts_ns) OVER (PARTITION BY rank, thread ORDER BY ts_ns, turn) AS next_ns
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, thread ORDER BY ts_ns, turn)
),
recomputed AS (
    SELECT rank, count_if!(turn = 1) AS recompute_count, sum_if!(dur_ns, turn = 1) AS recompute_ns
    FROM open_intervals
    WHERE checkpoints > 0 AND engines <= 1
    GROUP BY rank
),
totals AS (
    SELECT rank, sum(dur_ns) AS kernel_ns FROM work GROUP BY rank
),
windows_of_rank AS (
    SELECT rank, sum(window_ns) AS window_ns, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM device_windows GROUP BY rank
),
recomputing_hosts AS (
    SELECT o.rank, sum(o.next_ns - o.ts_ns) AS host_ns
    FROM open_intervals o
    JOIN windows_of_rank w ON w.rank = o.rank
    WHERE o.checkpoints > 0 AND o.engines <= 1 AND o.ts_ns >= w.start_ns AND o.next_ns <= w.end_ns
    GROUP BY o.rank
),
peaks AS (
    SELECT rank, max(reserved_ratio) AS reserved_ratio FROM memory_peak GROUP BY rank
),
ranks_with_host AS (
    SELECT DISTINCT rank FROM cpu_ops
)
SELECT
    t.rank,
    h.rank IS NOT NULL AS has_host,
    t.kernel_ns,
    coalesce(a.recompute_ns, 0) AS recompute_ns,
    coalesce(a.recompute_count, 0) AS recompute_count,
    ratio!(coalesce(a.recompute_ns, 0), t.kernel_ns) AS recompute_ratio,
    ratio!(coalesce(a.recompute_ns, 0), s.window_ns) AS recompute_window_ratio,
    p.reserved_ratio,
    ratio!(coalesce(q.host_ns, 0), s.end_ns - s.start_ns) AS recompute_host_ratio,
    CASE WHEN p.reserved_ratio IS NOT NULL THEN
        greatest(ratio!(coalesce(a.recompute_ns, 0), s.window_ns), ratio!(coalesce(q.host_ns, 0), s.end_ns - s.start_ns))
            * greatest(0.9 - p.reserved_ratio, 0) / 0.9
    END AS avoidable_ratio
FROM totals t
JOIN windows_of_rank s ON s.rank = t.rank
LEFT JOIN recomputed a ON a.rank = t.rank
LEFT JOIN recomputing_hosts q ON q.rank = t.rank
LEFT JOIN peaks p ON p.rank = t.rank
LEFT JOIN ranks_with_host h ON h.rank = t.rank
