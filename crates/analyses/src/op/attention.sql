--! question = "Is attention fused, and what would fusing it save?"
--! row = "one device of one rank: time in fused and unfused attention"
--! window = "counted_steps"
--! needs = ["device_windows", "device_work", "cpu_ops", "roofline_attention", "op_roofline"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! fused_ns = { doc = "kernels of fused attention: flash, memory-efficient, cuDNN, by the operators that launch them", unit = "ns", metric = "device" }
--! fused_ratio = { doc = "that over the window", unit = "ratio", metric = "device" }
--! efficient_32bit_ratio = { doc = "of it, memory-efficient attention on 32-bit floats, over the window", unit = "ratio", metric = "device" }
--! math_ns = { doc = "kernels inside aten::_scaled_dot_product_attention_math: scaled_dot_product_attention without a fused kernel; with shapes, those of its backward pass too", unit = "ns", metric = "device" }
--! math_ratio = { doc = "that over the window", unit = "ratio", metric = "device" }
--! math_gain_ratio = { doc = "time that fused attention at half of the peak would save of it, over the window; without shapes or peak, three quarters of it", unit = "ratio", metric = "device" }
--! math_fits_fused = "a fused kernel takes the inputs of all these calls: 16-bit floats, heads of a size up to 256 that is a multiple of 8, and no mask; absent without types and shapes"
--! written_out_count = { doc = "softmaxes between two matmuls of the same scores, forward and backward, outside scaled_dot_product_attention", unit = "count", metric = "device" }
--! written_out_ns = { doc = "time of those matmuls and what runs between them", unit = "ns", metric = "device" }
--! written_out_ratio = { doc = "that over the window; absent if no shapes were recorded", unit = "ratio", metric = "device" }
--! written_out_gain_ratio = { doc = "time that fused attention at half of the peak would save, over the window; absent if the device is in no table", unit = "ratio", metric = "device" }
--! scores = "heads of all samples, queries and keys of those with most time"
--! dtype = "data type they multiply"
-- Launches and softmaxes inside such an operator on its thread.
WITH boundaries AS (
    SELECT
        rank, thread, ts_ns, 1 AS turn, 1 AS opened, CAST(NULL AS INT) AS device, 0 AS dur_ns,
        CAST(NULL AS VARCHAR) AS scores
    FROM cpu_ops
    WHERE name = 'aten::_scaled_dot_product_attention_math'
    UNION ALL
    SELECT rank, thread, ts_ns + dur_ns, 0, -1, NULL, 0, NULL
    FROM cpu_ops
    WHERE name = 'aten::_scaled_dot_product_attention_math'
    UNION ALL
    SELECT a.rank, o.thread, o.ts_ns, 2, 0, a.device, 0, a.scores
    FROM roofline_attention a
    JOIN cpu_ops o ON o.rank = a.rank AND o.event_id = a.op
    UNION ALL
    SELECT k.rank, k.launch_thread, k.launch_ts_ns, 2, 0, k.device, k.dur_ns, NULL
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.launch_ts_ns IS NOT NULL AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
running AS (
    SELECT
        rank, device, dur_ns, scores,
        running_sum!(opened, PARTITION BY rank, thread ORDER BY ts_ns, turn) AS open_count
    FROM boundaries
),
math_inputs AS (
    SELECT
        rank,
        min(CASE
            WHEN regexp_like(CAST(input_types AS VARCHAR), '^\["(c10::BFloat16|c10::Half)", ?"(c10::BFloat16|c10::Half)", ?"(c10::BFloat16|c10::Half)", ?""')
                AND head_size % 8 = 0 AND head_size <= 256
            THEN 1 ELSE 0
        END) = 1 AS fits_fused
    FROM (
        SELECT
            rank, input_types,
            TRY_CAST(regexp_replace(CAST(input_dims AS VARCHAR), '^\[\[\d+, ?\d+, ?\d+, ?(\d+)\].*', '\1') AS BIGINT) AS head_size
        FROM cpu_ops
        WHERE name = 'aten::_scaled_dot_product_attention_math' AND coalesce(input_types, '') <> ''
    )
    GROUP BY rank
),
-- The backward pass has no such operator around it: there the scores identify it.
math_scores AS (
    SELECT DISTINCT rank, device, scores FROM running WHERE scores IS NOT NULL AND open_count > 0
),
attention AS (
    SELECT a.*, s.rank IS NOT NULL AS is_math
    FROM roofline_attention a
    LEFT JOIN math_scores s ON s.rank = a.rank AND s.device = a.device AND s.scores = a.scores
),
written AS (
    SELECT
        rank, device, count(*) AS written_out_count, sum(kernel_ns) AS written_out_ns,
        sum(kernel_ns - fused_ns) AS gain_ns,
        first_value(scores ORDER BY kernel_ns DESC, scores) AS scores,
        first_value(dtype ORDER BY kernel_ns DESC, scores) AS dtype
    FROM attention
    WHERE NOT is_math
    GROUP BY rank, device
),
math_found AS (
    SELECT
        rank, device, sum(fused_ns) AS fused_ns,
        sum_if!(kernel_ns, pass = 'backward') AS backward_ns
    FROM attention
    WHERE is_math
    GROUP BY rank, device
),
math_inside AS (
    SELECT rank, device, sum(dur_ns) AS inside_ns
    FROM running
    WHERE device IS NOT NULL AND open_count > 0
    GROUP BY rank, device
),
math AS (
    SELECT
        i.rank, i.device, i.inside_ns + coalesce(f.backward_ns, 0) AS math_ns,
        CASE
            WHEN f.fused_ns IS NULL THEN 0.75 * (i.inside_ns + coalesce(f.backward_ns, 0))
            ELSE greatest(i.inside_ns + f.backward_ns - f.fused_ns, 0)
        END AS gain_ns
    FROM math_inside i
    LEFT JOIN math_found f ON f.rank = i.rank AND f.device = i.device
),
fused AS (
    SELECT
        k.rank, k.device, sum(k.dur_ns) AS fused_ns,
        sum_if!(k.dur_ns, o.input_types LIKE '["float"%' AND k.op_name LIKE '%efficient%') AS single_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    LEFT JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op
    WHERE k.category = 'kernel' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
        AND regexp_like(
            CAST(k.op_name AS VARCHAR),
            '(_flash_attention_|_efficient_attention_|_cudnn_attention_|_scaled_dot_product_(flash|efficient|cudnn|fused)|^flash_attn|FlashAttn|xformers)'
        )
    GROUP BY k.rank, k.device
),
shaped AS (
    SELECT DISTINCT rank, device FROM op_roofline
)
SELECT
    w.rank, w.device, w.window_ns,
    coalesce(f.fused_ns, 0) AS fused_ns,
    ratio!(coalesce(f.fused_ns, 0), w.window_ns) AS fused_ratio,
    ratio!(coalesce(f.single_ns, 0), w.window_ns) AS efficient_32bit_ratio,
    coalesce(m.math_ns, 0) AS math_ns,
    ratio!(coalesce(m.math_ns, 0), w.window_ns) AS math_ratio,
    coalesce(m.gain_ns, 0.0) / nullif(w.window_ns, 0) AS math_gain_ratio,
    i.fits_fused AS math_fits_fused,
    coalesce(a.written_out_count, 0) AS written_out_count,
    coalesce(a.written_out_ns, 0) AS written_out_ns,
    CASE
        WHEN s.rank IS NOT NULL THEN ratio!(coalesce(a.written_out_ns, 0), w.window_ns)
    END AS written_out_ratio,
    CASE WHEN a.rank IS NULL THEN 0 ELSE a.gain_ns / nullif(w.window_ns, 0) END AS written_out_gain_ratio,
    a.scores, a.dtype
FROM device_windows w
LEFT JOIN fused f ON f.rank = w.rank AND f.device = w.device
LEFT JOIN math m ON m.rank = w.rank AND m.device = w.device
LEFT JOIN math_inputs i ON i.rank = w.rank
LEFT JOIN written a ON a.rank = w.rank AND a.device = w.device
LEFT JOIN shaped s ON s.rank = w.rank AND s.device = w.device
