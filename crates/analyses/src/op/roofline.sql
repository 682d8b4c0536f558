--! question = "Which operators are bound by compute, which by memory, and how far from the limit?"
--! row = "one operator on one device with inputs of one kind (shapes, types, strides, masks), in the analyzed window"
--! window = "complete_steps"
--! sort = ["kernel_ns"]
--! needs = ["roofline_calls", "device_windows"]
--! order = ["rank", "device", "kernel_ns", "name", "input_dims", "input_types"]
--! requires = ["device_activity", "operator_shapes"]
--! when_empty = "no call of an operator that launched kernels has recorded shapes: record them with record_shapes=True (compiled kernels have none, nor replayed graphs without a trace of their capture)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "operator"
--! kind = "gemm, convolution, attention, norm, softmax, elementwise, reduction, copy or gather"
--! dtype = "data type it multiplies, or the type of its result; absent where the kernel's name does not distinguish TF32 from FP32"
--! input_dims = "shape of each input, JSON"
--! shapes = "the same in short: 64x32, 32x16"
--! input_types = "type of each input, JSON"
--! details = "properties beyond shapes: strides of a convolution, masks of attention"
--! call_count = { doc = "calls", unit = "count" }
--! kernel_count = { doc = "kernels that they launched", unit = "count" }
--! kernel_ns = { doc = "time of those kernels, overlap not merged", unit = "ns" }
--! window_ratio = { doc = "that time over the analyzed window", unit = "ratio" }
--! flops = "operations of the definition, of all calls"
--! moved_bytes = { doc = "bytes of inputs and results, each moved once, of all calls", unit = "bytes" }
--! tflops_per_s = "flops over time, 10^12 per second"
--! gb_per_s = { doc = "moved_bytes over time, 10^9 a second", unit = "gb_per_s" }
--! flop_per_byte = "flops over moved_bytes: arithmetic intensity"
--! bound = "limit at achievable rates: compute or memory; cache where memory could not have been so fast but caches may"
--! peak = "entry of the table of devices that it is measured against"
--! peak_tflops = "data sheet for that type; only for matmuls"
--! achievable_tflops = "part of peak_tflops that the best known programs reach"
--! achievable_gb_per_s = { doc = "memory bandwidth that the best known programs reach", unit = "gb_per_s" }
--! roofline_ns = { doc = "shortest time at achievable rates", unit = "ns" }
--! efficiency_ratio = { doc = "roofline_ns over kernel_ns; 1 where it was faster than the table calls achievable but not than the data sheet; above 1 only where is_implausible; absent where bound is cache, and without a peak", unit = "ratio" }
--! is_implausible = "the kernels took less time than the data sheet allows: times, shapes or the table of devices are wrong, and the row is in no gain and no utilization"
--! loss_ns = { doc = "kernel_ns less roofline_ns, a kernel taking 2 us at least", unit = "ns" }
--! loss_ratio = { doc = "that over the analyzed window", unit = "ratio" }
--! is_aligned = "of a matmul: rows of factors and result begin at multiples of 16 bytes"
--! reason = "reason why there is no efficiency"
WITH sums AS (
    SELECT
        c.rank, c.device, c.name, c.kind, c.dtype, c.input_dims, c.shapes, c.input_types, c.details, c.peak,
        c.peak_tflops, c.achievable_tflops, c.achievable_gb_per_s, c.is_aligned, min(w.window_ns) AS window_ns,
        count(*) AS call_count,
        sum(c.kernel_count) AS kernel_count,
        sum(c.kernel_ns) AS kernel_ns,
        sum(c.flops) AS flops,
        sum(c.read_bytes + c.written_bytes) AS moved_bytes,
        sum(c.roofline_ns) AS roofline_ns,
        sum(c.limit_ns) AS limit_ns,
        max(c.peak_gb_per_s) AS peak_gb_per_s,
        bool_or(c.is_fast_convolution) AS is_fast,
        bool_or(c.is_compute_bound) AS is_compute_bound,
        -- `greatest` passes over what is absent.
        sum(CASE WHEN c.roofline_ns IS NOT NULL THEN greatest(c.kernel_ns - greatest(c.roofline_ns, 2000.0), 0.0) END) AS loss_ns
    FROM roofline_calls c
    JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
    WHERE c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
    GROUP BY
        c.rank, c.device, c.name, c.kind, c.dtype, c.input_dims, c.shapes, c.input_types, c.details, c.peak,
        c.peak_tflops, c.achievable_tflops, c.achievable_gb_per_s, c.is_aligned
),
classified AS (
    SELECT
        *,
        coalesce(CAST(kernel_ns AS DOUBLE) < limit_ns, false) AS is_implausible,
        roofline_ns / nullif(kernel_ns, 0) AS speed_ratio
    FROM sums
),
bounded AS (
    SELECT
        *,
        CASE
            WHEN roofline_ns IS NULL THEN NULL
            WHEN is_compute_bound THEN 'compute'
            WHEN moved_bytes > peak_gb_per_s * kernel_ns AND NOT is_implausible THEN 'cache'
            ELSE 'memory'
        END AS bound
    FROM classified
)
SELECT
    rank, device, name, kind, dtype, input_dims, shapes, input_types, details,
    call_count, kernel_count, kernel_ns,
    ratio!(kernel_ns, window_ns) AS window_ratio,
    flops, moved_bytes,
    flops / nullif(kernel_ns, 0) / 1000 AS tflops_per_s,
    moved_bytes / nullif(kernel_ns, 0) AS gb_per_s,
    flops / nullif(moved_bytes, 0) AS flop_per_byte,
    bound, peak, peak_tflops, achievable_tflops, achievable_gb_per_s, roofline_ns,
    CASE
        WHEN bound = 'cache' THEN NULL
        WHEN speed_ratio > 1 AND NOT is_implausible THEN 1.0
        ELSE speed_ratio
    END AS efficiency_ratio,
    is_implausible,
    CASE WHEN NOT is_implausible THEN loss_ns END AS loss_ns,
    CASE WHEN NOT is_implausible THEN loss_ns / nullif(window_ns, 0) END AS loss_ratio,
    is_aligned,
    CASE
        WHEN bound = 'cache' THEN 'its tensors may lie in a cache, whose speed is in no table'
        WHEN roofline_ns IS NOT NULL THEN NULL
        WHEN is_fast THEN 'it multiplies less than the definition (Winograd, Fourier transform)'
        WHEN peak IS NULL THEN 'the table of devices does not know this device: add it with --devices FILE'
        WHEN dtype IS NULL THEN 'the names of its kernels do not tell on which units it multiplies'
        ELSE 'the table of devices has no peak for this type'
    END AS reason
FROM bounded
