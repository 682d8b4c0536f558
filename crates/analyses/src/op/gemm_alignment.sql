--! question = "Which matmuls have dimensions that are not aligned for tensor cores?"
--! row = "one matmul with inputs of one shape: its alignment to 16 bytes"
--! window = "counted_steps"
--! sort = ["kernel_ns"]
--! needs = ["roofline_calls", "device_windows"]
--! order = ["rank", "device", "kernel_ns", "name", "shapes"]
--! requires = ["device_activity", "operator_shapes"]
--! when_empty = "no matmul on a GPU has recorded shapes (record_shapes=True)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "the operator with shapes and type: what a row is about"
--! op_name = "operator"
--! shapes = "shapes of its inputs: 64x32, 32x16"
--! dtype = "data type it multiplies"
--! is_aligned = "the contiguous dimensions of factors and result are multiples of 16 bytes"
--! gemm_m = "rows of the result"
--! gemm_n = "columns of the result"
--! gemm_k = "terms of each sum"
--! multiple = "recommended divisor of contiguous dimensions: 8, or 16 for numbers of 8 bit"
--! call_count = { doc = "calls", unit = "count", metric = "operator" }
--! kernel_ns = { doc = "time of their kernels", unit = "ns", metric = "operator" }
--! window_ratio = { doc = "that over the analyzed window", unit = "ratio", metric = "operator" }
--! unaligned_ratio = { doc = "the same for numbers of 16 or 8 bit where not is_aligned, else 0", unit = "ratio", metric = "operator" }
--! efficiency_ratio = { doc = "shortest time at achievable rates over kernel_ns; absent without a peak", unit = "ratio", metric = "operator" }
--! device_ratio = { doc = "sum of unaligned_ratio over the rows of the device", unit = "ratio", metric = "operator" }
--! device_gain_ratio = { doc = "of it, what is beyond the shortest time at achievable rates; half of what has none", unit = "ratio", metric = "operator" }
WITH groups AS (
    SELECT
        c.rank, c.device, c.name, c.shapes, c.dtype, c.is_aligned, c.gemm_m, c.gemm_n, c.gemm_k,
        count(*) AS call_count, sum(c.kernel_ns) AS kernel_ns, sum(c.roofline_ns) AS roofline_ns,
        min(w.window_ns) AS window_ns
    FROM roofline_calls c
    JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
    WHERE c.kind = 'gemm' AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
    GROUP BY c.rank, c.device, c.name, c.shapes, c.dtype, c.is_aligned, c.gemm_m, c.gemm_n, c.gemm_k
),
classified AS (
    SELECT
        *,
        ratio!(kernel_ns, window_ns) AS window_ratio,
        CASE WHEN is_aligned OR coalesce(dtype NOT IN ('fp16', 'bf16', 'fp8', 'int8'), true) THEN 0.0
            ELSE ratio!(kernel_ns, window_ns) END AS unaligned_ratio,
        CASE WHEN roofline_ns > kernel_ns THEN 1.0 ELSE roofline_ns / nullif(kernel_ns, 0) END AS efficiency_ratio
    FROM groups
)
SELECT
    rank, device, concat(name, ' on ', shapes, ' (', coalesce(dtype, 'unknown type'), ')') AS name,
    name AS op_name, shapes, dtype, is_aligned, gemm_m, gemm_n, gemm_k,
    CASE WHEN dtype IN ('fp8', 'int8') THEN 16 ELSE 8 END AS multiple,
    call_count, kernel_ns, window_ratio, unaligned_ratio, efficiency_ratio,
    sum(unaligned_ratio) OVER (PARTITION BY rank, device) AS device_ratio,
    sum(unaligned_ratio * (1.0 - coalesce(efficiency_ratio, 0.5))) OVER (PARTITION BY rank, device) AS device_gain_ratio
FROM classified
