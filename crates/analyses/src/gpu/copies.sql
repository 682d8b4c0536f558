--! question = "Which copies and fills take the most time, and what bandwidth do they reach?"
--! row = "one kind of copy or fill on one rank"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["device_activities"]
--! order = ["rank", "name"]
--! when_empty = "the trace holds no copies or fills"
--! [columns]
--! rank = "rank"
--! name = "name as the profiler gives it: direction and kinds of memory"
--! category = "memcpy or memset"
--! call_count = { doc = "executions", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! mean_ns = { doc = "mean duration", unit = "ns" }
--! min_ns = { doc = "shortest", unit = "ns" }
--! max_ns = { doc = "longest", unit = "ns" }
--! std_ns = { doc = "standard deviation (sample); absent for a single execution", unit = "ns" }
--! bytes = { doc = "bytes copied or filled", unit = "bytes" }
--! bandwidth_gb_per_s = { doc = "bytes over time", unit = "gb_per_s" }
SELECT
    rank, name, category,
    count(*) AS call_count,
    sum(dur_ns) AS sum_ns,
    avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    stddev_samp(CAST(dur_ns AS DOUBLE)) AS std_ns,
    sum(bytes) AS bytes,
    ratio!(sum(bytes), sum(CASE WHEN bytes IS NOT NULL THEN dur_ns END)) AS bandwidth_gb_per_s
FROM device_activities
WHERE category <> 'kernel'
GROUP BY rank, name, category
