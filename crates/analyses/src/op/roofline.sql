--! question = "Which operators are bound by compute, which by memory, and how far from the limit?"
--! row = "one operator on one device with inputs of one kind (shapes, types, strides, masks), in the analyzed window"
--! window = "counted_steps"
--! sort = ["kernel_ns"]
--! needs = ["roofline_calls", "roofline_devices", "device_windows"]
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
--! peak_source = "table, own file (--devices), or derived: the device is in neither, and its rates are a range; absent where nothing is known"
--! peak_tflops = "data sheet for that type; only for matmuls"
--! achievable_tflops = "part of peak_tflops that the best known programs reach"
--! achievable_gb_per_s = { doc = "memory bandwidth that the best known programs reach", unit = "gb_per_s" }
--! roofline_ns = { doc = "shortest time at achievable rates", unit = "ns" }
--! efficiency_ratio = { doc = "roofline_ns over kernel_ns; 1 where it was faster than the table calls achievable but not than the data sheet; above 1 only where is_implausible; absent where bound is cache, and without a peak", unit = "ratio" }
--! efficiency_low_ratio = { doc = "lower end of the efficiency of matmuls, convolutions and attention where the peak is derived", unit = "ratio" }
--! efficiency_high_ratio = { doc = "upper end of that efficiency", unit = "ratio" }
--! is_implausible = "the kernels took less time than the data sheet allows: times, shapes or the table of devices are wrong, and the row is in no gain and no utilization"
--! loss_ns = { doc = "kernel_ns less roofline_ns, a kernel taking 2 us at least", unit = "ns" }
--! loss_ratio = { doc = "that over the analyzed window", unit = "ratio" }
--! is_aligned = "of a matmul: rows of factors and result begin at multiples of 16 bytes"
--! reason = "reason why there is no efficiency"
-- The ends of the rates of devices that no table lists.
WITH derived AS (
    SELECT
        rank, device, dtype, peak_source, achievable_low_tflops, achievable_high_tflops,
        max(achievable_low_gb_per_s) OVER (PARTITION BY rank, device) AS low_gb_per_s,
        max(achievable_high_gb_per_s) OVER (PARTITION BY rank, device) AS high_gb_per_s
    FROM roofline_devices
),
device_rates AS (
    SELECT
        rank, device, max(peak_source) AS peak_source, max(low_gb_per_s) AS low_gb_per_s, max(high_gb_per_s) AS high_gb_per_s
    FROM derived
    GROUP BY rank, device
),
sums AS (
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
    b.rank, b.device, b.name, b.kind, b.dtype, b.input_dims, b.shapes, b.input_types, b.details,
    b.call_count, b.kernel_count, b.kernel_ns,
    ratio!(b.kernel_ns, b.window_ns) AS window_ratio,
    b.flops, b.moved_bytes,
    b.flops / nullif(b.kernel_ns, 0) / 1000 AS tflops_per_s,
    b.moved_bytes / nullif(b.kernel_ns, 0) AS gb_per_s,
    b.flops / nullif(b.moved_bytes, 0) AS flop_per_byte,
    b.bound, b.peak, d.peak_source, b.peak_tflops, b.achievable_tflops, b.achievable_gb_per_s, b.roofline_ns,
    CASE
        WHEN b.bound = 'cache' THEN NULL
        WHEN b.speed_ratio > 1 AND NOT b.is_implausible THEN 1.0
        ELSE b.speed_ratio
    END AS efficiency_ratio,
    CASE WHEN d.peak_source = 'derived' AND NOT b.is_fast AND p.achievable_low_tflops IS NOT NULL
        THEN least(1.0, greatest(b.flops / p.achievable_high_tflops / 1000, b.moved_bytes / d.high_gb_per_s) / nullif(b.kernel_ns, 0))
    END AS efficiency_low_ratio,
    CASE WHEN d.peak_source = 'derived' AND NOT b.is_fast AND p.achievable_low_tflops IS NOT NULL
        THEN least(1.0, greatest(b.flops / p.achievable_low_tflops / 1000, b.moved_bytes / d.low_gb_per_s) / nullif(b.kernel_ns, 0))
    END AS efficiency_high_ratio,
    b.is_implausible,
    CASE WHEN NOT b.is_implausible THEN b.loss_ns END AS loss_ns,
    CASE WHEN NOT b.is_implausible THEN b.loss_ns / nullif(b.window_ns, 0) END AS loss_ratio,
    b.is_aligned,
    CASE
        WHEN b.bound = 'cache' THEN 'its tensors may lie in a cache, whose speed is in no table'
        WHEN b.roofline_ns IS NOT NULL THEN NULL
        WHEN b.is_fast THEN 'it multiplies less than the definition (Winograd, Fourier transform)'
        WHEN d.peak_source = 'derived'
            THEN 'the table of devices does not know this device, its rates are derived as a range: add it with --devices FILE'
        WHEN b.peak IS NULL THEN 'the table of devices does not know this device: add it with --devices FILE'
        WHEN b.dtype IS NULL THEN 'the names of its kernels do not tell on which units it multiplies'
        ELSE 'the table of devices has no peak for this type'
    END AS reason
FROM bounded b
LEFT JOIN device_rates d ON d.rank = b.rank AND d.device = b.device
LEFT JOIN derived p ON p.rank = b.rank AND p.device = b.device AND p.dtype = b.dtype
    AND b.kind IN ('gemm', 'convolution', 'attention')
