--! question = "What share of the GPU's peak FLOPS does the model use in each step (MFU, HFU)?"
--! row = "one complete step of one rank: its model FLOPs utilization"
--! window = "complete_steps"
--! needs = ["roofline_calls", "roofline_devices", "complete_steps", "device_work", "matmul_calls"]
--! order = ["rank", "step"]
--! requires = ["device_activity"]
--! [columns]
--! rank = "rank"
--! step = "step number; the whole recording where there are no steps"
--! source = "kind of mark; trace where the whole recording stands for one"
--! step_ns = { doc = "duration, device work included", unit = "ns", metric = "step" }
--! is_counted = "views of complete steps count it, see step_time"
--! flops = { doc = "operations of all modeled matmuls, convolutions and attention", metric = "step" }
--! model_flops = { doc = "of them, without what is computed again in backward (activation checkpointing)", metric = "step" }
--! recomputed_ratio = { doc = "the rest over flops", unit = "ratio", metric = "step" }
--! dtype = "type of most of them, whose peak is taken"
--! device_count = { doc = "devices that the rank multiplies on", unit = "count", metric = "step" }
--! peak_tflops = { doc = "data sheet for that type, of all those devices, 10^12 operations a second", metric = "step" }
--! peak_source = "table, own file (--devices), or derived: the device is in neither, and its peak is a range; absent where nothing is known of that type"
--! matmul_modeled_ratio = { doc = "part of the kernel time of matmuls, convolutions and attention whose operations are known and not implausible", unit = "ratio", metric = "step" }
--! model_tflops_per_s = { doc = "model_flops over step_ns, 10^12 per second; absent where matmul_modeled_ratio is below 0.9", metric = "step" }
--! mfu_ratio = { doc = "that over peak_tflops: model FLOPs utilization", unit = "ratio", metric = "step" }
--! hfu_ratio = { doc = "the same with what is computed again: hardware FLOPs utilization", unit = "ratio", metric = "step" }
--! mfu_low_ratio = { doc = "mfu_ratio; its lower end where the peak is derived", unit = "ratio" }
--! mfu_high_ratio = { doc = "mfu_ratio; its upper end where the peak is derived", unit = "ratio" }
--! reason = "reason why there is no utilization"
-- As in PaLM (Chowdhery et al. 2022, appendix B): operations of products only, over the data sheet's dense peak.
WITH calls AS (
    SELECT
        rank, device, step, pass, dtype, flops, peak_tflops, kernel_ns,
        coalesce(CAST(kernel_ns AS DOUBLE) < limit_ns, false) AS is_implausible
    FROM roofline_calls
    WHERE kind IN ('gemm', 'convolution', 'attention')
),
by_type AS (
    SELECT
        rank, step, dtype, sum(flops) AS flops, count(DISTINCT device) AS device_count, max(peak_tflops) AS peak_tflops
    FROM calls
    WHERE NOT is_implausible AND step IS NOT NULL
    GROUP BY rank, step, dtype
),
dominant AS (
    SELECT *, row_number() OVER (PARTITION BY rank, step ORDER BY flops DESC, dtype) AS place
    FROM by_type
),
rates AS (
    SELECT
        rank, dtype, max(peak_source) AS peak_source, min(peak_low_tflops) AS low_tflops, max(peak_high_tflops) AS high_tflops
    FROM roofline_devices
    GROUP BY rank, dtype
),
sums AS (
    SELECT
        rank, step, count(DISTINCT device) AS device_count,
        sum(CASE WHEN is_implausible THEN 0 ELSE flops END) AS flops,
        sum(CASE WHEN is_implausible OR pass = 'recompute' THEN 0 ELSE flops END) AS model_flops,
        sum(CASE WHEN is_implausible THEN 0 ELSE kernel_ns END) AS modeled_ns
    FROM calls
    WHERE step IS NOT NULL
    GROUP BY rank, step
),
products AS (
    SELECT k.rank, k.step, sum(k.dur_ns) AS matmul_ns
    FROM device_work k
    LEFT JOIN matmul_calls p ON p.rank = k.rank AND p.op = k.op
    WHERE k.category = 'kernel' AND k.kind = 'computation' AND k.step IS NOT NULL
        AND (p.op IS NOT NULL OR regexp_like(k.name,
            '(gemm|xmma|cutlass|Cijk_|implicit_conv|scudnn|wgrad|dgrad|winograd|convolve|igemm|flash_|fmha|attn_fwd|attn_bwd|paged_attention|unified_attention|gemv|_matmul|nvjet)'))
    GROUP BY k.rank, k.step
),
steps AS (
    SELECT
        s.rank, s.step, s.source, s.dur_ns AS step_ns, s.is_counted, c.flops, c.model_flops, d.dtype, c.device_count,
        d.peak_tflops * c.device_count AS peak_tflops, r.peak_source,
        r.low_tflops * c.device_count AS low_tflops, r.high_tflops * c.device_count AS high_tflops,
        ratio!(coalesce(c.modeled_ns, 0), greatest(p.matmul_ns, coalesce(c.modeled_ns, 0))) AS matmul_modeled_ratio
    FROM complete_steps s
    LEFT JOIN sums c ON c.rank = s.rank AND c.step = s.step
    LEFT JOIN dominant d ON d.rank = s.rank AND d.step = s.step AND d.place = 1
    LEFT JOIN rates r ON r.rank = s.rank AND r.dtype = d.dtype
    LEFT JOIN products p ON p.rank = s.rank AND p.step = s.step
)
SELECT
    rank, step, source, step_ns, is_counted, flops, model_flops,
    (flops - model_flops) / nullif(flops, 0) AS recomputed_ratio,
    dtype, device_count, peak_tflops, peak_source, matmul_modeled_ratio,
    CASE WHEN matmul_modeled_ratio >= 0.9 THEN model_flops / nullif(step_ns, 0) / 1000 END AS model_tflops_per_s,
    CASE WHEN matmul_modeled_ratio >= 0.9 THEN model_flops / nullif(step_ns, 0) / 1000 / peak_tflops END AS mfu_ratio,
    CASE WHEN matmul_modeled_ratio >= 0.9 THEN flops / nullif(step_ns, 0) / 1000 / peak_tflops END AS hfu_ratio,
    CASE WHEN matmul_modeled_ratio >= 0.9 THEN model_flops / nullif(step_ns, 0) / 1000 / high_tflops END AS mfu_low_ratio,
    CASE WHEN matmul_modeled_ratio >= 0.9 THEN model_flops / nullif(step_ns, 0) / 1000 / low_tflops END AS mfu_high_ratio,
    CASE
        WHEN matmul_modeled_ratio IS NULL THEN 'the step multiplies nothing'
        WHEN matmul_modeled_ratio = 0
            THEN 'the shapes of what it multiplies are not known: record_shapes=True; compiled kernels have none, nor replayed graphs without a trace of their capture'
        WHEN matmul_modeled_ratio < 0.9
            THEN 'the operations of less than 90 % of the time of its products, convolutions and attention are known'
        WHEN peak_tflops IS NULL AND peak_source = 'derived'
            THEN 'the table of devices does not know this device, its peak is derived as a range: add it with --devices FILE'
        WHEN peak_tflops IS NULL THEN 'the table of devices has no peak for this device and type: add it with --devices FILE'
    END AS reason
FROM steps
