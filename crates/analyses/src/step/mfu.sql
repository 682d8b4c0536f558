--! question = "What share of the GPU's peak FLOPS does the model use over all steps (MFU)?"
--! row = "one rank: model FLOPs utilization over its complete steps"
--! window = "counted_steps"
--! needs = ["gpu_mfu"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! [columns]
--! rank = "rank"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! measured_count = { doc = "steps, or the whole recording, whose utilization is known and that counts (step_time.is_counted)", unit = "count", metric = "rank" }
--! mean_step_ns = { doc = "mean duration of those", unit = "ns", metric = "rank" }
--! model_tflops_per_s = { doc = "operations of the model over time, of those, 10^12 per second", metric = "rank" }
--! mfu_ratio = { doc = "that over the data sheet's peak for the type that most operations have: model FLOPs utilization", unit = "ratio", metric = "rank" }
--! hfu_ratio = { doc = "the same with what activation checkpointing computes again: hardware FLOPs utilization", unit = "ratio", metric = "rank" }
--! recomputed_ratio = { doc = "recomputed operations over all operations; 0 if the trace shows nothing of the kind, as inside compiled graphs", unit = "ratio", metric = "rank" }
--! dtype = "type of most operations"
--! peak_tflops = { doc = "data sheet for that type, 10^12 operations a second", metric = "rank" }
--! matmul_modeled_ratio = { doc = "lowest of the steps: part of the kernel time of matmuls, convolutions and attention whose operations are known", unit = "ratio", metric = "rank" }
--! reason = "reason why there is no utilization"
WITH known AS (
    SELECT
        rank, count(*) AS measured_count, avg(step_ns) AS mean_step_ns, sum(model_flops) AS model_flops, sum(flops) AS flops,
        sum(step_ns) AS step_ns, sum(peak_tflops * step_ns) AS peak, max(dtype) AS dtype, max(peak_tflops) AS peak_tflops
    FROM gpu_mfu
    WHERE mfu_ratio IS NOT NULL AND is_counted
    GROUP BY rank
),
every AS (
    SELECT
        rank, sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        min(matmul_modeled_ratio) AS matmul_modeled_ratio, min(reason) AS reason
    FROM gpu_mfu
    GROUP BY rank
)
SELECT
    e.rank, e.step_count, coalesce(k.measured_count, 0) AS measured_count, CAST(k.mean_step_ns AS BIGINT) AS mean_step_ns,
    k.model_flops / nullif(k.step_ns, 0) / 1000 AS model_tflops_per_s,
    k.model_flops / nullif(k.peak, 0) / 1000 AS mfu_ratio,
    k.flops / nullif(k.peak, 0) / 1000 AS hfu_ratio,
    (k.flops - k.model_flops) / nullif(k.flops, 0) AS recomputed_ratio,
    k.dtype, k.peak_tflops, e.matmul_modeled_ratio,
    CASE WHEN k.rank IS NULL THEN e.reason END AS reason
FROM every e
LEFT JOIN known k ON k.rank = e.rank
