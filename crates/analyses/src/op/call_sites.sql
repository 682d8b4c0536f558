--! question = "Do shapes change from call to call, and are convolution biases wasted before batch norm?"
--! row = "one rank: shapes and order of operator calls at each call site"
--! window = "counted_steps"
--! needs = ["cpu_ops", "kernels", "memcpys", "device_steps", "ranks", "run_warmup", "gpu_idle_causes"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_shapes = "operators carry input shapes (record_shapes=True)"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! shape_count = { doc = "different shapes at the call site that has most: matmuls and convolutions, each by its place among the calls of its name in a step; absent without shapes or with fewer than 2 steps", unit = "count", metric = "rank" }
--! shape_site = "that call site"
--! compile_step_count = { doc = "steps after the first in which something is compiled, see run_warmup", unit = "count", metric = "rank" }
--! biased_count = { doc = "convolutions with a bias directly before a batch norm, which takes the mean off again; absent without shapes", unit = "count", metric = "rank" }
--! bias_ns = { doc = "kernels that add the biases of convolutions and sum up their gradients, times the part of these convolutions that biased_count counts; absent without shapes", unit = "ns", metric = "rank" }
--! bias_ratio = { doc = "share of complete steps; absent without shapes", unit = "ratio", metric = "rank" }
--! init_copy_count = { doc = "tensors filled on the host (zeros, ones, random numbers) and copied to the device by the next copy of that shape; absent without shapes", unit = "count", metric = "rank" }
--! init_copy_bytes = { doc = "bytes of these copies; absent without shapes", unit = "bytes", metric = "rank" }
--! init_copy_ns = { doc = "time of filling them on the host and of the copies on the device; absent without shapes", unit = "ns", metric = "rank" }
--! init_copy_ratio = { doc = "share of complete steps; absent without shapes", unit = "ratio", metric = "rank" }
--! init_idle_ns = { doc = "a device is idle while the thread that launches its work creates tensors on the CPU, in gaps that end with a copy to the device, see creation_ns of gpu_idle_causes: the device with most; 0 without a device", unit = "ns", metric = "rank" }
--! init_idle_ratio = { doc = "share of its window", unit = "ratio", metric = "rank" }
--! init_idle_name = "operator with most of it"
--! init_ratio = { doc = "the larger of init_idle_ratio and init_copy_ratio", unit = "ratio", metric = "rank" }
WITH windows AS (
    SELECT
        rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns, sum(greatest(host_end_ns - host_ts_ns, dur_ns)) AS steps_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
    FROM device_steps
    GROUP BY rank
),
matmuls AS (
    SELECT
        o.rank, o.name, CAST(o.input_dims AS VARCHAR) AS dims,
        row_number() OVER (PARTITION BY o.rank, o.step, o.name ORDER BY o.ts_ns) AS place
    FROM cpu_ops o
    JOIN device_steps s ON s.rank = o.rank AND s.step = o.step AND s.source <> 'trace'
    WHERE coalesce(o.input_dims, '') <> ''
        AND o.name IN ('aten::linear', 'aten::matmul', 'aten::conv1d', 'aten::conv2d', 'aten::conv3d',
        'aten::scaled_dot_product_attention', 'aten::embedding')
),
sites AS (
    SELECT
        rank,
        concat(CAST(name AS VARCHAR), ' no. ', CAST(place AS VARCHAR), ' of a step') AS site,
        count(DISTINCT dims) AS shape_count
    FROM matmuls
    GROUP BY rank, name, place
),
busiest AS (
    SELECT rank, max(shape_count) AS shape_count, first_value(site ORDER BY shape_count DESC, site) AS shape_site
    FROM sites
    GROUP BY rank
),
-- Some convolutions add their bias by an operator of their own, inside: that is not the next layer.
layer_calls AS (
    SELECT
        rank, event_id, thread, ts_ns, dur_ns, name,
        regexp_like(CAST(input_dims AS VARCHAR), '^\[\[[^\]]*\], \[[^\]]*\], \[\d+\]') AS has_bias,
        max_before!(ts_ns + dur_ns, PARTITION BY rank, thread ORDER BY ts_ns, dur_ns DESC, event_id) AS until_ns
    FROM cpu_ops
    WHERE name IN ('aten::conv1d', 'aten::conv2d', 'aten::conv3d', 'aten::conv_transpose1d', 'aten::conv_transpose2d',
        'aten::conv_transpose3d', 'aten::batch_norm', 'aten::relu', 'aten::relu_', 'aten::linear', 'aten::max_pool2d',
        'aten::group_norm', 'aten::layer_norm', 'aten::silu', 'aten::silu_', 'aten::gelu', 'aten::leaky_relu',
            'aten::leaky_relu_', 'aten::cat', 'aten::dropout', 'aten::sigmoid', 'aten::add', 'aten::add_')
        -- In training, batch norm first counts its batch, in a tensor without dimensions.
        AND NOT (name = 'aten::add_' AND coalesce(input_dims, '') LIKE '[[]%')
),
layers AS (
    SELECT rank, name, has_bias, lead(name) OVER (PARTITION BY rank, thread ORDER BY ts_ns, dur_ns DESC, event_id) AS next_name
    FROM layer_calls
    WHERE coalesce(ts_ns >= until_ns, true)
),
biased AS (
    SELECT
        rank,
        count_if!(name LIKE 'aten::conv%' AND has_bias AND next_name = 'aten::batch_norm') AS biased_count,
        count_if!(name LIKE 'aten::conv%' AND has_bias) AS bias_count
    FROM layers
    GROUP BY rank
),
bias_work AS (
    SELECT k.rank, sum(k.dur_ns) AS bias_ns
    FROM kernels k
    JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op
    JOIN cpu_ops p ON p.rank = o.rank AND p.event_id = o.parent
    JOIN windows w ON w.rank = k.rank
    WHERE o.ts_ns >= w.start_ns AND o.ts_ns < w.end_ns AND (
        (o.name = 'aten::add_' AND p.name IN ('aten::_convolution', 'aten::convolution'))
        OR (o.name = 'aten::sum' AND p.name = 'aten::convolution_backward')
    )
    GROUP BY k.rank
),
launching AS (
    SELECT DISTINCT rank, op FROM kernels WHERE op IS NOT NULL
),
copying AS (
    SELECT rank, op, sum(bytes) AS bytes, sum(dur_ns) AS copy_ns FROM memcpys WHERE kind = 'HtoD' AND op IS NOT NULL GROUP BY rank, op
),
moves AS (
    SELECT
        o.rank, o.thread, o.ts_ns, o.name, o.dur_ns, c.bytes, c.copy_ns, c.op IS NOT NULL AS is_copy, l.op IS NULL AS is_host,
        split_part(split_part(CAST(o.input_dims AS VARCHAR), ']', 1), '[[', 2) AS shape
    FROM cpu_ops o
    LEFT JOIN launching l ON l.rank = o.rank AND l.op = o.event_id
    LEFT JOIN copying c ON c.rank = o.rank AND c.op = o.event_id
    WHERE o.name IN ('aten::fill_', 'aten::zero_', 'aten::normal_', 'aten::uniform_', 'aten::random_') OR c.op IS NOT NULL
),
pairs AS (
    SELECT
        rank, ts_ns, is_copy, bytes, copy_ns, shape,
        lag(NOT is_copy AND is_host) OVER w AS follows_init,
        lag(shape) OVER w AS init_shape,
        lag(dur_ns) OVER w AS init_ns
    FROM moves
    WINDOW w AS (PARTITION BY rank, thread ORDER BY ts_ns)
),
-- The call of a copy also waits for all that the device has to do before it: that time is not lost.
init_copies AS (
    SELECT p.rank, count(*) AS init_copy_count, sum(p.bytes) AS init_copy_bytes, sum(p.copy_ns + p.init_ns) AS init_copy_ns
    FROM pairs p
    JOIN windows w ON w.rank = p.rank
    WHERE p.is_copy AND p.follows_init AND p.shape <> '' AND p.shape = p.init_shape AND p.ts_ns >= w.start_ns AND p.ts_ns < w.end_ns
    GROUP BY p.rank
),
waiting AS (
    SELECT
        rank,
        first_value(creation_ns ORDER BY creation_ratio DESC, device) AS init_idle_ns,
        max(creation_ratio) AS init_idle_ratio,
        first_value(top_creation_name ORDER BY creation_ratio DESC, device) AS init_idle_name
    FROM gpu_idle_causes
    GROUP BY rank
)
SELECT
    r.rank, r.has_shapes,
    coalesce(w.step_count, 0) AS step_count,
    CASE WHEN r.has_shapes AND w.step_count >= 2 THEN coalesce(b.shape_count, 0) END AS shape_count,
    b.shape_site,
    u.steady_step_count AS compile_step_count,
    CASE WHEN r.has_shapes THEN coalesce(l.biased_count, 0) END AS biased_count,
    CASE WHEN r.has_shapes THEN CAST(coalesce(v.bias_ns * l.biased_count / nullif(l.bias_count, 0), 0) AS BIGINT) END AS bias_ns,
    CASE WHEN r.has_shapes THEN coalesce(CAST(v.bias_ns AS DOUBLE) * l.biased_count / nullif(l.bias_count,
        0) / nullif(w.steps_ns, 0), 0) END AS bias_ratio,
    CASE WHEN r.has_shapes THEN coalesce(i.init_copy_count, 0) END AS init_copy_count,
    CASE WHEN r.has_shapes THEN coalesce(i.init_copy_bytes, 0) END AS init_copy_bytes,
    CASE WHEN r.has_shapes THEN coalesce(i.init_copy_ns, 0) END AS init_copy_ns,
    CASE WHEN r.has_shapes THEN ratio!(coalesce(i.init_copy_ns, 0), w.steps_ns) END AS init_copy_ratio,
    coalesce(t.init_idle_ns, 0) AS init_idle_ns,
    coalesce(t.init_idle_ratio, 0) AS init_idle_ratio,
    t.init_idle_name,
    greatest(coalesce(t.init_idle_ratio, 0), coalesce(ratio!(i.init_copy_ns, w.steps_ns), 0)) AS init_ratio
FROM ranks r
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN busiest b ON b.rank = r.rank
LEFT JOIN biased l ON l.rank = r.rank
LEFT JOIN bias_work v ON v.rank = r.rank
LEFT JOIN init_copies i ON i.rank = r.rank
LEFT JOIN waiting t ON t.rank = r.rank
LEFT JOIN run_warmup u ON u.rank = r.rank
WHERE r.vendor IS NOT NULL
