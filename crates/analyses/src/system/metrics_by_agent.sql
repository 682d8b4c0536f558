--! question = "Does one machine differ from the others?"
--! row = "one metric of one machine, compared with the other machines of the run"
--! window = "samples"
--! scope = "run"
--! needs = ["system_metrics_summary"]
--! order = ["metric", "rank", "agent"]
--! requires = ["machine_metrics"]
--! when_empty = "no system metrics were recorded: Composer's SystemProfiler does (sys_prof_cpu, sys_prof_memory, sys_prof_disk, sys_prof_net), and Determined's profiling"
--! [columns]
--! rank = "rank whose agent sampled it"
--! agent = "machine, as Determined calls it"
--! metric = "name of the metric"
--! unit = "unit of the values"
--! device_count = { doc = "disks, interfaces or GPUs that were sampled", unit = "count" }
--! mean_value = { doc = "mean over these and over time; of rates the sum over these", unit = "number" }
--! agent_count = { doc = "machines of which this metric was recorded by the same tool", unit = "count" }
--! median_value = { doc = "median over the machines", unit = "number" }
--! highest_value = { doc = "that of the highest machine", unit = "number" }
--! lowest_value = { doc = "that of the lowest machine", unit = "number" }
--! below_highest_ratio = { doc = "shortfall from the highest machine, relative to that one; absent with one machine", unit = "ratio" }
WITH machines AS (
    SELECT
        rank, agent, metric, min(unit) AS unit, count(*) AS device_count,
        CASE WHEN min(unit) LIKE '%/s' THEN sum(mean_value) ELSE avg(mean_value) END AS mean_value
    FROM system_metrics_summary
    WHERE sample_count > 0
    GROUP BY rank, agent, metric
),
compared AS (
    SELECT
        *,
        count(*) OVER w AS agent_count,
        median(mean_value) OVER w AS median_value,
        max(mean_value) OVER w AS highest_value,
        min(mean_value) OVER w AS lowest_value
    FROM machines
    -- Composer's samples name no machine: compare them with the samples of its other ranks.
    WINDOW w AS (PARTITION BY metric, agent IS NULL)
)
SELECT
    rank, agent, metric, unit, device_count, mean_value, agent_count, median_value, highest_value, lowest_value,
    CASE WHEN agent_count > 1 THEN (highest_value - mean_value) / nullif(highest_value, 0) END AS below_highest_ratio
FROM compared
