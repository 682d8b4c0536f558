--! question = "Which operators execute the most floating-point operations, by hardware counters?"
--! row = "one operator: the floating-point work of the kernels it launched"
--! window = "recording"
--! sort = ["flop_count"]
--! needs = ["profiler_ranges", "range_counters"]
--! order = ["rank", "name"]
--! requires = ["hardware_counters"]
--! when_empty = "no kernel has a counter smsp__sass_thread_inst_executed_op_*_pred_on.sum: record with experimental_config=_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)"
--! [columns]
--! rank = "rank"
--! name = "operator that launched the kernels; absent where kernels and launches could not be paired"
--! kernel_count = { doc = "kernels with such counters", unit = "count" }
--! flop_count = { doc = "floating-point operations: a fused multiply-add is 2, an addition or multiplication 1; those of tensor cores have counters of their own and are not in it", unit = "count" }
--! fp64_flop_count = { doc = "those in double precision", unit = "count" }
--! fp32_flop_count = { doc = "those in single precision", unit = "count" }
--! fp16_flop_count = { doc = "those in half precision", unit = "count" }
--! flop_ratio = { doc = "share of the rank's floating-point operations", unit = "ratio" }
-- The weights are HTA's CUDA_SASS_INSTRUCTION_COUNTER_FLOPS.
WITH instructions AS (
    SELECT
        rank,
        event_id,
        substr(name, length('smsp__sass_thread_inst_executed_op_') + 1, 1) AS precision,
        value * CASE WHEN name LIKE '%fma\_pred\_on.sum' THEN 2 ELSE 1 END AS flops
    FROM range_counters
    WHERE name IN (
        'smsp__sass_thread_inst_executed_op_dadd_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_dmul_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_dfma_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_fmul_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_hadd_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_hmul_pred_on.sum',
        'smsp__sass_thread_inst_executed_op_hfma_pred_on.sum'
    )
),
kernels AS (
    SELECT
        rank,
        event_id,
        sum(flops) AS flops,
        sum_if!(flops, precision = 'd') AS fp64,
        sum_if!(flops, precision = 'f') AS fp32,
        sum_if!(flops, precision = 'h') AS fp16
    FROM instructions
    GROUP BY rank, event_id
),
operators AS (
    SELECT
        r.rank,
        r.op_name AS name,
        count(*) AS kernel_count,
        sum(k.flops) AS flops,
        sum(k.fp64) AS fp64,
        sum(k.fp32) AS fp32,
        sum(k.fp16) AS fp16
    FROM kernels k
    JOIN profiler_ranges r ON r.rank = k.rank AND r.event_id = k.event_id
    GROUP BY r.rank, r.op_name
)
SELECT
    rank,
    name,
    kernel_count,
    CAST(flops AS BIGINT) AS flop_count,
    CAST(fp64 AS BIGINT) AS fp64_flop_count,
    CAST(fp32 AS BIGINT) AS fp32_flop_count,
    CAST(fp16 AS BIGINT) AS fp16_flop_count,
    flops / nullif(sum(flops) OVER (PARTITION BY rank), 0) AS flop_ratio
FROM operators
