--! question = "Do matmuls run on tensor cores?"
--! row = "one device of one rank: use of tensor cores by its matmuls"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "device_properties", "matmul_calls", "roofline_calls", "roofline_devices"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels that compute"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "product name"
--! has_tensor_cores = "the device has tensor cores (matrix cores on AMD): NVIDIA from compute capability 7.0 on, AMD Instinct from MI100 and gfx11 on, or a kernel that uses them; absent where the trace does not say"
--! has_tf32 = "they take 32-bit floats, rounded to TF32"
--! peak_source = "source of the rates that the gains assume: table, own file (--devices), or derived, as a range; absent where nothing is known"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! kernel_ns = { doc = "time of the kernels that compute, within the window, overlap not merged", unit = "ns", metric = "device" }
--! used_ns = { doc = "of them, those that multiply on tensor cores, by name", unit = "ns", metric = "device" }
--! unknown_ns = { doc = "of them, those whose names do not show it", unit = "ns", metric = "device" }
--! used_ratio = { doc = "used_ns over kernel_ns", unit = "ratio", metric = "device" }
--! unknown_ratio = { doc = "unknown_ns over kernel_ns", unit = "ratio", metric = "device" }
--! eligible_ns = { doc = "of kernel_ns, what operators launch that multiply (matmuls, convolutions, attention) and whose inputs the device can multiply on tensor cores, as they are or cast to 16 bit", unit = "ns", metric = "device" }
--! eligible_ratio = { doc = "eligible_ns over kernel_ns; absent if no kernel is linked to an operator", unit = "ratio", metric = "device" }
--! missed_ns = { doc = "of kernel_ns, matmuls of 32-bit floats that run on the ordinary units of a device that has tensor cores", unit = "ns", metric = "device" }
--! missed_ratio = { doc = "missed_ns over window_ns", unit = "ratio", metric = "device" }
--! missed_gain_ratio = { doc = "part of missed_ratio beyond the shortest time of these matmuls in 16 bits, at achievable rates (their lower end where the peak is derived); absent where more than a quarter of these matmuls has no such time", unit = "ratio", metric = "device" }
--! tf32_gain_ratio = { doc = "the same for TF32, where the device could multiply so, else 0", unit = "ratio", metric = "device" }
--! tf32_off_ratio = { doc = "missed_ratio where the device could multiply as TF32, else 0; absent where the trace does not say", unit = "ratio", metric = "device" }
--! unclear_ns = { doc = "of kernel_ns, possible matmuls of 32-bit floats: the type of the inputs, or the units used, are not known", unit = "ns", metric = "device" }
--! unclear_ratio = { doc = "unclear_ns over window_ns", unit = "ratio", metric = "device" }
-- Call by call: a call that multiplies on tensor cores misses nothing in the layout changes next to it.
-- Where the types of inputs were not recorded, names of cuBLAS and cuDNN kernels show it.
WITH clipped AS (
    SELECT
        k.rank, k.device, k.op, k.tensor_cores,
        (k.name LIKE '%sgemm%' OR k.name LIKE '%scudnn%') AND k.name NOT LIKE '%fp16%' AND k.tensor_cores = 'no' AS is_single,
        least(k.end_ns, w.end_ns) - greatest(k.ts_ns, w.start_ns) AS dur_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.kind = 'computation' AND k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
),
calls AS (
    SELECT
        rank, device, op,
        sum(dur_ns) AS kernel_ns,
        sum_if!(dur_ns, tensor_cores = 'yes') AS used_ns,
        sum_if!(dur_ns, tensor_cores = 'unknown') AS unknown_ns,
        sum_if!(dur_ns, is_single) AS single_ns
    FROM clipped
    GROUP BY rank, device, op
),
typed AS (
    SELECT
        c.rank, c.device, c.op, c.kernel_ns, c.used_ns, c.unknown_ns, c.single_ns,
        p.op IS NOT NULL AS is_product,
        coalesce(p.input_type, CASE WHEN c.single_ns > 0 THEN 'fp32' END) AS input_type
    FROM calls c
    LEFT JOIN matmul_calls p ON p.rank = c.rank AND p.op = c.op
),
classified AS (
    SELECT
        t.rank, t.device, t.op, t.kernel_ns, t.used_ns, t.unknown_ns,
        CASE
            WHEN NOT t.is_product OR t.input_type = 'integer' THEN 0
            WHEN t.input_type = 'fp64' AND NOT coalesce(d.has_fp64, false) THEN 0
            WHEN NOT coalesce(d.has_tensor_cores, true) THEN 0
            ELSE t.kernel_ns
        END AS eligible_ns,
        CASE
            WHEN (t.input_type IS DISTINCT FROM 'fp32') OR NOT coalesce(d.has_tensor_cores, true) THEN 0
            WHEN t.is_product AND t.used_ns + t.unknown_ns = 0 THEN t.kernel_ns
            ELSE t.single_ns
        END AS missed_ns,
        CASE
            WHEN t.input_type <> 'fp32' OR (t.is_product AND t.used_ns > 0) THEN 0
            WHEN t.is_product AND t.input_type IS NULL THEN t.kernel_ns
            ELSE t.unknown_ns
        END AS unclear_ns
    FROM typed t
    LEFT JOIN device_properties d ON d.rank = t.rank AND d.device = t.device
),
-- The shortest time at achievable rates, were operands rounded: operations, or half of the bytes (in TF32 all).
rates AS (
    SELECT
        rank, device, max(peak_source) AS peak_source, max(achievable_low_gb_per_s) AS gb_per_s,
        max(CASE WHEN dtype IN ('fp16', 'bf16') THEN achievable_low_tflops END) AS low_tflops,
        max(CASE WHEN dtype = 'tf32' THEN achievable_low_tflops END) AS tf32_tflops
    FROM roofline_devices
    GROUP BY rank, device
),
better AS (
    SELECT
        c.rank, c.op,
        -- `greatest` passes over what is absent.
        max(CASE WHEN r.low_tflops IS NOT NULL
            THEN greatest(c.flops / (r.low_tflops * 1000.0), (c.read_bytes + c.written_bytes) * 0.5 / r.gb_per_s) END) AS low_ns,
        max(CASE WHEN r.tf32_tflops IS NOT NULL
            THEN greatest(c.flops / (r.tf32_tflops * 1000.0), (c.read_bytes + c.written_bytes) / r.gb_per_s) END) AS tf32_ns
    FROM roofline_calls c
    JOIN rates r ON r.rank = c.rank AND r.device = c.device
    WHERE c.dtype = 'fp32'
    GROUP BY c.rank, c.op
),
gains AS (
    SELECT
        j.rank, j.device,
        sum(CASE WHEN b.low_ns IS NOT NULL THEN j.missed_ns - least(j.missed_ns, b.low_ns) END) AS missed_gain_ns,
        sum_if!(j.missed_ns, b.low_ns IS NULL) > 0.25 * sum(j.missed_ns) AS is_missed_gain_unknown,
        sum(CASE WHEN b.tf32_ns IS NOT NULL THEN j.missed_ns - least(j.missed_ns, b.tf32_ns) END) AS tf32_gain_ns,
        sum_if!(j.missed_ns, b.tf32_ns IS NULL) > 0.25 * sum(j.missed_ns) AS is_tf32_gain_unknown
    FROM classified j
    LEFT JOIN better b ON b.rank = j.rank AND b.op = j.op
    WHERE j.missed_ns > 0
    GROUP BY j.rank, j.device
),
sums AS (
    SELECT
        rank, device, count(op) AS linked_count,
        CAST(sum(kernel_ns) AS DOUBLE) AS kernel_ns, CAST(sum(used_ns) AS DOUBLE) AS used_ns,
        CAST(sum(unknown_ns) AS DOUBLE) AS unknown_ns, CAST(sum(eligible_ns) AS DOUBLE) AS eligible_ns,
        CAST(sum(missed_ns) AS DOUBLE) AS missed_ns, CAST(sum(coalesce(unclear_ns, 0)) AS DOUBLE) AS unclear_ns
    FROM classified
    GROUP BY rank, device
)
SELECT
    s.rank, s.device, d.name,
    coalesce(d.has_tensor_cores, CASE WHEN s.used_ns > 0 THEN true END) AS has_tensor_cores,
    d.has_tf32, r.peak_source, w.window_ns,
    CAST(s.kernel_ns AS BIGINT) AS kernel_ns,
    CAST(s.used_ns AS BIGINT) AS used_ns,
    CAST(s.unknown_ns AS BIGINT) AS unknown_ns,
    s.used_ns / nullif(s.kernel_ns, 0) AS used_ratio,
    s.unknown_ns / nullif(s.kernel_ns, 0) AS unknown_ratio,
    CASE WHEN s.linked_count > 0 THEN CAST(s.eligible_ns AS BIGINT) END AS eligible_ns,
    CASE WHEN s.linked_count > 0 THEN s.eligible_ns / nullif(s.kernel_ns, 0) END AS eligible_ratio,
    CAST(s.missed_ns AS BIGINT) AS missed_ns,
    s.missed_ns / nullif(w.window_ns, 0) AS missed_ratio,
    CASE WHEN NOT coalesce(g.is_missed_gain_unknown, false)
        THEN coalesce(g.missed_gain_ns, 0.0) / nullif(w.window_ns, 0) END AS missed_gain_ratio,
    CASE d.has_tf32
        WHEN true THEN
            CASE WHEN NOT coalesce(g.is_tf32_gain_unknown, false) THEN coalesce(g.tf32_gain_ns, 0.0) / nullif(w.window_ns, 0) END
        WHEN false THEN 0.0
    END AS tf32_gain_ratio,
    CASE d.has_tf32 WHEN true THEN s.missed_ns / nullif(w.window_ns, 0) WHEN false THEN 0 END AS tf32_off_ratio,
    CAST(s.unclear_ns AS BIGINT) AS unclear_ns,
    s.unclear_ns / nullif(w.window_ns, 0) AS unclear_ratio
FROM sums s
JOIN device_windows w ON w.rank = s.rank AND w.device = s.device
LEFT JOIN device_properties d ON d.rank = s.rank AND d.device = s.device
LEFT JOIN rates r ON r.rank = s.rank AND r.device = s.device
LEFT JOIN gains g ON g.rank = s.rank AND g.device = s.device
