--! question = "Which machine metric follows the length of steps?"
--! row = "one metric of a machine: its correlation with the length of steps"
--! window = "counted_steps"
--! sort = ["pearson"]
--! needs = ["system_metrics_by_step"]
--! order = ["rank", "metric", "agent", "device"]
--! requires = ["machine_metrics", "steps"]
--! when_empty = "no system metrics were recorded (Composer's SystemProfiler, Determined's profiling), or no step, or not at the same time"
--! [columns]
--! rank = "rank"
--! agent = "machine, as Determined calls it"
--! metric = "name of the metric"
--! device = "disk, file system, network interface, or GPU by UUID"
--! step_count = { doc = "steps that samples cover", unit = "count" }
--! pearson = { doc = "linear correlation of the metric's mean during a step with the length of the step, -1 to 1; absent with fewer than 8 steps or where either never varies", unit = "number" }
--! spearman = { doc = "the same of their places in order (equal ones share a place): outliers count no more than others", unit = "number" }
-- Samples are coarse, steps next to each other share them, and neither causes the other for being correlated.
WITH places AS (
    SELECT
        *,
        rank() OVER (PARTITION BY rank, agent, metric, device ORDER BY mean_value)
            + (count(*) OVER (PARTITION BY rank, agent, metric, device, mean_value) - 1) / 2.0 AS value_place,
        rank() OVER (PARTITION BY rank, agent, metric, device ORDER BY step_ns)
            + (count(*) OVER (PARTITION BY rank, agent, metric, device, step_ns) - 1) / 2.0 AS step_place
    FROM system_metrics_by_step
),
sums AS (
    SELECT
        rank, agent, metric, device,
        count(*) AS step_count,
        max(mean_value) > min(mean_value) AND max(step_ns) > min(step_ns) AS varies,
        corr(mean_value, CAST(step_ns AS DOUBLE)) AS pearson,
        corr(value_place, step_place) AS spearman
    FROM places
    GROUP BY rank, agent, metric, device
)
SELECT
    rank, agent, metric, device, step_count,
    CASE WHEN varies AND step_count >= 8 THEN pearson END AS pearson,
    CASE WHEN varies AND step_count >= 8 THEN spearman END AS spearman
FROM sums
