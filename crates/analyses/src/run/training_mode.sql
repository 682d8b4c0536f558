--! question = "Does a program that does not train run its model in training mode?"
--! row = "one rank: its batch norms and dropouts, and how many of them are in training mode"
--! window = "recording"
--! needs = ["run_rank_traits", "cpu_ops", "kernels", "python_frames"]
--! order = ["rank"]
--! when_empty = "the run has no rank"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_backward = "a backward pass or an optimizer runs, or operators record a graph for one (10 or more sequence numbers); absent if replayed graphs may hide it"
--! batch_norm_count = { doc = "calls of batch norm that have running statistics", unit = "count", metric = "rank" }
--! training_batch_norm_count = { doc = "of these, in training mode: by the recorded argument; without shapes, if the module counts the batch right before, or a kernel for training runs", unit = "count", metric = "rank" }
--! dropout_count = { doc = "calls of dropout", unit = "count", metric = "rank" }
--! active_dropout_count = { doc = "of these, in training mode: by the recorded argument; without shapes, if they draw random numbers", unit = "count", metric = "rank" }
--! is_flag_recorded = "the arguments that say training mode were recorded (record_shapes=True)"
--! mode_evidence_count = { doc = "3: most batch norms are in training mode, and dropout is active; 2: most batch norms are, and there is no dropout; 1: dropout is active, and there is no batch norm; 0: neither, a backward pass is recorded, or training mode is used on purpose: statistics are recalibrated (torch.optim.swa_utils.update_bn, a momentum that changes from call to call, or dropout is off), dropout alone is active beside batch norms, or a generator makes samples from noise", unit = "count", metric = "rank" }
-- Arguments, as at::batch_norm and at::dropout have them: input, weight, bias, running_mean, running_var, training, momentum, ...
-- and input, p, train. Instance norm calls batch norm, and without running statistics batch norm has only one mode.
WITH named AS (
    SELECT
        rank, event_id, parent, ts_ns, thread, CAST(name AS VARCHAR) AS name, CAST(input_dims AS VARCHAR) AS dims,
        regexp_replace(args, '^.*"Concrete Inputs": *\[', '') AS inputs,
        coalesce(args LIKE '%"Concrete Inputs"%', false) AS has_inputs
    FROM cpu_ops
    WHERE name IN (
        'aten::batch_norm', 'aten::_batch_norm_impl_index', 'aten::native_batch_norm', 'aten::cudnn_batch_norm',
        'aten::miopen_batch_norm', 'aten::_native_batch_norm_legit', 'aten::_batch_norm_with_update', 'aten::instance_norm',
        'aten::dropout', 'aten::dropout_', 'aten::feature_dropout', 'aten::alpha_dropout', 'aten::native_dropout',
        'aten::_fused_dropout', 'aten::scaled_dot_product_attention')
),
-- The outermost of nested calls.
layers AS (
    SELECT n.*, n.name LIKE '%norm%' AS is_norm
    FROM named n
    LEFT JOIN named p ON p.rank = n.rank AND p.event_id = n.parent
    WHERE p.rank IS NULL AND n.name <> 'aten::instance_norm'
),
-- torch.nn counts batches in training mode, right before it calls batch norm. The count decides only if no argument states the mode.
unsaid AS (
    SELECT DISTINCT rank FROM layers WHERE is_norm AND NOT has_inputs
),
before AS (
    SELECT
        o.rank, o.event_id,
        lag(o.name) OVER (PARTITION BY o.rank, o.thread, o.parent ORDER BY o.ts_ns, o.event_id) AS name
    FROM cpu_ops o
    JOIN unsaid u ON u.rank = o.rank
),
random AS (
    SELECT DISTINCT rank, parent FROM cpu_ops WHERE name IN ('aten::native_dropout', 'aten::_fused_dropout', 'aten::bernoulli_')
),
training_kernels AS (
    SELECT DISTINCT rank
    FROM kernels
    WHERE name LIKE '%bn\_fw\_tr%' OR name LIKE '%batchnorm\_fwtr%' OR name LIKE '%batch\_norm\_collect\_statistics%'
        OR name LIKE '%BatchNormFwdTrain%'
),
evaluation_kernels AS (
    SELECT DISTINCT rank
    FROM kernels
    WHERE name LIKE '%bn\_fw\_inf%' OR name LIKE '%batch\_norm\_transform\_input%' OR name LIKE '%BatchNormFwdInfer%'
),
instance_norms AS (
    SELECT DISTINCT rank FROM named WHERE name = 'aten::instance_norm'
),
flags AS (
    SELECT
        l.rank, l.is_norm, l.has_inputs,
        CASE
            WHEN l.has_inputs THEN regexp_like(l.inputs, '^("[^"]*", *){5}"(True|true|1)"')
            WHEN k.rank IS NOT NULL AND i.rank IS NULL THEN true
            ELSE CAST(b.name AS VARCHAR) = 'aten::add_' AND e.rank IS NULL
        END AS trains_norm,
        NOT l.has_inputs OR regexp_like(l.dims, '^\[(\[[^\]\[]*\], *){3}\[[0-9]') AS has_statistics,
        CASE WHEN l.is_norm AND l.has_inputs THEN regexp_replace(l.inputs, '^("[^"]*", *){6}"([^"]*)".*\z', '\2') END AS momentum,
        CASE
            WHEN l.name IN ('aten::native_dropout', 'aten::_fused_dropout') THEN true
            WHEN l.name = 'aten::scaled_dot_product_attention' THEN l.has_inputs AND regexp_like(l.inputs, '^("[^"]*", *){4}"0\.[0-9]*[1-9]')
            -- A probability of 0 drops nothing.
            WHEN l.has_inputs THEN regexp_like(l.inputs, '^"[^"]*", *"[^"]*", *"(True|true|1)"') AND NOT regexp_like(l.inputs, '^"[^"]*", *"0(\.0*)?",')
            ELSE r.rank IS NOT NULL
        END AS trains_dropout,
        l.name = 'aten::scaled_dot_product_attention' AS is_attention
    FROM layers l
    LEFT JOIN before b ON b.rank = l.rank AND b.event_id = l.event_id
    LEFT JOIN random r ON r.rank = l.rank AND r.parent = l.event_id
    LEFT JOIN training_kernels k ON k.rank = l.rank
    LEFT JOIN evaluation_kernels e ON e.rank = l.rank
    LEFT JOIN instance_norms i ON i.rank = l.rank
),
counted AS (
    SELECT
        rank,
        count_if!(is_norm AND has_statistics) AS batch_norm_count,
        count_if!(is_norm AND has_statistics AND trains_norm) AS training_batch_norm_count,
        count_if!(NOT is_norm AND (trains_dropout OR NOT is_attention)) AS dropout_count,
        count_if!(NOT is_norm AND trains_dropout) AS active_dropout_count,
        bool_and(has_inputs) AS is_flag_recorded,
        count(DISTINCT CASE WHEN has_statistics AND trains_norm THEN momentum END) > 2
            OR coalesce(bool_or(has_statistics AND trains_norm AND momentum IN ('1', '1.', '1.0')), false) AS changes_momentum
    FROM flags
    GROUP BY rank
),
graphs AS (
    SELECT
        rank, count(DISTINCT sequence) >= 10 AS records_graph,
        bool_or(name LIKE 'aten::conv\_transpose%' OR name LIKE 'aten::upsample%') AS upsamples,
        bool_or(name IN ('aten::randn', 'aten::randn_like', 'aten::normal_')
            AND NOT coalesce(regexp_like(CAST(input_dims AS VARCHAR), '^\[\[[0-9]+, *[0-9]+, *([2-9]|[0-9]{2,}), *([2-9]|[0-9]{2,})\]'), false)
            AND NOT coalesce(regexp_like(args, '"Concrete Inputs": *\["\[[0-9]+, [0-9]+, ([2-9]|[0-9]{2,}), ([2-9]|[0-9]{2,})\]"'), false)) AS draws_noise
    FROM cpu_ops
    GROUP BY rank
),
updates AS (
    SELECT DISTINCT rank FROM python_frames WHERE name LIKE '%swa\_utils.py(%): update\_bn%'
),
judged AS (
    SELECT
        t.rank, t.has_host,
        CASE
            WHEN t.has_backward OR t.has_optimizer OR g.records_graph THEN true
            WHEN NOT t.has_backward AND NOT t.has_optimizer THEN false
        END AS has_backward,
        coalesce(c.batch_norm_count, 0) AS batch_norm_count,
        coalesce(c.training_batch_norm_count, 0) AS training_batch_norm_count,
        coalesce(c.dropout_count, 0) AS dropout_count,
        coalesce(c.active_dropout_count, 0) AS active_dropout_count,
        c.is_flag_recorded,
        coalesce(c.changes_momentum, false) OR u.rank IS NOT NULL OR coalesce(g.upsamples AND g.draws_noise, false) AS is_meant
    FROM run_rank_traits t
    LEFT JOIN counted c ON c.rank = t.rank
    LEFT JOIN graphs g ON g.rank = t.rank
    LEFT JOIN updates u ON u.rank = t.rank
)
SELECT
    rank, has_host, has_backward, batch_norm_count, training_batch_norm_count, dropout_count, active_dropout_count, is_flag_recorded,
    CASE
        WHEN has_backward OR is_meant THEN 0
        WHEN batch_norm_count > 0 AND 2 * training_batch_norm_count <= batch_norm_count THEN 0
        WHEN batch_norm_count > 0 AND dropout_count = 0 THEN 2
        WHEN 2 * active_dropout_count <= dropout_count THEN 0
        WHEN batch_norm_count > 0 THEN 3
        ELSE 1
    END AS mode_evidence_count
FROM judged
