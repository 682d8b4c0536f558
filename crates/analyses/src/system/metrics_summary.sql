--! question = "What are mean, minimum and maximum of each machine metric?"
--! row = "one metric of a machine or of a part of it, over the recording"
--! window = "samples"
--! needs = ["system_metrics"]
--! order = ["rank", "agent", "metric", "device"]
--! requires = ["machine_metrics"]
--! when_empty = "no system metrics were recorded: Composer's SystemProfiler does (sys_prof_cpu, sys_prof_memory, sys_prof_disk, sys_prof_net), and Determined's profiling"
--! [columns]
--! rank = "rank that sampled it, or whose agent did"
--! agent = "machine, as Determined calls it"
--! metric = "name of the metric"
--! device = "disk, file system, network interface, or GPU by UUID"
--! unit = "unit of the values"
--! sample_count = { doc = "samples that count: not flawed, and with a value", unit = "count", metric = "agent" }
--! flawed_count = { doc = "samples left out, see system_metrics.is_flawed", unit = "count", metric = "agent" }
--! mean_value = { doc = "mean; of a cumulative metric all that it grew by, a second", unit = "number", metric = "agent" }
--! min_value = { doc = "smallest", unit = "number", metric = "agent" }
--! p50_value = { doc = "median", unit = "number", metric = "agent" }
--! p95_value = { doc = "95 % are smaller", unit = "number", metric = "agent" }
--! max_value = { doc = "largest", unit = "number", metric = "agent" }
--! raw_mean_value = { doc = "mean of all samples as recorded, the flawed ones too; of a cumulative metric that of the counts", unit = "number", metric = "agent" }
--! total = { doc = "growth of a cumulative metric over the recording, in the unit it is recorded in: bytes, count, ms", unit = "number", metric = "agent" }
--! span_ns = { doc = "from the first sample to the last", unit = "ns", metric = "agent" }
WITH sums AS (
    SELECT
        rank, agent, metric, device, min(unit) AS unit, bool_or(is_cumulative) AS is_cumulative,
        sum(CASE WHEN is_flawed OR value IS NULL THEN 0 ELSE 1 END) AS sample_count,
        count_if!(is_flawed) AS flawed_count,
        avg(CASE WHEN NOT is_flawed THEN value END) AS mean_value,
        min(CASE WHEN NOT is_flawed THEN value END) AS min_value,
        median(CASE WHEN NOT is_flawed THEN value END) AS p50_value,
        percentile_cont(CASE WHEN NOT is_flawed THEN value END, 0.95) AS p95_value,
        max(CASE WHEN NOT is_flawed THEN value END) AS max_value,
        avg(recorded_value) AS raw_mean_value,
        sum(delta) AS total,
        max(ts_ns) - min(ts_ns) AS span_ns
    FROM system_metrics
    GROUP BY rank, agent, metric, device
)
SELECT
    rank, agent, metric, device, unit, sample_count, flawed_count,
    CASE WHEN is_cumulative THEN total * 1e9 / nullif(span_ns, 0) ELSE mean_value END AS mean_value,
    min_value, p50_value, p95_value, max_value, raw_mean_value, total, span_ns
FROM sums
