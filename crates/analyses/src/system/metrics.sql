--! question = "Which values of CPU, memory, disk and network were sampled, and when?"
--! row = "one sample of one metric of a machine or of a part of it"
--! window = "samples"
--! needs = ["counters"]
--! order = ["rank", "agent", "metric", "device", "ts_ns"]
--! requires = ["machine_metrics"]
--! when_empty = "no system metrics were recorded: Composer's SystemProfiler does (sys_prof_cpu, sys_prof_memory, sys_prof_disk, sys_prof_net), and Determined's profiling"
--! [columns]
--! rank = "rank that sampled it, or whose agent did"
--! agent = "machine, as Determined calls it"
--! metric = "name of the metric: cpu_util, host_memory_used, gpu_util, disk_read; see counters"
--! device = "disk, file system, network interface, or GPU by UUID; absent for what is one on the machine"
--! ts_ns = { doc = "when; a rate is over the time since the sample before", unit = "ns" }
--! value = { doc = "value, in unit; of a cumulative metric the rate since the sample before, absent in the first one and where the count went down (a restart, an overflow)", unit = "number" }
--! unit = "unit of the value: percent, bytes, bytes/s, operations/s, samples/s, ms, ms/s, count"
--! recorded_value = { doc = "as recorded: of a cumulative metric the count", unit = "number" }
--! delta = { doc = "growth of a cumulative metric since the previous sample", unit = "number" }
--! is_cumulative = "recorded as a count since the machine started"
--! batch = "batch in training at that moment, where the sampler says so"
--! is_flawed = "not a measurement of the job: the first sample of CPU utilization (psutil has nothing to compare with, and reports 0; Determined from 0.30 on averages that into its first report), and the last report of Determined from 0.30 on if it comes more than 5 % early (its samples were taken back to back as profiling was switched off)"
WITH samples AS (
    SELECT
        rank, CAST(agent AS VARCHAR) AS agent, CAST(metric AS VARCHAR) AS metric, CAST(device AS VARCHAR) AS device,
        ts_ns, value AS recorded_value, CAST(unit AS VARCHAR) AS unit, is_cumulative, batch,
        ts_ns - lag(ts_ns) OVER w AS since_ns,
        value - lag(value) OVER w AS change,
        row_number() OVER w AS ordinal,
        count(*) OVER (PARTITION BY rank, agent, metric, device, name, series) AS sample_count
    FROM counters
    WHERE metric IS NOT NULL AND value IS NOT NULL
    WINDOW w AS (PARTITION BY rank, agent, metric, device, name, series ORDER BY ts_ns)
),
usual AS (
    SELECT rank, agent, metric, device, median(since_ns) AS since_ns
    FROM samples
    WHERE ordinal < sample_count
    GROUP BY rank, agent, metric, device
)
SELECT
    s.rank, s.agent, s.metric, s.device, s.ts_ns,
    CASE
        WHEN NOT s.is_cumulative THEN s.recorded_value
        WHEN s.change >= 0 THEN s.change * 1e9 / nullif(s.since_ns, 0)
    END AS value,
    CASE
        WHEN NOT s.is_cumulative THEN s.unit
        WHEN s.unit = 'count' THEN 'operations/s'
        ELSE concat(s.unit, '/s')
    END AS unit,
    s.recorded_value,
    CASE WHEN s.is_cumulative AND s.change >= 0 THEN s.change END AS delta,
    s.is_cumulative, s.batch,
    (s.metric = 'cpu_util' AND s.ordinal = 1 AND (s.recorded_value = 0 OR (s.agent IS NOT NULL AND s.batch IS NULL)))
        OR coalesce(
            s.agent IS NOT NULL AND s.batch IS NULL AND s.ordinal = s.sample_count AND s.sample_count > 2
                AND s.since_ns < 0.95 * u.since_ns,
            false
        ) AS is_flawed
FROM samples s
LEFT JOIN usual u
    ON u.rank = s.rank AND u.metric = s.metric
    AND (u.agent IS NOT DISTINCT FROM s.agent) AND (u.device IS NOT DISTINCT FROM s.device)
