--! question = "How close do the kernels of a GPU come to what it can do?"
--! row = "one device of one rank: its kernel time compared with what the device achieves, by kind of work"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "matmul_calls", "roofline_calls", "op_roofline", "roofline_devices", "cpu_ops"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels that compute"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "product name"
--! peak = "entry of the table of devices that it is measured against; absent if none fits: add one with --devices FILE"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! step_count = { doc = "complete steps in the window; 0 where the whole recording stands for one", unit = "count", metric = "device" }
--! kernel_ns = { doc = "time of the kernels that compute and start in the window, overlap not merged", unit = "ns", metric = "device" }
--! modeled_ns = { doc = "of it, kernels of calls whose operations and bytes are known", unit = "ns", metric = "device" }
--! modeled_ratio = { doc = "that over kernel_ns", unit = "ratio", metric = "device" }
--! matmul_ns = { doc = "of kernel_ns, matmuls, convolutions and attention, by operator or kernel name", unit = "ns", metric = "device" }
--! matmul_ratio = { doc = "that over the window", unit = "ratio", metric = "device" }
--! matmul_modeled_ratio = { doc = "part of matmul_ns whose operations are known and not implausible; absent without matmuls", unit = "ratio", metric = "device" }
--! implausible_count = { doc = "rows of op_roofline that took less time than the data sheet allows", unit = "count", metric = "device" }
--! implausible_ratio = { doc = "time of these rows over modeled_ns", unit = "ratio", metric = "device" }
--! matmul_tflops_per_s = { doc = "operations of modeled matmuls over their time, 10^12 per second", metric = "device" }
--! matmul_efficiency_ratio = { doc = "shortest time at achievable rates over time, of modeled matmuls that have both and are not implausible; above 1 where they were faster than the table calls achievable but not than the data sheet, which op_roofline.efficiency_ratio shows as 1", unit = "ratio", metric = "device" }
--! low_precision_ratio = { doc = "part of the time of matmuls with known types whose inputs are floats of 16 or 8 bit, or int8; absent if no types are known", unit = "ratio", metric = "device" }
--! single_precision_ratio = { doc = "time of matmuls of 32-bit floats, TF32 included, over the window", unit = "ratio", metric = "device" }
--! single_kernel_name = "of the matmuls of 32-bit floats, the kernel with most time"
--! single_kernel_ratio = { doc = "its time over the window; absent without such matmuls", unit = "ratio", metric = "device" }
--! unknown_precision_ratio = { doc = "part of matmul_ns whose types are not known", unit = "ratio", metric = "device" }
--! tiny_gemm_count = { doc = "matmuls of fewer than 2^21 multiplications, per step", unit = "count", metric = "device" }
--! tiny_gemm_ratio = { doc = "their time, and that for which the device did nothing directly before them, over the window", unit = "ratio", metric = "device" }
--! tiny_gemm_loss_ratio = { doc = "of it, what is not the roofline's time", unit = "ratio", metric = "device" }
--! norm_ratio = { doc = "kernels of batch, layer, group and RMS norm, by operator or kernel name, over the window", unit = "ratio", metric = "device" }
--! norm_loss_ratio = { doc = "of it, what modeled ones take beyond moving each tensor once; absent if none is modeled", unit = "ratio", metric = "device" }
--! sync_norm_count = { doc = "calls of SyncBatchNorm, a step", unit = "count", metric = "device" }
--! gather_ratio = { doc = "kernels that index, gather, scatter, sort or look up embeddings, by operator or kernel name, over the window", unit = "ratio", metric = "device" }
--! gather_loss_ratio = { doc = "of it, what modeled ones take beyond moving each element once; absent if none is modeled", unit = "ratio", metric = "device" }
--! gather_op = "of those operators the one with most time"
--! fp8_ratio = { doc = "time of matmuls of 16-bit floats that are bound by computing, reach 60 % of what is achievable and take 2 * 10^9 operations or more per call, over the window", unit = "ratio", metric = "device" }
--! fp8_gain_ratio = { doc = "time that 8 bit would save of them by the data sheet; 0 where the device does not multiply 8-bit floats", unit = "ratio", metric = "device" }
WITH kernels_in AS (
    SELECT
        k.rank, k.device, k.name, k.dur_ns, k.op_name, p.input_type, p.op IS NOT NULL AS is_called_product,
        regexp_like(k.name,
            '(gemm|xmma|cutlass|Cijk_|implicit_conv|scudnn|wgrad|dgrad|winograd|convolve|igemm|flash_|fmha|attn_fwd|attn_bwd|paged_attention|unified_attention|gemv|splitKreduce|_matmul|nvjet)') AS is_product,
        regexp_like(k.name,
            '(layer_?norm|LayerNorm|batch_?norm|BatchNorm|rms_?norm|RMSNorm|Rmsnorm|rmsnorm|group_?norm|GroupNorm|bn_fw|bn_bw|GammaBeta)') AS is_norm,
        regexp_like(k.name,
            '(gather|scatter|Scatter|indexSelect|index_elementwise|indexing_backward|RadixSort|radixSort|bitonicSort|embedding|EmbeddingBag)') AS is_gather,
        coalesce(is_norm_op!(k.op_name), false) AS is_norm_op,
        coalesce(regexp_like(k.op_name,
            '^aten::(index|_index_put_impl_|gather|scatter|sort|argsort|topk|embedding|_embedding_bag|masked_select|nonzero|take|unique|searchsorted|bincount)')
            OR regexp_like(k.op_name, '(split_embedding|SplitLookupFunction|embedding_bag)'), false) AS is_gather_op
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    LEFT JOIN matmul_calls p ON p.rank = k.rank AND p.op = k.op
    WHERE k.category = 'kernel' AND k.kind = 'computation' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
sorted AS (
    SELECT
        rank, device, name, dur_ns, op_name, input_type,
        is_called_product OR (is_product AND NOT is_norm AND NOT is_gather AND NOT is_norm_op AND NOT is_gather_op) AS is_product,
        is_norm OR is_norm_op AS is_norm,
        -- Copies and communication of gathered tensors are named after them too.
        is_gather OR is_gather_op AS is_gather
    FROM kernels_in
),
totals AS (
    SELECT
        rank, device, sum(dur_ns) AS kernel_ns,
        sum_if!(dur_ns, is_product) AS matmul_ns,
        sum_if!(dur_ns, is_product AND input_type IN ('fp8', '16-bit', 'int8')) AS low_ns,
        sum_if!(dur_ns, is_product AND input_type = 'fp32') AS single_ns,
        sum_if!(dur_ns, is_product AND input_type IS NOT NULL) AS typed_ns,
        sum_if!(dur_ns, is_norm) AS norm_ns,
        sum_if!(dur_ns, is_gather AND NOT is_norm AND NOT is_product) AS gather_ns
    FROM sorted
    GROUP BY rank, device
),
single_kernels AS (
    SELECT
        rank, device, first_value(name ORDER BY dur_ns DESC, name) AS single_kernel_name, max(dur_ns) AS single_kernel_ns
    FROM (
        SELECT rank, device, name, sum(dur_ns) AS dur_ns
        FROM sorted
        WHERE is_product AND input_type = 'fp32'
        GROUP BY rank, device, name
    )
    GROUP BY rank, device
),
gather_ops AS (
    SELECT rank, device, first_value(op_name ORDER BY dur_ns DESC, op_name) AS gather_op
    FROM (
        SELECT rank, device, op_name, sum(dur_ns) AS dur_ns
        FROM sorted
        WHERE is_gather AND NOT is_norm AND NOT is_product AND op_name IS NOT NULL
        GROUP BY rank, device, op_name
    )
    GROUP BY rank, device
),
peaks AS (
    SELECT
        rank, device, max(name) AS name, max(peak) AS peak,
        max(CASE WHEN dtype = 'bf16' THEN peak_tflops END) AS peak16_tflops,
        max(CASE WHEN dtype = 'fp8' THEN peak_tflops END) AS peak8_tflops
    FROM roofline_devices
    GROUP BY rank, device
),
modeled_calls AS (
    SELECT
        rank, device,
        sum(kernel_ns) AS modeled_ns,
        count_if!(is_implausible) AS implausible_count,
        sum_if!(kernel_ns, is_implausible) AS fault_ns,
        sum_if!(kernel_ns, is_product AND NOT is_implausible) AS matmul_ns,
        sum_if!(flops, is_product AND NOT is_implausible) AS product_flops,
        sum(CASE WHEN is_product AND NOT is_implausible AND efficiency_ratio IS NOT NULL THEN roofline_ns END) AS product_roofline_ns,
        sum(CASE WHEN is_product AND NOT is_implausible AND efficiency_ratio IS NOT NULL THEN kernel_ns END) AS product_bounded_ns,
        sum(CASE WHEN kind = 'norm' THEN loss_ns END) AS norm_loss_ns,
        sum(CASE WHEN kind = 'gather' THEN loss_ns END) AS gather_loss_ns,
        sum(CASE
            WHEN kind = 'gemm' AND dtype IN ('bf16', 'fp16') AND bound = 'compute' AND NOT is_implausible
                AND efficiency_ratio >= 0.6 AND flops >= 2e9 * call_count
            THEN kernel_ns ELSE 0
        END) AS fp8_ns
    FROM (SELECT *, kind IN ('gemm', 'convolution', 'attention') AS is_product FROM op_roofline)
    GROUP BY rank, device
),
tiny AS (
    SELECT
        c.rank, c.device, count(*) AS tiny_count,
        sum(c.kernel_ns + c.idle_before_ns) AS tiny_ns,
        sum(c.kernel_ns + c.idle_before_ns - coalesce(c.roofline_ns, 0)) AS tiny_loss_ns
    FROM roofline_calls c
    JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
    WHERE c.kind = 'gemm' AND c.gemm_batch * c.gemm_m * c.gemm_n * c.gemm_k < 2097152
        AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
    GROUP BY c.rank, c.device
),
sync_norms AS (
    SELECT o.rank, count(*) AS sync_norm_count
    FROM cpu_ops o
    JOIN (SELECT rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM device_windows GROUP BY rank) w
        ON w.rank = o.rank
    WHERE o.name = 'SyncBatchNorm' AND o.ts_ns >= w.start_ns AND o.ts_ns < w.end_ns
    GROUP BY o.rank
)
SELECT
    t.rank, t.device, p.name, p.peak, w.window_ns, w.step_count, t.kernel_ns,
    coalesce(m.modeled_ns, 0) AS modeled_ns,
    ratio!(coalesce(m.modeled_ns, 0), t.kernel_ns) AS modeled_ratio,
    t.matmul_ns,
    ratio!(t.matmul_ns, w.window_ns) AS matmul_ratio,
    CASE
        WHEN t.matmul_ns > 0 THEN CAST(coalesce(m.matmul_ns, 0) AS DOUBLE) / greatest(t.matmul_ns, coalesce(m.matmul_ns, 0))
    END AS matmul_modeled_ratio,
    coalesce(m.implausible_count, 0) AS implausible_count,
    ratio!(coalesce(m.fault_ns, 0), m.modeled_ns) AS implausible_ratio,
    m.product_flops / nullif(m.matmul_ns, 0) / 1000 AS matmul_tflops_per_s,
    m.product_roofline_ns / nullif(m.product_bounded_ns, 0) AS matmul_efficiency_ratio,
    ratio!(t.low_ns, t.typed_ns) AS low_precision_ratio,
    ratio!(t.single_ns, w.window_ns) AS single_precision_ratio,
    h.single_kernel_name,
    ratio!(h.single_kernel_ns, w.window_ns) AS single_kernel_ratio,
    ratio!(t.matmul_ns - t.typed_ns, t.matmul_ns) AS unknown_precision_ratio,
    CAST(coalesce(y.tiny_count, 0) AS DOUBLE) / greatest(w.step_count, 1) AS tiny_gemm_count,
    ratio!(coalesce(y.tiny_ns, 0), w.window_ns) AS tiny_gemm_ratio,
    coalesce(y.tiny_loss_ns, 0.0) / nullif(w.window_ns, 0) AS tiny_gemm_loss_ratio,
    ratio!(t.norm_ns, w.window_ns) AS norm_ratio,
    m.norm_loss_ns / nullif(w.window_ns, 0) AS norm_loss_ratio,
    CAST(coalesce(s.sync_norm_count, 0) AS DOUBLE) / greatest(w.step_count, 1) AS sync_norm_count,
    ratio!(t.gather_ns, w.window_ns) AS gather_ratio,
    m.gather_loss_ns / nullif(w.window_ns, 0) AS gather_loss_ratio,
    g.gather_op,
    ratio!(coalesce(m.fp8_ns, 0), w.window_ns) AS fp8_ratio,
    CASE
        WHEN p.peak8_tflops > p.peak16_tflops
        THEN ratio!(coalesce(m.fp8_ns, 0), w.window_ns) * (1 - p.peak16_tflops / p.peak8_tflops)
        ELSE 0
    END AS fp8_gain_ratio
FROM totals t
JOIN device_windows w ON w.rank = t.rank AND w.device = t.device
LEFT JOIN peaks p ON p.rank = t.rank AND p.device = t.device
LEFT JOIN modeled_calls m ON m.rank = t.rank AND m.device = t.device
LEFT JOIN tiny y ON y.rank = t.rank AND y.device = t.device
LEFT JOIN sync_norms s ON s.rank = t.rank
LEFT JOIN single_kernels h ON h.rank = t.rank AND h.device = t.device
LEFT JOIN gather_ops g ON g.rank = t.rank AND g.device = t.device
