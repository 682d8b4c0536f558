--! question = "Which pointwise operators could be fused into one kernel?"
--! row = "operators that follow each other on the same data and could be one kernel, with inputs of one kind"
--! window = "counted_steps"
--! sort = ["gain_ns"]
--! needs = ["roofline_chains", "device_windows"]
--! order = ["rank", "device", "kernel_ns", "name"]
--! requires = ["operator_shapes"]
--! when_empty = "no two operators whose shapes were recorded (record_shapes=True) follow each other on the same data"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "the operators in order, and the shapes of the first: what a row is about"
--! chain = "the operators in order"
--! input_dims = "shape of each input of the first, JSON"
--! shapes = "the same in short: 64x32, 32x16"
--! chain_count = { doc = "occurrences", unit = "count", metric = "operator" }
--! kernel_count = { doc = "kernels of all", unit = "count", metric = "operator" }
--! kernel_ns = { doc = "time of all", unit = "ns", metric = "operator" }
--! window_ratio = { doc = "that over the analyzed window", unit = "ratio", metric = "operator" }
--! moved_bytes = { doc = "bytes that all read and write", unit = "bytes", metric = "operator" }
--! external_bytes = { doc = "bytes without results that are read inside", unit = "bytes", metric = "operator" }
--! fused_ns = { doc = "time of fused kernels, at 85 % of achievable bandwidth", unit = "ns", metric = "operator" }
--! gain_ns = { doc = "kernel_ns less fused_ns", unit = "ns", metric = "operator" }
--! gain_ratio = { doc = "that over the analyzed window; absent if the device is in no table", unit = "ratio", metric = "operator" }
--! device_gain_ratio = { doc = "sum over the rows of the device with 0.5 % or more each", unit = "ratio", metric = "operator" }
WITH gains AS (
    SELECT
        c.*, ratio!(c.kernel_ns, w.window_ns) AS window_ratio,
        c.kernel_ns - c.fused_ns AS gain_ns,
        (c.kernel_ns - c.fused_ns) / nullif(w.window_ns, 0) AS gain_ratio
    FROM roofline_chains c
    JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
)
SELECT
    rank, device, concat(name, ' on ', shapes) AS name, name AS chain, input_dims, shapes, chain_count, kernel_count,
        kernel_ns, window_ratio, moved_bytes, external_bytes,
    fused_ns, gain_ns, gain_ratio,
    sum_if!(gain_ratio, gain_ratio >= 0.005) OVER (PARTITION BY rank, device) AS device_gain_ratio
FROM gains
