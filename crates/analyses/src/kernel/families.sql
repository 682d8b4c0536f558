--! question = "How much GPU time goes to matmuls, convolutions, attention, casts, copies and layout changes?"
--! row = "one device of one rank: its time by family of kernels"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "cpu_ops", "gpu_utilization"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last, see device_windows", unit = "ns", metric = "device" }
--! busy_ratio = { doc = "share of the window in which a kernel, copy or fill runs", unit = "ratio", metric = "device" }
--! work_ns = { doc = "durations of the kernels, copies and fills that start in the window, added up; so are all that follow", unit = "ns", metric = "device" }
--! kernel_count = { doc = "kernels in complete steps", unit = "count", metric = "device" }
--! kernel_ns = { doc = "kernels", unit = "ns", metric = "device" }
--! typed_ratio = { doc = "share of kernel time under operators that say the types of their inputs (record_shapes=True)", unit = "ratio", metric = "device" }
--! copy_ns = { doc = "tensors copied on the device without a change of type: kernels of aten::copy_, clone, contiguous and the like, and copies from device to device", unit = "ns", metric = "device" }
--! copy_count = { doc = "such kernels and copies", unit = "count", metric = "device" }
--! copy_ratio = { doc = "share of work_ns", unit = "ratio", metric = "device" }
--! copy_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! cast_ns = { doc = "kernels of aten::copy_ between tensors of different types; absent if no copy says its types", unit = "ns", metric = "device" }
--! cast_count = { doc = "such kernels; absent if no copy says its types", unit = "count", metric = "device" }
--! cast_ratio = { doc = "share of work_ns; absent if no copy says its types", unit = "ratio", metric = "device" }
--! cast_window_ratio = { doc = "over the window; absent if no copy says its types", unit = "ratio", metric = "device" }
--! cast_types = "the change of types that takes most time"
--! matmul_ns = { doc = "kernels of matmuls, by name (gemm, gemv, matmul, bmm_, Cijk_, nvjet and the like) or by their operator; kernels of convolutions and of attention excluded", unit = "ns", metric = "device" }
--! matmul_ratio = { doc = "share of kernel_ns; absent without kernels", unit = "ratio", metric = "device" }
--! conv_ns = { doc = "kernels of convolutions, layout transposes excluded", unit = "ns", metric = "device" }
--! conv_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! slow_conv_ns = { doc = "of these, by algorithms that cuDNN falls back on: implicit_convolve_sgemm, dgrad_engine, wgrad_alg0 and the like", unit = "ns", metric = "device" }
--! slow_conv_ratio = { doc = "share of conv_ns; absent without convolutions", unit = "ratio", metric = "device" }
--! layout_ns = { doc = "kernels that turn NCHW into NHWC or back: nchwToNhwc, nhwcToNchw, batched_transpose and the like", unit = "ns", metric = "device" }
--! layout_count = { doc = "such kernels", unit = "count", metric = "device" }
--! layout_conv_ratio = { doc = "their time over that of convolutions; absent without convolutions", unit = "ratio", metric = "device" }
--! layout_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! fp64_ns = { doc = "kernels on 64-bit floats: with double among the types in their name, or dgemm, under an operator with an input of type double where types are known; copies to and from 64 bits, too", unit = "ns", metric = "device" }
--! fp64_count = { doc = "such kernels", unit = "count", metric = "device" }
--! fp64_ratio = { doc = "share of kernel_ns; absent without kernels", unit = "ratio", metric = "device" }
--! fp64_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! fp64_name = "of these, the kernel with most time"
--! fp64_op_name = "operator that launched it"
--! fp64_shape = "shape of the first input of that operator"
--! attention_ns = { doc = "kernels of attention, by name", unit = "ns", metric = "device" }
--! cache_ns = { doc = "kernels that write keys and values to a paged cache (reshape_and_cache and the like)", unit = "ns", metric = "device" }
--! cache_ratio = { doc = "their time over that of attention; absent without attention", unit = "ratio", metric = "device" }
--! cache_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! pointwise_ns = { doc = "element-wise and reducing kernels of PyTorch (elementwise_kernel, reduce_kernel, softmax and norm kernels)", unit = "ns", metric = "device" }
--! pointwise_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! compiled_count = { doc = "kernels that a compiler made: triton_*", unit = "count", metric = "device" }
--! low_occupancy_ns = { doc = "element-wise, reducing and copying kernels, which move data rather than compute, with an estimated achieved occupancy below 25 %", unit = "ns", metric = "device" }
--! chain_ns = { doc = "element-wise and reducing kernels directly after another one on their stream, those on lists of tensors (multi_tensor_apply) excluded: a compiler could fuse them", unit = "ns", metric = "device" }
--! chain_window_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! sm_use_ratio = { doc = "blocks over SMs, at most 1, averaged over the time of computing kernels; absent if kernels with a tenth of that time do not say", unit = "ratio", metric = "device" }
--! sm_spare_window_ratio = { doc = "unused part of the SMs, added up over computing kernels, over the window; absent as before", unit = "ratio", metric = "device" }
--! low_occupancy_ratio = { doc = "share of kernel_ns; absent if no such kernel says its occupancy", unit = "ratio", metric = "device" }
WITH kernels AS (
    SELECT
        k.rank, k.device, k.stream, k.ts_ns, k.event_id, k.category, k.name, k.kind, k.dur_ns, k.occupancy_ratio,
        k.blocks_per_sm, k.op, k.op_name,
        k.category = 'kernel' AS is_kernel,
        k.category = 'kernel' AND is_layout_change!(k.name) AS is_layout,
        k.category = 'kernel' AND is_convolution!(k.name) AS is_conv,
        k.category = 'kernel' AND regexp_like(k.name,
            'implicit_convolve_sgemm|explicit_convolve_sgemm|dgrad_engine|dgrad2d|wgrad_alg0|wgrad2d|convolve_common_engine|precomputed_convolve_sgemm') AS is_slow_conv,
        k.category = 'kernel' AND regexp_like(k.name, '(?i)dgemm|d884|\bdouble\b')
            AND NOT regexp_like(k.name, '(?i)distribution|range|linspace|normal|uniform') AS names_double,
        -- In other places of a name, double may be the type of a scalar.
        regexp_like(k.name, '(?i)dgemm|d884|<(\d+, ?)?double|, ?double>') AS is_likely_double,
        k.category = 'kernel' AND is_attention!(k.name) AS is_attention,
        k.category = 'kernel' AND is_cache_write!(k.name) AS is_cache,
        k.category = 'kernel' AND k.kind = 'computation' AND (is_matmul!(k.name) OR is_matmul_op!(k.op_name)) AS is_product,
        k.category = 'kernel' AND k.kind = 'computation' AND is_pointwise!(k.name) AS is_pointwise,
        k.category = 'kernel' AND k.name LIKE 'triton\_%' AS is_compiled
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
typed AS (
    SELECT
        rank, event_id,
        coalesce(input_types, '') <> '' AS is_typed,
        input_types LIKE '%"double"%' AS has_double,
        -- A tensor of no dimensions is a number of Python.
        name = 'aten::copy_' AND input_types LIKE '%"double"%' AND input_dims NOT LIKE '[[],%' AS copies_double,
        regexp_replace(CAST(input_dims AS VARCHAR), '^\[(\[[^\]]*\]).*', '\1') AS shape,
        CASE WHEN name = 'aten::copy_' THEN nullif(split_part(CAST(input_types AS VARCHAR), '"', 2), '') END AS to_type,
        CASE WHEN name = 'aten::copy_' THEN nullif(split_part(CAST(input_types AS VARCHAR), '"', 4), '') END AS from_type
    FROM cpu_ops
    WHERE coalesce(input_types, '') <> ''
),
work AS (
    SELECT
        k.rank, k.device, k.category, k.name, k.op_name, k.dur_ns, k.occupancy_ratio, t.to_type, t.from_type, t.shape,
        k.is_kernel,
        coalesce(t.is_typed, false) AS is_typed,
        k.is_kernel AND k.op_name = 'aten::copy_' AS is_copy_kernel,
        k.is_kernel AND k.op_name IN ('aten::clone', 'aten::contiguous', 'aten::_to_copy', 'aten::to',
            'aten::_foreach_copy_') AS is_other_copy,
        k.category = 'memcpy' AND k.name LIKE '%DtoD%' AS is_device_copy,
        k.is_layout,
        NOT k.is_layout AND k.is_kernel AND (k.is_conv OR k.op_name LIKE '%conv%') AS is_conv,
        k.is_slow_conv,
        CASE
            WHEN t.is_typed THEN t.has_double AND (k.names_double OR (k.is_kernel AND t.copies_double))
            ELSE k.names_double AND k.is_likely_double
        END AS is_double,
        -- An operator of a matmul may also copy or add.
        coalesce(k.is_product, false) AND NOT k.is_layout AND NOT k.is_conv AND coalesce(k.op_name NOT LIKE '%conv%', true)
            AND NOT k.is_attention AND NOT k.is_pointwise AS is_matmul,
        k.is_attention, k.is_cache, k.is_pointwise, k.is_compiled,
        k.kind = 'computation' AS is_computing,
        CASE WHEN k.blocks_per_sm > 0 THEN least(k.blocks_per_sm, 1.0) END AS sm_use_ratio,
        k.is_pointwise AND k.name NOT LIKE '%multi\_tensor%' AS is_fusable,
        lag(k.is_pointwise AND k.name NOT LIKE '%multi\_tensor%')
            OVER (PARTITION BY k.rank, k.device, k.stream ORDER BY k.ts_ns, k.event_id) AS follows_fusable
    FROM kernels k
    LEFT JOIN typed t ON t.rank = k.rank AND t.event_id = k.op
),
sums AS (
    SELECT
        rank, device,
        sum(dur_ns) AS work_ns,
        count_if!(is_kernel) AS kernel_count,
        sum_if!(dur_ns, is_kernel) AS kernel_ns,
        sum_if!(dur_ns, is_kernel AND is_typed) AS typed_ns,
        sum_if!(dur_ns, is_device_copy OR is_other_copy OR (is_copy_kernel AND coalesce(to_type = from_type, true))) AS copy_ns,
        count_if!(is_device_copy OR is_other_copy OR (is_copy_kernel AND coalesce(to_type = from_type, true))) AS copy_count,
        count_if!(is_copy_kernel) AS copy_kernel_count,
        count_if!(is_copy_kernel AND from_type IS NOT NULL) AS typed_copy_count,
        sum_if!(dur_ns, is_copy_kernel AND to_type <> from_type) AS cast_ns,
        count_if!(is_copy_kernel AND to_type <> from_type) AS cast_count,
        sum_if!(dur_ns, is_matmul) AS matmul_ns,
        sum_if!(dur_ns, is_conv) AS conv_ns,
        sum_if!(dur_ns, is_conv AND is_slow_conv) AS slow_conv_ns,
        sum_if!(dur_ns, is_layout) AS layout_ns,
        count_if!(is_layout) AS layout_count,
        sum_if!(dur_ns, is_kernel AND is_double) AS fp64_ns,
        count_if!(is_kernel AND is_double) AS fp64_count,
        sum_if!(dur_ns, is_attention) AS attention_ns,
        sum_if!(dur_ns, is_cache) AS cache_ns,
        sum_if!(dur_ns, is_pointwise) AS pointwise_ns,
        count_if!(is_compiled) AS compiled_count,
        sum_if!(dur_ns, is_fusable AND follows_fusable) AS chain_ns,
        sum_if!(dur_ns, is_computing) AS computing_ns,
        sum_if!(dur_ns, is_computing AND sm_use_ratio IS NOT NULL) AS sm_known_ns,
        exact_sum!(CASE WHEN is_computing THEN sm_use_ratio * dur_ns END) AS sm_use_ns,
        sum_if!(dur_ns, (is_pointwise OR is_copy_kernel) AND occupancy_ratio < 0.25) AS low_occupancy_ns,
        count(CASE WHEN is_pointwise OR is_copy_kernel THEN occupancy_ratio END) AS occupancy_count
    FROM work
    GROUP BY rank, device
),
-- Types as PyTorch writes them, and as people do.
short_types AS (
    SELECT column1 AS written, column2 AS short
    FROM (VALUES
        ('double', 'fp64'), ('float', 'fp32'), ('c10::Half', 'fp16'), ('c10::BFloat16', 'bf16'),
        ('c10::Float8_e4m3fn', 'fp8'), ('c10::Float8_e5m2', 'fp8'), ('long int', 'int64'), ('int', 'int32'))
),
top_names AS (
    SELECT
        rank, device,
        first_value(types ORDER BY cast_ns DESC, types) AS cast_types
    FROM (
        SELECT
            w.rank, w.device,
            concat(coalesce(f.short, w.from_type), ' to ', coalesce(t.short, w.to_type)) AS types,
            sum(w.dur_ns) AS cast_ns
        FROM work w
        LEFT JOIN short_types f ON f.written = w.from_type
        LEFT JOIN short_types t ON t.written = w.to_type
        WHERE w.is_copy_kernel AND w.to_type <> w.from_type
        GROUP BY w.rank, w.device, w.from_type, w.to_type, f.short, t.short
    )
    GROUP BY rank, device
),
doubles AS (
    SELECT
        rank, device,
        first_value(name ORDER BY fp64_ns DESC, name, op_name, shape) AS fp64_name,
        first_value(op_name ORDER BY fp64_ns DESC, name, op_name, shape) AS fp64_op_name,
        first_value(shape ORDER BY fp64_ns DESC, name, op_name, shape) AS fp64_shape
    FROM (
        SELECT rank, device, name, op_name, shape, sum(dur_ns) AS fp64_ns
        FROM work
        WHERE is_kernel AND is_double
        GROUP BY rank, device, name, op_name, shape
    )
    GROUP BY rank, device
)
SELECT
    w.rank, w.device, w.window_ns, u.busy_ratio,
    s.work_ns, s.kernel_count, s.kernel_ns,
    ratio!(s.typed_ns, s.kernel_ns) AS typed_ratio,
    s.copy_ns, s.copy_count,
    ratio!(s.copy_ns, s.work_ns) AS copy_ratio,
    ratio!(s.copy_ns, w.window_ns) AS copy_window_ratio,
    CASE WHEN s.typed_copy_count > 0 OR s.copy_kernel_count = 0 THEN s.cast_ns END AS cast_ns,
    CASE WHEN s.typed_copy_count > 0 OR s.copy_kernel_count = 0 THEN s.cast_count END AS cast_count,
    CASE WHEN s.typed_copy_count > 0 OR s.copy_kernel_count = 0 THEN ratio!(s.cast_ns, s.work_ns) END AS cast_ratio,
    CASE WHEN s.typed_copy_count > 0 OR s.copy_kernel_count = 0 THEN ratio!(s.cast_ns, w.window_ns) END AS cast_window_ratio,
    t.cast_types,
    s.matmul_ns,
    ratio!(s.matmul_ns, s.kernel_ns) AS matmul_ratio,
    s.conv_ns,
    ratio!(s.conv_ns, w.window_ns) AS conv_window_ratio,
    s.slow_conv_ns,
    ratio!(s.slow_conv_ns, s.conv_ns) AS slow_conv_ratio,
    s.layout_ns, s.layout_count,
    ratio!(s.layout_ns, s.conv_ns) AS layout_conv_ratio,
    ratio!(s.layout_ns, w.window_ns) AS layout_window_ratio,
    s.fp64_ns, s.fp64_count,
    ratio!(s.fp64_ns, s.kernel_ns) AS fp64_ratio,
    ratio!(s.fp64_ns, w.window_ns) AS fp64_window_ratio,
    d.fp64_name, d.fp64_op_name, d.fp64_shape,
    s.attention_ns, s.cache_ns,
    ratio!(s.cache_ns, s.attention_ns) AS cache_ratio,
    ratio!(s.cache_ns, w.window_ns) AS cache_window_ratio,
    s.pointwise_ns,
    ratio!(s.pointwise_ns, w.window_ns) AS pointwise_window_ratio,
    s.compiled_count,
    s.low_occupancy_ns,
    s.chain_ns,
    ratio!(s.chain_ns, w.window_ns) AS chain_window_ratio,
    CASE WHEN s.sm_known_ns >= 0.9 * s.computing_ns THEN s.sm_use_ns / nullif(s.sm_known_ns, 0) END AS sm_use_ratio,
    CASE WHEN s.sm_known_ns >= 0.9 * s.computing_ns
        THEN (s.sm_known_ns - s.sm_use_ns) / nullif(w.window_ns, 0) END AS sm_spare_window_ratio,
    CASE WHEN s.occupancy_count > 0 THEN ratio!(s.low_occupancy_ns, s.kernel_ns) END AS low_occupancy_ratio
FROM device_windows w
JOIN sums s ON s.rank = w.rank AND s.device = w.device
LEFT JOIN gpu_utilization u ON u.rank = w.rank AND u.device = w.device
LEFT JOIN top_names t ON t.rank = w.rank AND t.device = w.device
LEFT JOIN doubles d ON d.rank = w.rank AND d.device = w.device
