--! question = "How well does a program on the CPU use the processor?"
--! row = "one rank; of one with device activity, the fact only"
--! window = "counted_steps"
--! needs = ["roofline_cpu_calls", "roofline_cpu_chain_calls", "op_cpu_work", "op_cpu_delayed_calls", "device_steps"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no operators: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! has_device = "a device runs the work: all other columns are absent"
--! uses_device = "kernels are launched, or memory of a device is allocated, though no activity of a device was recorded"
--! has_shapes = "input shapes of operators were recorded (record_shapes=True): without them, all that follows is absent"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "rank" }
--! product_ns = { doc = "matmuls and convolutions, on the thread with most of the time in operators of known cost, like all that follows", unit = "ns", metric = "rank" }
--! product_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! large_product_ns = { doc = "those of 2 * 10^7 operations or more on 32-bit floats", unit = "ns", metric = "rank" }
--! large_product_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! large_product_gflops = { doc = "their operations per nanosecond: 10^9 a second", metric = "rank" }
--! fastest_large_product_gflops = { doc = "the highest rate of large products with inputs of one shape, of those that take 2 % of large_product_ns or more", metric = "rank" }
--! slow_half_ns = { doc = "matmuls and convolutions on 16-bit floats, of 10^6 operations or more, at less than 30 * 10^9 operations a second: without instructions for the type", unit = "ns", metric = "rank" }
--! slow_half_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! slow_half_gflops = { doc = "their operations per nanosecond", metric = "rank" }
--! slow_half_dtype = "fp16 or bf16, the one with more of it"
--! single_row_ns = { doc = "matmuls whose left factor has one row: of a single input", unit = "ns", metric = "rank" }
--! single_row_ratio = { doc = "share of product_ns", unit = "ratio", metric = "rank" }
--! channels_first_ns = { doc = "convolutions of 32-bit floats whose input has 8 channels or more and as many elements as their weight or more, and is not in channels_last; absent if no strides of such inputs were recorded", unit = "ns", metric = "rank" }
--! channels_first_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! channels_first_share_ratio = { doc = "share of the time of all convolutions", unit = "ratio", metric = "rank" }
--! channels_first_dims = "input shapes with most of it, JSON"
--! channels_first_has_one_input = "their inputs of that shape are a batch of one"
--! has_group_norm = "the model normalizes groups of channels"
--! chain_ns = { doc = "operators of chains that one loop could compute (20 us or more an operator), without chains of an optimizer", unit = "ns", metric = "rank" }
--! chain_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! chain_bytes_ratio = { doc = "share of their bytes that one loop would move", unit = "ratio", metric = "rank" }
--! chain_name = "the chain with most time"
--! chain_owner = "what runs that chain: model or loss, see roofline_cpu_chain_calls"
--! chain_dims = "input shapes of its first operator, JSON"
--! optimizer_chain_ns = { doc = "operators of chains of an optimizer, as in chain_ns", unit = "ns", metric = "rank" }
--! optimizer_chain_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! optimizer_chain_name = "the chain of an optimizer with most time"
--! stalled_ns = { doc = "additions, multiplications and the like on 32,768 elements or more, which run on several threads, of 32-bit floats, that take 1.5 ns an element or more, where even the fastest call with the same shapes takes 1 ns: one core needs about 0.5 ns. 0 if that is less than half of such calls: memory that is new to the process slows only some of them down", unit = "ns", metric = "rank" }
--! stalled_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! stalled_per_element_ns = { doc = "mean of these calls", unit = "ns", metric = "rank" }
--! stalled_name = "the operator with most of it"
--! delayed_call_count = { doc = "calls that take far longer than others with the same inputs, see op_cpu_delayed_calls", unit = "count", metric = "rank" }
--! delayed_op_count = { doc = "different operators among them", unit = "count", metric = "rank" }
--! delay_ns = { doc = "their time above the usual", unit = "ns", metric = "rank" }
--! delay_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! delayed_name = "the operator with most of it; the columns delayed describe its longest call, too"
--! delayed_longest_ns = { doc = "that call", unit = "ns", metric = "rank" }
--! delayed_usual_ns = { doc = "the usual time of such calls", unit = "ns", metric = "rank" }
WITH windows AS (
    SELECT rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns FROM device_steps GROUP BY rank
),
in_window AS (
    SELECT
        c.rank, c.thread, c.name, c.kind, c.input_dims, c.dtype, c.self_dur_ns, c.flops, c.sample_count, c.output_elements,
        c.is_channels_last, c.input_elements >= c.weight_elements AND c.input_channels >= 8 AND c.dtype = 'fp32' AS is_wide_convolution,
        c.kind = 'gemm' OR c.kind = 'convolution' AS is_product
    FROM roofline_cpu_calls c
    JOIN windows w ON w.rank = c.rank AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
),
main AS (
    SELECT rank, thread
    FROM (
        SELECT rank, thread, row_number() OVER (PARTITION BY rank ORDER BY sum(self_dur_ns) DESC, thread) AS place
        FROM in_window
        GROUP BY rank, thread
    )
    WHERE place = 1
),
calls AS (
    SELECT
        c.*,
        c.is_product AND c.flops >= 2e7 AND c.dtype = 'fp32' AS is_large,
        c.is_product AND c.flops >= 1e6 AND c.dtype IN ('fp16', 'bf16') AND c.flops < 30.0 * c.self_dur_ns AS is_slow_half,
        c.output_elements >= 32768 AND c.dtype = 'fp32'
            AND regexp_like(c.name, '^aten::(add|sub|mul|neg|relu|clamp_min|threshold_backward)_?\z') AS is_simple,
        c.self_dur_ns >= 1.5 * c.output_elements
            AND min(c.self_dur_ns) OVER (PARTITION BY c.rank, c.name, c.input_dims) >= c.output_elements AS is_slow
    FROM in_window c
    JOIN main m ON m.rank = c.rank AND m.thread = c.thread
),
totals AS (
    SELECT
        rank,
        sum_if!(self_dur_ns, is_product) AS product_ns,
        sum_if!(self_dur_ns, is_large) AS large_product_ns,
        sum_if!(flops, is_large) AS large_flops,
        sum_if!(self_dur_ns, is_slow_half) AS slow_half_ns,
        sum_if!(flops, is_slow_half) AS slow_half_flops,
        sum_if!(self_dur_ns, is_slow_half AND dtype = 'fp16') AS slow_fp16_ns,
        sum_if!(self_dur_ns, kind = 'gemm' AND sample_count = 1) AS single_row_ns,
        sum_if!(self_dur_ns, kind = 'convolution') AS convolution_ns,
        sum(CASE WHEN is_wide_convolution AND NOT is_channels_last THEN self_dur_ns
            WHEN is_wide_convolution AND is_channels_last THEN 0 END) AS channels_first_ns,
        bool_or(name LIKE 'aten::native\_group\_norm%') AS has_group_norm,
        -- Threads that wait for cores slow most operators down, new memory only some.
        CASE
            WHEN 2 * count_if!(is_simple AND is_slow) >= count_if!(is_simple) THEN sum_if!(self_dur_ns, is_simple AND is_slow)
            ELSE 0
        END AS stalled_ns,
        sum_if!(output_elements, is_simple AND is_slow) AS stalled_elements
    FROM calls
    GROUP BY rank
),
rates AS (
    SELECT rank, max(gflops) AS gflops
    FROM (
        SELECT
            rank, sum(flops) / sum(self_dur_ns) AS gflops, sum(self_dur_ns) AS shape_ns,
            sum(sum(self_dur_ns)) OVER (PARTITION BY rank) AS large_ns
        FROM calls
        WHERE is_large AND self_dur_ns > 0
        GROUP BY rank, name, input_dims
    )
    WHERE shape_ns >= 0.02 * large_ns
    GROUP BY rank
),
channels_first_shapes AS (
    SELECT rank, first_value(input_dims ORDER BY self_ns DESC, input_dims) AS input_dims
    FROM (
        SELECT rank, input_dims, sum(self_dur_ns) AS self_ns
        FROM calls
        WHERE is_wide_convolution AND NOT is_channels_last
        GROUP BY rank, input_dims
    )
    GROUP BY rank
),
chain_names AS (
    SELECT
        c.rank, c.owner, c.chain_name AS name, sum(c.dur_ns) AS op_ns, sum(c.moved_bytes) AS moved_bytes,
        sum(c.external_bytes) AS external_bytes,
        first_value(c.input_dims ORDER BY c.chain_ns DESC, c.ts_ns) AS input_dims
    FROM roofline_cpu_chain_calls c
    JOIN main m ON m.rank = c.rank AND m.thread = c.thread
    JOIN windows w ON w.rank = c.rank AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
    WHERE c.chain_ns >= 20000 * c.op_count
    GROUP BY c.rank, c.owner, c.chain_name
),
optimizer_chains AS (
    SELECT rank, sum(op_ns) AS chain_ns, first_value(name ORDER BY op_ns DESC, name) AS chain_name
    FROM chain_names
    WHERE owner = 'optimizer'
    GROUP BY rank
),
chains AS (
    SELECT
        rank, sum(op_ns) AS chain_ns, ratio!(sum(external_bytes), sum(moved_bytes)) AS chain_bytes_ratio,
        first_value(name ORDER BY op_ns DESC, name, owner) AS chain_name,
        first_value(owner ORDER BY op_ns DESC, name, owner) AS chain_owner,
        first_value(input_dims ORDER BY op_ns DESC, name, owner) AS chain_dims
    FROM chain_names
    WHERE owner <> 'optimizer'
    GROUP BY rank
),
stalled_names AS (
    SELECT rank, first_value(name ORDER BY self_ns DESC, name) AS stalled_name
    FROM (SELECT rank, name, sum(self_dur_ns) AS self_ns FROM calls WHERE is_simple AND is_slow GROUP BY rank, name)
    GROUP BY rank
),
delays AS (
    SELECT
        d.rank, count(*) AS call_count, count(DISTINCT d.name) AS op_count, sum(d.delay_ns) AS delay_ns
    FROM op_cpu_delayed_calls d
    JOIN main m ON m.rank = d.rank AND m.thread = d.thread
    GROUP BY d.rank
),
delayed_names AS (
    SELECT
        d.rank, d.name, sum(d.delay_ns) AS delay_ns, max(d.self_dur_ns) AS longest_ns,
        first_value(d.usual_ns ORDER BY d.self_dur_ns DESC, d.ts_ns) AS usual_ns
    FROM op_cpu_delayed_calls d
    JOIN main m ON m.rank = d.rank AND m.thread = d.thread
    GROUP BY d.rank, d.name
),
most_delayed AS (
    SELECT
        rank, first_value(name ORDER BY delay_ns DESC, name) AS name,
        first_value(longest_ns ORDER BY delay_ns DESC, name) AS longest_ns,
        first_value(usual_ns ORDER BY delay_ns DESC, name) AS usual_ns
    FROM delayed_names
    GROUP BY rank
)
SELECT
    r.rank, r.has_device, r.uses_device,
    CASE WHEN NOT r.has_device THEN t.rank IS NOT NULL END AS has_shapes,
    r.window_ns,
    t.product_ns,
    ratio!(t.product_ns, r.window_ns) AS product_ratio,
    t.large_product_ns,
    ratio!(t.large_product_ns, r.window_ns) AS large_product_ratio,
    ratio!(t.large_flops, t.large_product_ns) AS large_product_gflops,
    f.gflops AS fastest_large_product_gflops,
    t.slow_half_ns,
    ratio!(t.slow_half_ns, r.window_ns) AS slow_half_ratio,
    ratio!(t.slow_half_flops, t.slow_half_ns) AS slow_half_gflops,
    CASE WHEN t.slow_half_ns > 0 THEN CASE WHEN 2 * t.slow_fp16_ns >= t.slow_half_ns THEN 'fp16' ELSE 'bf16' END END AS slow_half_dtype,
    t.single_row_ns,
    ratio!(t.single_row_ns, t.product_ns) AS single_row_ratio,
    t.channels_first_ns,
    ratio!(t.channels_first_ns, r.window_ns) AS channels_first_ratio,
    ratio!(t.channels_first_ns, t.convolution_ns) AS channels_first_share_ratio,
    i.input_dims AS channels_first_dims,
    regexp_like(i.input_dims, '^\[\[1,') AS channels_first_has_one_input,
    t.has_group_norm,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(c.chain_ns, 0) END AS chain_ns,
    ratio!(CASE WHEN t.rank IS NOT NULL THEN coalesce(c.chain_ns, 0) END, r.window_ns) AS chain_ratio,
    c.chain_bytes_ratio, c.chain_name, c.chain_owner, c.chain_dims,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(o.chain_ns, 0) END AS optimizer_chain_ns,
    ratio!(CASE WHEN t.rank IS NOT NULL THEN coalesce(o.chain_ns, 0) END, r.window_ns) AS optimizer_chain_ratio,
    o.chain_name AS optimizer_chain_name,
    t.stalled_ns,
    ratio!(t.stalled_ns, r.window_ns) AS stalled_ratio,
    ratio!(t.stalled_ns, t.stalled_elements) AS stalled_per_element_ns,
    n.stalled_name,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(l.call_count, 0) END AS delayed_call_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(l.op_count, 0) END AS delayed_op_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(l.delay_ns, 0) END AS delay_ns,
    ratio!(CASE WHEN t.rank IS NOT NULL THEN coalesce(l.delay_ns, 0) END, r.window_ns) AS delay_ratio,
    e.name AS delayed_name, e.longest_ns AS delayed_longest_ns, e.usual_ns AS delayed_usual_ns
FROM op_cpu_work r
LEFT JOIN totals t ON t.rank = r.rank
LEFT JOIN channels_first_shapes i ON i.rank = r.rank
LEFT JOIN chains c ON c.rank = r.rank
LEFT JOIN optimizer_chains o ON o.rank = r.rank
LEFT JOIN stalled_names n ON n.rank = r.rank
LEFT JOIN delays l ON l.rank = r.rank
LEFT JOIN most_delayed e ON e.rank = r.rank
LEFT JOIN rates f ON f.rank = r.rank
