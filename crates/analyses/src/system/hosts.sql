--! question = "Are CPU or memory of a machine exhausted?"
--! row = "one machine: CPU and memory utilization, and how busy it is compared with the other machines"
--! window = "samples"
--! scope = "run"
--! needs = ["system_metrics", "system_metrics_by_agent"]
--! order = ["rank", "agent"]
--! requires = ["machine_metrics"]
--! when_empty = "no system metrics were recorded: Composer's SystemProfiler does (sys_prof_cpu, sys_prof_memory), and Determined's profiling"
--! [columns]
--! rank = "rank that sampled it, or whose agent did"
--! agent = "machine, as Determined calls it"
--! device = "always absent: all of the machine"
--! cpu_sample_count = { doc = "samples of CPU utilization", unit = "count", metric = "agent" }
--! cpu_util_ratio = { doc = "mean utilization of all cores", unit = "ratio", metric = "agent" }
--! cpu_saturated_ratio = { doc = "share of the samples at 90 % or more", unit = "ratio", metric = "agent" }
--! memory_sample_count = { doc = "samples of host memory", unit = "count", metric = "agent" }
--! memory_span_ns = { doc = "from the first to the last of them", unit = "ns", metric = "agent" }
--! memory_used_bytes = { doc = "used at the end, where that is recorded (Composer)", unit = "bytes", metric = "agent" }
--! memory_free_bytes = { doc = "available at the end", unit = "bytes", metric = "agent" }
--! memory_least_free_bytes = { doc = "least that was available", unit = "bytes", metric = "agent" }
--! memory_growth_bytes = { doc = "decrease of available memory from the first fifth of the samples to the last (medians); negative for an increase", unit = "bytes", metric = "agent" }
--! memory_growth_ratio = { doc = "that growth over what was available in the first fifth", unit = "ratio", metric = "agent" }
--! memory_slope_bytes = { doc = "growth per second: slope of the line through the samples (least squares)", unit = "bytes", metric = "agent" }
--! memory_rise_ratio = { doc = "share of five stretches of the recording in which more memory is taken than in the one before (medians): 1 if it grows all the time", unit = "ratio", metric = "agent" }
--! memory_full_ns = { doc = "time until nothing is available at that slope; absent if it does not grow", unit = "ns", metric = "agent" }
--! machine_count = { doc = "machines of which the same was recorded", unit = "count", metric = "agent" }
--! busy_metric = "gpu_util if it was recorded, else cpu_util: what machines are compared by"
--! busy_ratio = { doc = "its mean on this machine, over all its GPUs", unit = "ratio", metric = "agent" }
--! highest_busy_ratio = { doc = "the same on the busiest machine", unit = "ratio", metric = "agent" }
--! below_busiest_ratio = { doc = "shortfall of busy_ratio from the busiest machine, relative to that one; absent with one machine", unit = "ratio", metric = "agent" }
WITH ranks_with_host AS (
    SELECT rank, agent FROM system_metrics GROUP BY rank, agent
),
busy AS (
    SELECT
        rank, agent, metric, mean_value, agent_count, highest_value, below_highest_ratio,
        row_number() OVER (PARTITION BY rank, agent ORDER BY metric DESC) AS choice
    FROM system_metrics_by_agent
    WHERE metric IN ('cpu_util', 'gpu_util')
),
cpu AS (
    SELECT
        rank, agent, count(*) AS cpu_sample_count,
        avg(value) / 100 AS cpu_util_ratio,
        CAST(count_if!(value >= 90) AS DOUBLE) / count(*) AS cpu_saturated_ratio
    FROM system_metrics
    WHERE metric = 'cpu_util' AND NOT is_flawed AND value IS NOT NULL
    GROUP BY rank, agent
),
used AS (
    SELECT rank, agent, last_value(value ORDER BY ts_ns) AS used
    FROM system_metrics
    WHERE metric = 'host_memory_used'
    GROUP BY rank, agent
),
free AS (
    SELECT
        rank, agent, ts_ns, value,
        ntile(5) OVER (PARTITION BY rank, agent ORDER BY ts_ns) AS part
    FROM system_metrics
    WHERE metric = 'host_memory_free' AND value IS NOT NULL AND NOT is_flawed
),
parts AS (
    SELECT rank, agent, part, median(value) AS value FROM free GROUP BY rank, agent, part
),
falls AS (
    SELECT rank, agent, part, value, lag(value) OVER (PARTITION BY rank, agent ORDER BY part) - value AS taken
    FROM parts
),
growth AS (
    SELECT
        rank, agent,
        first_value(value ORDER BY part) AS first_free,
        first_value(value ORDER BY part) - last_value(value ORDER BY part) AS growth,
        ratio!(count_if!(taken > 0), count(taken)) AS rise_ratio
    FROM falls
    GROUP BY rank, agent
),
lines AS (
    SELECT
        rank, agent, count(*) AS memory_sample_count,
        max(ts_ns) - min(ts_ns) AS memory_span_ns,
        last_value(value ORDER BY ts_ns) AS free,
        min(value) AS least_free,
        -regr_slope(value, CAST(ts_ns AS DOUBLE) / 1e9) AS slope
    FROM free
    GROUP BY rank, agent
)
SELECT
    h.rank, h.agent, CAST(NULL AS VARCHAR) AS device,
    c.cpu_sample_count, c.cpu_util_ratio, c.cpu_saturated_ratio,
    l.memory_sample_count, l.memory_span_ns,
    TRY_CAST(round(u.used) AS BIGINT) AS memory_used_bytes,
    TRY_CAST(round(l.free) AS BIGINT) AS memory_free_bytes,
    TRY_CAST(round(l.least_free) AS BIGINT) AS memory_least_free_bytes,
    TRY_CAST(round(g.growth) AS BIGINT) AS memory_growth_bytes,
    g.growth / nullif(g.first_free, 0) AS memory_growth_ratio,
    l.slope AS memory_slope_bytes,
    g.rise_ratio AS memory_rise_ratio,
    CASE WHEN l.slope > 0 AND l.free / l.slope < 9e9 THEN TRY_CAST(l.free / l.slope * 1e9 AS BIGINT) END AS memory_full_ns,
    b.agent_count AS machine_count,
    b.metric AS busy_metric,
    b.mean_value / 100 AS busy_ratio,
    b.highest_value / 100 AS highest_busy_ratio,
    b.below_highest_ratio AS below_busiest_ratio
FROM ranks_with_host h
LEFT JOIN cpu c ON c.rank = h.rank AND (c.agent IS NOT DISTINCT FROM h.agent)
LEFT JOIN used u ON u.rank = h.rank AND (u.agent IS NOT DISTINCT FROM h.agent)
LEFT JOIN growth g ON g.rank = h.rank AND (g.agent IS NOT DISTINCT FROM h.agent)
LEFT JOIN lines l ON l.rank = h.rank AND (l.agent IS NOT DISTINCT FROM h.agent)
LEFT JOIN busy b ON b.rank = h.rank AND (b.agent IS NOT DISTINCT FROM h.agent) AND b.choice = 1
