--! question = "Which matmuls and convolutions are far below what the GPU can do?"
--! row = "one matmul or convolution with inputs of one kind on one device, compared with what the device achieves"
--! window = "counted_steps"
--! sort = ["loss_ns"]
--! needs = ["op_roofline"]
--! order = ["rank", "device", "loss_ns", "name", "input_dims"]
--! requires = ["device_activity", "operator_shapes"]
--! when_empty = "no matmul or convolution on a GPU has recorded shapes: record them with record_shapes=True (compiled kernels have none, nor replayed graphs without a trace of their capture)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "the operator with shapes, type and strides: what a row is about"
--! op_name = "operator"
--! input_dims = "shape of each input, JSON"
--! shapes = "the same in short: 64x32, 32x16"
--! dtype = "data type it multiplies"
--! details = "strides of a convolution"
--! call_count = { doc = "calls", unit = "count", metric = "operator" }
--! kernel_ns = { doc = "time of their kernels", unit = "ns", metric = "operator" }
--! call_ns = { doc = "that of one call", unit = "ns", metric = "operator" }
--! window_ratio = { doc = "kernel_ns over the analyzed window", unit = "ratio", metric = "operator" }
--! tflops_per_s = { doc = "operations over time, 10^12 per second", metric = "operator" }
--! gb_per_s = { doc = "bytes of inputs and results over time, 10^9 a second", unit = "gb_per_s", metric = "operator" }
--! bound = "limit at achievable rates: compute or memory; cache where caches may have made it faster than memory"
--! peak = "entry of the table of devices that it is measured against"
--! efficiency_ratio = { doc = "shortest time at achievable rates over kernel_ns; absent where it is implausible, and without a peak", unit = "ratio", metric = "operator" }
--! is_implausible = "the kernels took less time than the data sheet allows"
--! is_aligned = "of a matmul: rows of factors and result begin at multiples of 16 bytes"
--! loss_ns = { doc = "kernel_ns less that shortest time, a kernel taking 2 us at least", unit = "ns", metric = "operator" }
--! loss_ratio = { doc = "that over the analyzed window", unit = "ratio", metric = "operator" }
--! device_loss_ratio = { doc = "sum of loss_ratio over the rows of the device below 60 % that lose 0.5 % or more each, in calls of 10 us or more", unit = "ratio", metric = "operator" }
--! reason = "reason why there is no efficiency"
WITH matmuls AS (
    SELECT *, CASE WHEN NOT is_implausible THEN efficiency_ratio END AS known_ratio
    FROM op_roofline
    WHERE kind IN ('gemm', 'convolution')
)
SELECT
    rank, device,
    concat(name, ' on ', shapes, ' (', coalesce(dtype, 'unknown type'),
        CASE WHEN details IS NOT NULL THEN concat('; ', details) ELSE '' END, ')') AS name,
    name AS op_name, input_dims, shapes, dtype, details, call_count, kernel_ns,
    CAST(kernel_ns / call_count AS BIGINT) AS call_ns, window_ratio, tflops_per_s, gb_per_s, bound, peak,
    known_ratio AS efficiency_ratio, is_implausible, is_aligned, loss_ns, loss_ratio,
    sum_if!(loss_ratio, known_ratio < 0.6 AND loss_ratio >= 0.005 AND kernel_ns >= 10000 * call_count)
        OVER (PARTITION BY rank, device) AS device_loss_ratio,
    reason
FROM matmuls
