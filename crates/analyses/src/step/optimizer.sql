--! question = "How expensive is the optimizer, and is it fused?"
--! row = "one rank: kernels and idle time of Optimizer.step and zero_grad"
--! window = "counted_steps"
--! needs = ["ranks", "kernels", "annotations", "python_frames", "device_windows", "device_idle_gaps", "device_steps", "host_phases"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no Optimizer.step: it marks no training step, or the host was not recorded (ProfilerActivity.CPU)"
--! [columns]
--! rank = "rank"
--! has_device = "the trace holds device activity"
--! optimizer = "class of the optimizer that takes most time; several may take turns"
--! optimizer_count = { doc = "classes of optimizers that step", unit = "count", metric = "rank" }
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! call_count = { doc = "calls of Optimizer.step in complete steps, of the class that has most; one that it calls itself does not count", unit = "count", metric = "rank" }
--! host_ns = { doc = "inside Optimizer.step in complete steps, less the model's work that it calls", unit = "ns", metric = "rank" }
--! host_ratio = { doc = "share of the time of complete steps, with the device work that they launched", unit = "ratio", metric = "rank" }
--! kernel_count = { doc = "kernels that it launched in complete steps", unit = "count", metric = "rank" }
--! kernel_per_step_count = { doc = "that a call of Optimizer.step", unit = "count", metric = "rank" }
--! kernel_ns = { doc = "their durations, added up", unit = "ns", metric = "rank" }
--! kernel_ratio = { doc = "over the analyzed window of the device", unit = "ratio", metric = "rank" }
--! gap_ns = { doc = "idle directly before one of them whose launch had not returned when the gap began, data loading and synchronization excluded", unit = "ns", metric = "rank" }
--! gap_ratio = { doc = "over the analyzed window of the device", unit = "ratio", metric = "rank" }
--! foreach_count = { doc = "of them, kernels that work on lists of tensors (multi_tensor_apply), fused ones excluded", unit = "count", metric = "rank" }
--! fused_count = { doc = "of them, kernels that do a whole update of a list of tensors (fused=True; Apex, DeepSpeed)", unit = "count", metric = "rank" }
--! single_count = { doc = "calls of _single_tensor_* functions; absent without stacks", unit = "count", metric = "rank" }
--! zero_kernel_count = { doc = "kernels that Optimizer.zero_grad launched in complete steps: gradients filled with zeros", unit = "count", metric = "rank" }
--! zero_ns = { doc = "their durations, added up", unit = "ns", metric = "rank" }
--! zero_gap_ns = { doc = "idle directly before one of them whose launch had not returned when the gap began, data loading and synchronization excluded", unit = "ns", metric = "rank" }
--! zero_ratio = { doc = "both over the analyzed window of the device", unit = "ratio", metric = "rank" }
WITH windows AS (
    SELECT rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns, max(window_ns) AS window_ns
    FROM device_windows
    GROUP BY rank
),
steps AS (
    SELECT rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns, sum(greatest(host_end_ns - host_ts_ns, dur_ns)) AS steps_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
    FROM device_steps
    GROUP BY rank
),
ranges AS (
    SELECT
        a.rank, a.name,
        regexp_replace(CAST(a.name AS VARCHAR), '^Optimizer\.step#?(.*?)(\.step)?\z', '\1') AS optimizer,
        a.ts_ns, a.dur_ns,
        coalesce(max_before!(a.ts_ns + a.dur_ns, PARTITION BY a.rank, a.thread, a.name ORDER BY a.ts_ns, a.dur_ns DESC, a.event_id) > a.ts_ns, false) AS is_nested
    FROM annotations a
    JOIN steps s ON s.rank = a.rank
    WHERE NOT a.on_device AND a.name LIKE 'Optimizer.step%' AND a.ts_ns >= s.start_ns AND a.ts_ns < s.end_ns
),
classes AS (
    SELECT rank, optimizer, count_if!(NOT is_nested) AS call_count, sum(dur_ns) AS dur_ns FROM ranges GROUP BY rank, optimizer
),
calls AS (
    SELECT
        rank,
        first_value(optimizer ORDER BY dur_ns DESC, optimizer) AS optimizer,
        count(*) AS optimizer_count,
        max(call_count) AS call_count
    FROM classes
    GROUP BY rank
),
phases AS (
    SELECT rank, sum(dur_ns) AS host_ns FROM host_phases WHERE phase = 'optimizer' GROUP BY rank
),
work AS (
    SELECT
        k.rank, k.event_id, k.dur_ns,
        -- An optimizer that calls the model (a closure) launches the kernels of the forward pass, too.
        k.annotation LIKE 'Optimizer.step%' AND f.rank IS NULL AS in_step,
        k.annotation LIKE 'Optimizer.zero\_grad%' AS in_zero,
        k.name LIKE '%multi\_tensor%'
            AND NOT regexp_like(CAST(k.name AS VARCHAR),
                'Fused|(Adam|AdamW|Adagrad|SGD|Sgd|LAMB|Lamb|Lion|NovoGrad)(Capturable|Master)*(Math)?Functor') AS is_foreach,
        regexp_like(CAST(k.name AS VARCHAR),
            'Fused(Adam|Sgd|Optimizer|Adagrad)|multi_tensor.*(Adam|AdamW|Adagrad|SGD|Sgd|LAMB|Lamb|Lion|NovoGrad)[A-Za-z]*Functor|kOptimizer') AS is_fused
    FROM kernels k
    JOIN windows w ON w.rank = k.rank
    LEFT JOIN host_phases f ON f.rank = k.rank AND f.step = k.step AND f.phase = 'forward'
        AND k.launch_ts_ns >= f.ts_ns AND k.launch_ts_ns < f.ts_ns + f.dur_ns
    WHERE (k.annotation LIKE 'Optimizer.step%' OR k.annotation LIKE 'Optimizer.zero\_grad%')
        AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
sums AS (
    SELECT
        w.rank,
        count_if!(w.in_step) AS kernel_count,
        sum_if!(w.dur_ns, w.in_step) AS kernel_ns,
        sum_if!(g.host_ns, w.in_step) AS gap_ns,
        count_if!(w.in_step AND w.is_foreach) AS foreach_count,
        count_if!(w.in_step AND w.is_fused) AS fused_count,
        count_if!(w.in_zero) AS zero_kernel_count,
        sum_if!(w.dur_ns, w.in_zero) AS zero_ns,
        sum_if!(g.host_ns, w.in_zero) AS zero_gap_ns
    FROM work w
    LEFT JOIN device_idle_gaps g ON g.rank = w.rank AND g.next_event_id = w.event_id
    GROUP BY w.rank
),
frames AS (
    SELECT rank, count(*) AS single_count FROM python_frames WHERE name LIKE '%: \_single\_tensor\_%' GROUP BY rank
)
SELECT
    c.rank, w.rank IS NOT NULL AS has_device, c.optimizer, c.optimizer_count, t.step_count, c.call_count,
    coalesce(p.host_ns, 0) AS host_ns,
    ratio!(coalesce(p.host_ns, 0), t.steps_ns) AS host_ratio,
    coalesce(s.kernel_count, 0) AS kernel_count,
    ratio!(coalesce(s.kernel_count, 0), c.call_count) AS kernel_per_step_count,
    coalesce(s.kernel_ns, 0) AS kernel_ns,
    ratio!(coalesce(s.kernel_ns, 0), w.window_ns) AS kernel_ratio,
    coalesce(s.gap_ns, 0) AS gap_ns,
    ratio!(coalesce(s.gap_ns, 0), w.window_ns) AS gap_ratio,
    coalesce(s.foreach_count, 0) AS foreach_count,
    coalesce(s.fused_count, 0) AS fused_count,
    CASE WHEN r.has_stacks THEN coalesce(f.single_count, 0) END AS single_count,
    zero_for_missing!(s, (zero_kernel_count, zero_ns, zero_gap_ns)),
    ratio!(coalesce(s.zero_ns + s.zero_gap_ns, 0), w.window_ns) AS zero_ratio
FROM calls c
JOIN ranks r ON r.rank = c.rank
JOIN steps t ON t.rank = c.rank
LEFT JOIN phases p ON p.rank = c.rank
LEFT JOIN windows w ON w.rank = c.rank
LEFT JOIN sums s ON s.rank = c.rank
LEFT JOIN frames f ON f.rank = c.rank
