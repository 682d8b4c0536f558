--! question = "What would be left of matmuls of 32-bit floats in 16 bits and in TF32?"
--! row = "one kernel of a matmul, convolution or attention of 32-bit floats"
--! window = "recording"
--! needs = ["roofline_call_kernels", "roofline_devices", "device_work", "device_windows", "matmul_calls", "cpu_ops"]
--! order = ["rank", "event_id"]
--! requires = ["device_activity"]
--! when_empty = "no kernel of the recording is known to multiply 32-bit floats"
--! [columns]
--! rank = "rank"
--! event_id = "event of the kernel"
--! device = "device ordinal"
--! dur_ns = { doc = "its duration", unit = "ns" }
--! kind = "gemm, convolution or attention; absent where the operations are unknown"
--! dtype = "fp32, tf32 where a kernel of the call already rounds to TF32, or absent where the names do not tell"
--! on_tensor_cores = "it already rounds to TF32, by its name"
--! half_low_ns = { doc = "what is left in 16 bits, lower end; absent where that is unknown", unit = "ns" }
--! half_high_ns = { doc = "what is left in 16 bits, upper end", unit = "ns" }
--! half_least_ns = { doc = "what is left at least in 16 bits, at the peak of the data sheet", unit = "ns" }
--! half_unknown = "reason why nothing is known about 16 bits"
--! tf32_low_ns = { doc = "what is left in TF32, lower end; absent where that is unknown", unit = "ns" }
--! tf32_high_ns = { doc = "what is left in TF32, upper end", unit = "ns" }
--! tf32_least_ns = { doc = "what is left at least in TF32, at the peak of the data sheet", unit = "ns" }
--! tf32_unknown = "reason why nothing is known about TF32"
-- What is left is the longer of the times for operations and for bytes, at the share of the achievable rates that matmuls
-- reach. Matmuls whose rows do not begin at multiples of 16 bytes reach a fraction of the peak in 16 bits.
WITH rates AS (
    SELECT
        rank, device, max(name) AS name, max(peak) AS peak, max(peak_source) AS peak_source,
        max(achievable_low_gb_per_s) AS low_gb_per_s, max(achievable_high_gb_per_s) AS high_gb_per_s,
        max(peak_high_gb_per_s) AS peak_gb_per_s, max(cache_bytes) AS cache_bytes,
        max(CASE WHEN dtype IN ('fp16', 'bf16') THEN achievable_low_tflops END) AS half_low_tflops,
        max(CASE WHEN dtype IN ('fp16', 'bf16') THEN achievable_high_tflops END) AS half_high_tflops,
        max(CASE WHEN dtype IN ('fp16', 'bf16') THEN peak_high_tflops END) AS half_peak_tflops,
        max(CASE WHEN dtype = 'tf32' THEN achievable_low_tflops END) AS tf32_low_tflops,
        max(CASE WHEN dtype = 'tf32' THEN achievable_high_tflops END) AS tf32_high_tflops,
        max(CASE WHEN dtype = 'tf32' THEN peak_high_tflops END) AS tf32_peak_tflops
    FROM roofline_devices
    GROUP BY rank, device
),
modeled AS (
    SELECT
        k.rank, k.event_id, k.device, k.dur_ns, k.kind, k.flops, k.moved_bytes,
        coalesce(k.tensor_cores, 'no') = 'yes' AS on_tensor_cores,
        k.dtype, CAST(nullif(k.kernel_ns, 0) AS DOUBLE) AS kernel_ns,
        k.gemm_n % 8 <> 0 OR k.gemm_k % 8 <> 0 AS is_unaligned,
        -- Winograd's algorithm multiplies four times less than the definition, at most.
        CASE WHEN k.kind = 'convolution' THEN k.flops / 4 ELSE k.flops END AS least_flops,
        r.name, r.peak, r.peak_source, r.low_gb_per_s, r.high_gb_per_s, r.half_low_tflops, r.half_high_tflops,
        r.half_peak_tflops, r.tf32_low_tflops, r.tf32_high_tflops, r.tf32_peak_tflops,
        -- A cache may hold data of its size before and after the call. The size is unknown where the peak is derived.
        r.peak_gb_per_s, 2 * r.cache_bytes AS cached_bytes
    FROM roofline_call_kernels k
    LEFT JOIN rates r ON r.rank = k.rank AND r.device = k.device
    WHERE k.kind IN ('gemm', 'convolution', 'attention') AND coalesce(k.dtype, 'fp32') IN ('fp32', 'tf32')
),
-- Kernels before the window were launched before the recording, and have no operator. Some kernels of a modeled call may be
-- missing above, if copies or fills lie between them.
unmodeled AS (
    SELECT
        w.rank, w.event_id, w.device, w.dur_ns, w.tensor_cores = 'yes' AS on_tensor_cores,
        CASE
            WHEN w.launch_name LIKE '%GraphLaunch%' THEN 'replayed kernels have no shapes without a trace of the capture of their graph'
            WHEN w.op IS NULL THEN 'no operator tells the shapes of these kernels'
            WHEN o.input_types IS NULL OR o.input_types = '' THEN 'operators have no shapes: record_shapes=True'
            ELSE concat('the recording does not tell the operations of ', w.op_name)
        END AS unknown
    FROM device_work w
    JOIN device_windows d ON d.rank = w.rank AND d.device = w.device
    LEFT JOIN matmul_calls p ON p.rank = w.rank AND p.op = w.op
    LEFT JOIN cpu_ops o ON o.rank = w.rank AND o.event_id = w.op
    LEFT JOIN (SELECT DISTINCT rank, event_id FROM roofline_call_kernels) m ON m.rank = w.rank AND m.event_id = w.event_id
    LEFT JOIN (SELECT DISTINCT rank, op FROM roofline_call_kernels) c ON c.rank = w.rank AND c.op = w.op
    WHERE w.category = 'kernel' AND w.kind = 'computation' AND m.event_id IS NULL AND c.op IS NULL
        AND w.ts_ns >= d.start_ns AND w.ts_ns < d.end_ns
        AND (p.input_type = 'fp32'
            OR (p.input_type IS NULL AND (w.name LIKE '%sgemm%' OR w.name LIKE '%scudnn%') AND w.name NOT LIKE '%fp16%'))
)
SELECT
    rank, event_id, device, dur_ns, kind, dtype, on_tensor_cores,
    CASE WHEN half_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        flops / (half_high_tflops * 1000), moved_bytes * 0.5 / high_gb_per_s) / CASE WHEN is_unaligned THEN 0.4 ELSE 0.9 END / kernel_ns) END AS half_low_ns,
    CASE WHEN half_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        flops / (half_low_tflops * 1000), moved_bytes * 0.5 / low_gb_per_s) / CASE WHEN is_unaligned THEN 0.12 ELSE 0.45 END / kernel_ns) END AS half_high_ns,
    CASE WHEN half_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        least_flops / (half_peak_tflops * 1000),
        coalesce(moved_bytes * 0.5 - cached_bytes, 0) / peak_gb_per_s) / kernel_ns) END AS half_least_ns,
    CASE
        WHEN half_low_tflops IS NOT NULL THEN NULL
        WHEN name IS NULL AND peak_source IS NULL THEN 'the recording does not name the GPU'
        WHEN peak_source IS NULL THEN concat('the GPU (', name, ') is not in the device table: add it with --devices FILE')
        ELSE concat('no rate of 16-bit matmuls is known for ', coalesce(peak, name, 'this GPU'))
    END AS half_unknown,
    CASE WHEN tf32_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        flops / (tf32_high_tflops * 1000), moved_bytes / high_gb_per_s) / 0.95 / kernel_ns) END AS tf32_low_ns,
    CASE WHEN tf32_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        flops / (tf32_low_tflops * 1000), moved_bytes / low_gb_per_s) / 0.5 / kernel_ns) END AS tf32_high_ns,
    CASE WHEN tf32_low_tflops IS NOT NULL THEN dur_ns * least(1.0, greatest(
        least_flops / (tf32_peak_tflops * 1000),
        coalesce(moved_bytes - cached_bytes, 0) / peak_gb_per_s) / kernel_ns) END AS tf32_least_ns,
    CASE
        WHEN tf32_low_tflops IS NOT NULL THEN NULL
        WHEN name IS NULL AND peak_source IS NULL THEN 'the recording does not name the GPU'
        WHEN peak_source IS NULL THEN concat('the GPU (', name, ') is not in the device table: add it with --devices FILE')
        ELSE concat('no rate of TF32 matmuls is known for ', coalesce(peak, name, 'this GPU'))
    END AS tf32_unknown
FROM modeled
UNION ALL
SELECT
    rank, event_id, device, dur_ns, NULL AS kind, NULL AS dtype, on_tensor_cores,
    NULL AS half_low_ns, NULL AS half_high_ns, NULL AS half_least_ns, unknown AS half_unknown,
    NULL AS tf32_low_ns, NULL AS tf32_high_ns, NULL AS tf32_least_ns, unknown AS tf32_unknown
FROM unmodeled
