--! row = "one kernel name on one rank"
--! needs = ["device_activities"]
--! order = ["rank", "name"]
--! when_empty = "the trace holds no kernels"
--! [columns]
--! rank = "rank"
--! name = "kernel name"
--! kind = "computation or communication"
--! call_count = { doc = "executions", unit = "count", metric = "kernel" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns", metric = "kernel" }
--! mean_ns = { doc = "mean duration", unit = "ns", metric = "kernel" }
--! min_ns = { doc = "shortest", unit = "ns", metric = "kernel" }
--! max_ns = { doc = "longest", unit = "ns", metric = "kernel" }
--! std_ns = { doc = "standard deviation (sample); absent for a single execution", unit = "ns", metric = "kernel" }
--! ratio = { doc = "share of the rank's kernel time", unit = "ratio", metric = "kernel" }
--! mean_blocks_per_sm = { doc = "blocks over SMs, weighted by duration, over executions that have it", unit = "number", metric = "kernel" }
--! mean_occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over executions that have it", unit = "ratio", metric = "kernel" }
WITH sums AS (
    SELECT
        rank, name, kind,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        stddev_samp(CAST(dur_ns AS DOUBLE)) AS std_ns,
        sum(blocks_per_sm * dur_ns) / nullif(sum(CASE WHEN blocks_per_sm IS NOT NULL THEN dur_ns END), 0) AS mean_blocks_per_sm,
        sum(occupancy_ratio * dur_ns) / nullif(sum(CASE WHEN occupancy_ratio IS NOT NULL THEN dur_ns END), 0) AS mean_occupancy_ratio
    FROM device_activities
    WHERE category = 'kernel'
    GROUP BY rank, name, kind
)
SELECT
    rank, name, kind, call_count, sum_ns, mean_ns, min_ns, max_ns, std_ns,
    CAST(sum_ns AS DOUBLE) / nullif(sum(sum_ns) OVER (PARTITION BY rank), 0) AS ratio,
    mean_blocks_per_sm, mean_occupancy_ratio
FROM sums
