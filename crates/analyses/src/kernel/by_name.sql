--! question = "Which kernels, copies and fills take the time, and which family of work are they?"
--! row = "one kernel, copy or fill by name, as part of one family of work on one rank"
--! window = "counted_steps"
--! sort = ["device_ns"]
--! needs = ["device_work", "device_windows"]
--! order = ["rank", "name", "family", "category", "kind"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! name = "name of the kernel, copy or fill"
--! family = "what it does, by its name, else by the operator that launched it: matmul, convolution, attention, norm, softmax and loss, elementwise, reduction, copy, fill, layout change, embedding and indexing, sorting and scanning, pooling, quantization, lists of tensors (those of optimizers), mixture of experts, cache write, compiled (fused by Triton), communication, or other"
--! category = "kernel, memcpy or memset"
--! kind = "computation, communication or memory"
--! call_count = { doc = "executions", unit = "count", metric = "kernel" }
--! device_ns = { doc = "time of all executions, overlap not merged", unit = "ns", metric = "kernel" }
--! ratio = { doc = "share of the time of all kernels, copies and fills of the rank", unit = "ratio", metric = "kernel" }
--! mean_ns = { doc = "mean duration", unit = "ns", metric = "kernel" }
--! max_ns = { doc = "longest", unit = "ns", metric = "kernel" }
--! mean_occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over executions that have it", unit = "ratio", metric = "kernel" }
--! tensor_cores = "by name: yes, no or unknown: whether it multiplies on tensor cores (matrix cores on AMD)"
--! op_name = "operator that launched most of it; absent where the trace does not say"
-- Each kernel is of one family, so that families add up. Those of `kernel_families` overlap, and share these tests of names.
WITH launched AS (
    SELECT
        k.rank, k.category, k.kind, k.name, k.op_name,
        min(k.tensor_cores) AS tensor_cores,
        count(*) AS call_count,
        sum(k.dur_ns) AS device_ns,
        max(k.dur_ns) AS max_ns,
        sum_if!(k.dur_ns, k.occupancy_ratio IS NOT NULL) AS known_ns,
        exact_sum!(k.occupancy_ratio * k.dur_ns) AS occupied_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
    GROUP BY k.rank, k.category, k.kind, k.name, k.op_name
),
-- Names repeat on each rank: each one is tested once.
names AS (
    SELECT category, kind, CAST(name AS VARCHAR) AS name, coalesce(CAST(op_name AS VARCHAR), '') AS op
    FROM launched
    GROUP BY category, kind, name, op_name
),
families AS (
    SELECT
        category, kind, name, op,
        CASE
            WHEN category = 'memset' THEN 'fill'
            WHEN category = 'memcpy' OR kind = 'memory' THEN 'copy'
            WHEN kind = 'communication' THEN 'communication'
            WHEN is_cache_write!(name) THEN 'cache write'
            WHEN is_attention!(name) THEN 'attention'
            WHEN name LIKE 'triton\_%' AND NOT is_matmul!(name) THEN 'compiled'
            WHEN is_layout_change!(name) THEN 'layout change'
            WHEN regexp_like(name, '(?i)multi_?tensor|fused_?(adam|sgd|lamb|adagrad)') THEN 'lists of tensors'
            WHEN is_of_experts!(name) OR regexp_like(op, '(?i)moe|expert') THEN 'mixture of experts'
            WHEN is_norm!(name) OR regexp_like(name, 'bn_(fw|bw)|BatchNorm|batch_?norm|RowwiseMoments|GammaBeta|[Ww]elford')
                OR is_norm_op!(op) THEN 'norm'
            WHEN is_convolution!(name) OR op LIKE '%conv%' THEN 'convolution'
            WHEN (is_matmul!(name) OR is_matmul_op!(op)) AND NOT is_pointwise!(name) THEN 'matmul'
            WHEN regexp_like(name, '(?i)softmax|nll_loss|cross_?entropy') THEN 'softmax and loss'
            WHEN regexp_like(name, '(?i)quant|scaled_fp8') THEN 'quantization'
            WHEN regexp_like(name, '(?i)rotary|rope_') THEN 'elementwise'
            WHEN regexp_like(name, '(?i)embedding|embs_|gather|scatter|jagged|recat_|bounds_check|index_?(select|put|add|copy|fill|kernel|func|elementwise)|linearize_index|_indices')
                THEN 'embedding and indexing'
            WHEN regexp_like(name, '(?i)radix|sort|topk|DeviceScan|scan_kernel|scan_config|cumsum|ReduceByKey|DeviceSelect|unique')
                THEN 'sorting and scanning'
            WHEN regexp_like(name, '(?i)pool') THEN 'pooling'
            WHEN is_copy_op!(op) OR regexp_like(name, '(?i)CatArray|direct_copy|copy_kernel|memcpy|transpose|permute') THEN 'copy'
            WHEN regexp_like(name, '(?i)reduce') THEN 'reduction'
            WHEN regexp_like(name, '(?i)elementwise|pointwise|act_and_mul|silu|gelu|dropout|distribution|TensorOp|OpTensor|scalePackedTensor|where|clamp|tri[lu]_|fill')
                THEN 'elementwise'
            WHEN regexp_like(op, 'embedding|index|gather|scatter') THEN 'embedding and indexing'
            WHEN regexp_like(op, 'sort|topk|cumsum|nonzero|unique') THEN 'sorting and scanning'
            ELSE 'other'
        END AS family
    FROM names
),
totals AS (
    SELECT
        l.rank, l.category, l.kind, l.name, f.family,
        min(l.tensor_cores) AS tensor_cores,
        sum(l.call_count) AS call_count,
        sum(l.device_ns) AS device_ns,
        max(l.max_ns) AS max_ns,
        sum(l.known_ns) AS known_ns,
        exact_sum!(l.occupied_ns) AS occupied_ns,
        first_value(l.op_name ORDER BY l.op_name IS NULL, l.device_ns DESC, l.op_name) AS op_name
    FROM launched l
    JOIN families f
        ON f.category = l.category AND f.kind = l.kind AND f.name = l.name AND f.op = coalesce(l.op_name, '')
    GROUP BY l.rank, l.category, l.kind, l.name, f.family
)
SELECT
    rank, name, family, category, kind, call_count, device_ns,
    ratio!(device_ns, sum(device_ns) OVER (PARTITION BY rank)) AS ratio,
    ratio!(device_ns, call_count) AS mean_ns,
    max_ns,
    occupied_ns / nullif(known_ns, 0) AS mean_occupancy_ratio,
    tensor_cores, op_name
FROM totals
