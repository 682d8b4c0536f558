--! question = "Where does the time of a program on the CPU go?"
--! row = "one rank; of one with device activity, the fact only"
--! window = "counted_steps"
--! needs = ["cpu_ops", "annotations", "runtime_calls", "memory_events", "collectives", "device_steps", "device_work"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no operators: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! has_device = "a device runs the work: all other columns are absent"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! window_ns = { doc = "from the start of the first complete step to the end of the last, without unrecorded time between steps whose numbers are not consecutive", unit = "ns", metric = "rank" }
--! op_ns = { doc = "within it, the thread that works most is in an operator", unit = "ns", metric = "rank" }
--! python_ns = { doc = "that thread is in no operator and in no call of a DataLoader: it runs Python, or waits", unit = "ns", metric = "rank" }
--! python_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! outer_op_count = { doc = "operators that it calls, those inside others left out", unit = "count", metric = "rank" }
--! python_per_op_ns = { doc = "python_ns for each of them", unit = "ns", metric = "rank" }
--! call_overhead_ns = { doc = "python_ns and the self time of operators of less than 10 us on that thread: at most that much goes into calling operators", unit = "ns", metric = "rank" }
--! call_overhead_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! gate_count = { doc = "calls of tanh in a step of a rank that calls sigmoid as often or more, and no operator for recurrent layers, as a recurrent cell written by hand does; without steps, in the recording", unit = "count", metric = "rank" }
--! random_ns = { doc = "self time of operators that draw random numbers", unit = "ns", metric = "rank" }
--! random_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! random_name = "the one with most of it"
--! has_collectives = "the rank communicates: it may wait for others outside of operators"
--! uses_device = "kernels are launched, or memory of a device is allocated, though no activity of a device was recorded"
--! matmul_ns = { doc = "self time of matrix multiplications on that thread", unit = "ns", metric = "rank" }
--! matmul_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! convolution_ns = { doc = "self time of convolutions, with their backward passes", unit = "ns", metric = "rank" }
--! convolution_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! communication_ns = { doc = "self time of operators that communicate, waiting for other ranks included: gloo:recv, c10d::allreduce_", unit = "ns", metric = "rank" }
--! communication_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! other_op_ratio = { doc = "share of the rest of op_ns", unit = "ratio", metric = "rank" }
--! loading_ns = { doc = "that thread is in a call of a DataLoader", unit = "ns", metric = "rank" }
--! loading_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! top_op_name = "operator with most self time on that thread, without operators that communicate; CompiledFxGraph stands for the loops that torch.compile generates; the columns top_op describe it, too"
--! top_op_kind = "matmul, convolution, compiled (a region of torch.compile) or other"
--! top_op_count = { doc = "its calls", unit = "count", metric = "rank" }
--! top_op_ns = { doc = "its self time", unit = "ns", metric = "rank" }
--! top_op_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! top_op_dims = "input shapes with most of it, JSON; absent where they were not recorded (record_shapes=True)"
--! top_op_row_count = { doc = "rows of the left factor of a matmul with inputs of these shapes; absent for other operators", unit = "count" }
--! top_op_has_one_input = "it is a convolution of a batch of one input; absent where shapes were not recorded"
--! slow_conv_ns = { doc = "self time of convolutions in PyTorch's fallback kernels, neither in oneDNN nor in another library; backward passes are part of aten::convolution_backward and do not count", unit = "ns", metric = "rank" }
--! slow_conv_ratio = { doc = "share of window_ns", unit = "ratio", metric = "rank" }
--! slow_double_conv_ratio = { doc = "share of window_ns of those on 64-bit floats, which oneDNN does not take; 0 where types were not recorded", unit = "ratio", metric = "rank" }
--! slow_conv_name = "the operator with most of it"
--! double_ns = { doc = "self time of convolutions and matrix multiplications of 64-bit floats", unit = "ns", metric = "rank" }
--! double_ratio = { doc = "share of window_ns; absent where types were not recorded (record_shapes=True)", unit = "ratio", metric = "rank" }
WITH device_flags AS (
    SELECT s.rank, bool_or(d.rank IS NOT NULL) AS has_device
    FROM device_steps s
    LEFT JOIN (SELECT DISTINCT rank FROM device_work) d ON d.rank = s.rank
    GROUP BY s.rank
),
-- A profiler that records only some steps leaves unrecorded time between them.
ordered_steps AS (
    SELECT
        s.rank, s.step, s.source, s.host_ts_ns, s.host_end_ns,
        lag(s.step) OVER (PARTITION BY s.rank ORDER BY s.host_ts_ns, s.step) AS previous_step,
        lag(s.host_end_ns) OVER (PARTITION BY s.rank ORDER BY s.host_ts_ns, s.step) AS previous_end_ns
    FROM device_steps s
    JOIN device_flags d ON d.rank = s.rank AND NOT d.has_device
),
windows AS (
    SELECT
        rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns,
        max(host_end_ns) - min(host_ts_ns)
            - sum(CASE WHEN step > previous_step + 1 THEN greatest(host_ts_ns - previous_end_ns, 0) ELSE 0 END) AS window_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
    FROM ordered_steps
    GROUP BY rank
),
ops AS (
    SELECT
        o.rank, o.thread, CAST(o.name AS VARCHAR) AS name, o.ts_ns, o.ts_ns + o.dur_ns AS end_ns, o.self_dur_ns,
        CAST(o.input_dims AS VARCHAR) AS input_dims,
        CAST(o.input_types AS VARCHAR) AS input_types
    FROM cpu_ops o
    JOIN windows w ON w.rank = o.rank AND o.ts_ns >= w.start_ns AND o.ts_ns < w.end_ns
),
-- Operators and calls of a loader, one after the other on a thread.
busy AS (
    SELECT rank, thread, ts_ns, end_ns, 1 AS is_op FROM ops
    UNION ALL
    SELECT a.rank, a.thread, a.ts_ns, a.ts_ns + a.dur_ns, 0
    FROM annotations a
    JOIN windows w ON w.rank = a.rank AND a.ts_ns >= w.start_ns AND a.ts_ns < w.end_ns
    WHERE NOT a.on_device AND a.name LIKE 'enumerate(Data%'
),
ordered AS (
    SELECT *, max_before!(end_ns, PARTITION BY rank, thread ORDER BY ts_ns, end_ns DESC) AS until_ns FROM busy
),
by_thread AS (
    SELECT
        rank, thread,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)), 0)) AS busy_ns,
        sum(CASE WHEN is_op = 1 THEN greatest(end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)), 0) ELSE 0 END) AS op_ns,
        sum(CASE WHEN is_op = 1 AND coalesce(ts_ns >= until_ns, true) THEN 1 ELSE 0 END) AS outer_op_count
    FROM ordered
    GROUP BY rank, thread
),
main AS (
    SELECT rank, thread, busy_ns, op_ns, outer_op_count
    FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY op_ns DESC, thread) AS place FROM by_thread)
    WHERE place = 1
),
-- One thread only: shares of several would add up to more than the time.
main_ops AS (
    SELECT
        o.rank, o.name, o.ts_ns, o.self_dur_ns, o.input_dims, o.input_types,
        regexp_like(o.name, '^aten::_?slow_conv') AS is_slow_conv,
        regexp_like(o.name, '^aten::(bernoulli|normal|uniform|random|exponential|multinomial|cauchy|log_normal|geometric)_?\z|^aten::(rand|randn|randint|randperm|native_dropout)\z') AS is_random,
        regexp_like(o.name, '^aten::(mm|addmm|bmm|baddbmm|addbmm|mv|addmv|dot|_addmm_activation|linear|mkldnn_linear)\z') AS is_matmul,
        regexp_like(o.name, '^aten::(_?slow_conv|mkldnn_.*conv|convolution|_convolution|conv|thnn_conv)') AS is_conv,
        -- Operators that communicate mostly wait for other ranks: their time is not work of this rank.
        is_collective_range!(o.name) OR regexp_like(o.name, '^(c10d|_c10d_functional|c10d_functional|symm_mem)::')
            OR o.name = 'record_param_comms' AS is_communication
    FROM ops o
    JOIN main m ON m.rank = o.rank AND m.thread = o.thread
),
-- What torch.compile generates runs in a range of the compiled graph, and outside of the operators in it.
graph_calls AS (
    SELECT a.rank, a.ts_ns, a.ts_ns + a.dur_ns AS end_ns, a.dur_ns
    FROM annotations a
    JOIN main m ON m.rank = a.rank AND m.thread = a.thread
    JOIN windows w ON w.rank = a.rank AND a.ts_ns >= w.start_ns AND a.ts_ns < w.end_ns
    WHERE NOT a.on_device AND a.name LIKE '## Call CompiledFxGraph%'
),
graph_sums AS (
    SELECT rank, count_if!(is_graph = 1) AS call_count,
        sum(CASE WHEN is_graph = 1 THEN dur_ns WHEN ts_ns < graph_end_ns THEN -dur_ns ELSE 0 END) AS self_ns
    FROM (
        SELECT rank, ts_ns, dur_ns, is_graph,
            max_before!(graph_end_ns, PARTITION BY rank ORDER BY ts_ns, is_graph DESC) AS graph_end_ns
        FROM (
            SELECT rank, ts_ns, dur_ns, 1 AS is_graph, end_ns AS graph_end_ns FROM graph_calls
            UNION ALL
            SELECT o.rank, o.ts_ns, o.self_dur_ns, 0, CAST(NULL AS BIGINT)
            FROM main_ops o
            WHERE o.rank IN (SELECT DISTINCT rank FROM graph_calls)
        )
    )
    GROUP BY rank
),
by_shape AS (
    SELECT
        rank, name, input_dims, is_slow_conv, is_matmul, is_conv,
        count(*) AS call_count, sum(self_dur_ns) AS self_ns
    FROM main_ops
    WHERE NOT is_communication
    GROUP BY rank, name, input_dims, is_slow_conv, is_matmul, is_conv
    UNION ALL
    SELECT rank, 'CompiledFxGraph', CAST(NULL AS VARCHAR), false, false, false, call_count, self_ns
    FROM graph_sums
    WHERE self_ns > 0
),
by_name AS (
    SELECT
        rank, name, is_slow_conv, sum(call_count) AS call_count, sum(self_ns) AS self_ns,
        CASE
            WHEN is_matmul THEN 'matmul'
            WHEN is_conv THEN 'convolution'
            WHEN regexp_like(name, '^(Torch-Compiled Region|CompiledFunction|CompiledFxGraph|(graph_[0-9]+_)?cpp_fused_)') THEN 'compiled'
            ELSE 'other'
        END AS kind,
        first_value(input_dims ORDER BY self_ns DESC, input_dims) AS input_dims
    FROM by_shape
    GROUP BY rank, name, is_slow_conv, is_matmul, is_conv
),
top AS (
    SELECT rank, name, call_count, self_ns, kind, input_dims
    FROM (
        SELECT
            *,
            -- Dynamo and Inductor compile in these ranges, which are not operators.
            row_number() OVER (PARTITION BY rank ORDER BY name LIKE '%(dynamo\_timed)', self_ns DESC, name) AS place
        FROM by_name
    )
    WHERE place = 1
),
random_names AS (
    SELECT rank, first_value(name ORDER BY self_ns DESC, name) AS random_name
    FROM (SELECT rank, name, sum(self_dur_ns) AS self_ns FROM main_ops WHERE is_random GROUP BY rank, name)
    GROUP BY rank
),
slow AS (
    SELECT rank, first_value(name ORDER BY self_ns DESC, name) AS slow_conv_name
    FROM by_name
    WHERE is_slow_conv
    GROUP BY rank
),
classes AS (
    SELECT
        rank,
        sum_if!(self_dur_ns, self_dur_ns < 10000) AS short_op_ns,
        count_if!(name = 'aten::tanh') AS tanh_count,
        count_if!(regexp_like(name, '^aten::sigmoid_?\z')) AS sigmoid_count,
        bool_or(regexp_like(name, '^aten::(_thnn_fused_|mkldnn_rnn|lstm|gru|rnn|_cudnn_rnn)')) AS has_recurrent_op,
        sum_if!(self_dur_ns, is_random) AS random_ns,
        sum_if!(self_dur_ns, is_matmul) AS matmul_ns,
        sum_if!(self_dur_ns, is_conv AND NOT is_matmul) AS convolution_ns,
        sum_if!(self_dur_ns, is_communication) AS communication_ns,
        sum_if!(self_dur_ns, is_slow_conv) AS slow_conv_ns,
        sum_if!(self_dur_ns, is_slow_conv AND input_types LIKE '%"double"%') AS slow_double_conv_ns,
        sum_if!(self_dur_ns, (is_matmul OR is_conv) AND input_types LIKE '%"double"%') AS double_ns,
        bool_or(input_types IS NOT NULL) AS has_types
    FROM main_ops
    GROUP BY rank
),
using_device AS (
    SELECT DISTINCT rank FROM runtime_calls WHERE is_launch!(name)
    UNION
    SELECT DISTINCT rank FROM memory_events WHERE device_type <> 0
    UNION
    SELECT DISTINCT rank FROM ops WHERE is_gpu_op!(name)
),
communicating AS (
    SELECT DISTINCT rank FROM collectives
    UNION
    SELECT DISTINCT rank FROM ops WHERE is_collective_range!(name) OR name LIKE 'c10d::%'
)
SELECT
    d.rank, d.has_device, w.step_count,
    w.window_ns,
    m.op_ns,
    greatest(w.window_ns - m.busy_ns, 0) AS python_ns,
    ratio!(greatest(w.window_ns - m.busy_ns, 0), w.window_ns) AS python_ratio,
    m.outer_op_count,
    ratio!(greatest(w.window_ns - m.busy_ns, 0), m.outer_op_count) AS python_per_op_ns,
    CASE WHEN m.rank IS NOT NULL THEN least(greatest(w.window_ns - m.busy_ns, 0) + coalesce(k.short_op_ns, 0), w.window_ns) END AS call_overhead_ns,
    ratio!(CASE WHEN m.rank IS NOT NULL THEN least(greatest(w.window_ns - m.busy_ns, 0) + coalesce(k.short_op_ns, 0), w.window_ns) END, w.window_ns) AS call_overhead_ratio,
    CASE
        WHEN k.rank IS NULL THEN NULL
        WHEN k.sigmoid_count >= k.tanh_count AND NOT k.has_recurrent_op THEN CAST(round(1.0 * k.tanh_count / greatest(w.step_count, 1)) AS BIGINT)
        ELSE 0
    END AS gate_count,
    k.random_ns, ratio!(k.random_ns, w.window_ns) AS random_ratio, x.random_name,
    CASE WHEN NOT d.has_device THEN c.rank IS NOT NULL END AS has_collectives,
    CASE WHEN NOT d.has_device THEN u.rank IS NOT NULL END AS uses_device,
    k.matmul_ns, ratio!(k.matmul_ns, w.window_ns) AS matmul_ratio,
    k.convolution_ns, ratio!(k.convolution_ns, w.window_ns) AS convolution_ratio,
    k.communication_ns, ratio!(k.communication_ns, w.window_ns) AS communication_ratio,
    ratio!(greatest(m.op_ns - k.matmul_ns - k.convolution_ns - k.communication_ns, 0), w.window_ns) AS other_op_ratio,
    m.busy_ns - m.op_ns AS loading_ns, ratio!(m.busy_ns - m.op_ns, w.window_ns) AS loading_ratio,
    t.name AS top_op_name, t.kind AS top_op_kind, t.call_count AS top_op_count, t.self_ns AS top_op_ns,
    ratio!(CASE WHEN m.rank IS NOT NULL THEN coalesce(t.self_ns, 0) END, w.window_ns) AS top_op_ratio,
    t.input_dims AS top_op_dims,
    CASE WHEN t.kind = 'matmul' THEN TRY_CAST((regexp_match(t.input_dims, '^\[(?:\[[0-9]+\], ?)?\[([0-9]+), ?[0-9]+\]'))[1] AS BIGINT) END AS top_op_row_count,
    CASE WHEN t.input_dims IS NOT NULL THEN t.kind = 'convolution' AND regexp_like(t.input_dims, '^\[\[1,') END AS top_op_has_one_input,
    k.slow_conv_ns,
    ratio!(k.slow_conv_ns, w.window_ns) AS slow_conv_ratio,
    ratio!(k.slow_double_conv_ns, w.window_ns) AS slow_double_conv_ratio,
    s.slow_conv_name,
    k.double_ns,
    CASE WHEN k.has_types THEN ratio!(k.double_ns, w.window_ns) END AS double_ratio
FROM device_flags d
LEFT JOIN windows w ON w.rank = d.rank
LEFT JOIN main m ON m.rank = w.rank
LEFT JOIN top t ON t.rank = w.rank
LEFT JOIN slow s ON s.rank = w.rank
LEFT JOIN random_names x ON x.rank = w.rank
LEFT JOIN classes k ON k.rank = w.rank
LEFT JOIN using_device u ON u.rank = w.rank
LEFT JOIN communicating c ON c.rank = w.rank
WHERE d.has_device OR m.rank IS NOT NULL
