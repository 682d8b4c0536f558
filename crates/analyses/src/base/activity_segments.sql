--! row = "a stretch of one rank's time in which the same device activities run"
--! needs = ["device_activities"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
--! computation_count = { doc = "computing kernels that run", unit = "count" }
--! communication_count = { doc = "communicating kernels that run", unit = "count" }
--! memory_count = { doc = "copies and fills that run", unit = "count" }
-- Every activity is +1 where it starts and -1 where it ends; running sums say what is going on.
WITH points AS (
    SELECT rank, ts_ns, kind, 1 AS delta FROM device_activities
    UNION ALL
    SELECT rank, end_ns, kind, -1 FROM device_activities
),
running AS (
    SELECT
        rank,
        ts_ns,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        sum_if!(delta, kind = 'computation') OVER w AS computation_count,
        sum_if!(delta, kind = 'communication') OVER w AS communication_count,
        sum_if!(delta, kind = 'memory') OVER w AS memory_count
    FROM points
    WINDOW w AS running!(PARTITION BY rank ORDER BY ts_ns)
)
SELECT rank, ts_ns, dur_ns, computation_count, communication_count, memory_count
FROM running
WHERE dur_ns > 0
