--! question = "Which kernels take the most time?"
--! row = "one kernel name on one rank"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["device_activities"]
--! order = ["rank", "name"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
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
--! ratio = { doc = "share of the rank's kernel time that is counted", unit = "ratio", metric = "kernel" }
--! mean_blocks_per_sm = { doc = "blocks over SMs (compute units on AMD), weighted by duration, over executions that have it", unit = "number", metric = "kernel" }
--! mean_occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over executions that have it", unit = "ratio", metric = "kernel" }
--! tensor_cores = "by name: yes, no or unknown: whether it multiplies on tensor cores (matrix cores on AMD)"
--! op_name = "operator that launched most of it; absent where the trace does not say"
--! op_count = { doc = "operators by name that launched it", unit = "count", metric = "kernel" }
-- A missing value weighs nothing: an execution of which nothing is known must not pull a mean down.
WITH launchers AS (
    SELECT rank, name, kind, op_name, sum(dur_ns) AS sum_ns
    FROM device_activities
    WHERE category = 'kernel' AND op_name IS NOT NULL
    GROUP BY rank, name, kind, op_name
),
ops AS (
    SELECT
        rank, name, kind,
        first_value(op_name ORDER BY sum_ns DESC, op_name) AS op_name,
        count(*) AS op_count
    FROM launchers
    GROUP BY rank, name, kind
),
sums AS (
    SELECT
        rank, name, kind,
        min(tensor_cores) AS tensor_cores,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        stddev_samp(CAST(dur_ns AS DOUBLE)) AS std_ns,
        weighted_mean!(blocks_per_sm, dur_ns) AS mean_blocks_per_sm,
        weighted_mean!(occupancy_ratio, dur_ns) AS mean_occupancy_ratio
    FROM device_activities
    WHERE category = 'kernel'
    GROUP BY rank, name, kind
)
SELECT
    s.rank, s.name, s.kind, s.call_count, s.sum_ns, s.mean_ns, s.min_ns, s.max_ns, s.std_ns,
    ratio!(s.sum_ns, sum(s.sum_ns) OVER (PARTITION BY s.rank)) AS ratio,
    s.mean_blocks_per_sm, s.mean_occupancy_ratio,
    s.tensor_cores, o.op_name, coalesce(o.op_count, 0) AS op_count
FROM sums s
LEFT JOIN ops o ON o.rank = s.rank AND o.name = s.name AND o.kind = s.kind
