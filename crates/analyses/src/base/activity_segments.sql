--! question = "Which kinds of GPU work run at each moment of a rank?"
--! row = "one interval of one rank in which the same device activities run"
--! window = "before_last_step"
--! needs = ["device_activities"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
--! computation_count = { doc = "computing kernels that run", unit = "count" }
--! communication_count = { doc = "communicating kernels that run", unit = "count" }
--! memory_count = { doc = "copies and fills that run", unit = "count" }
WITH intervals AS (
    SELECT
        rank, ts_ns, end_ns,
        CASE WHEN kind = 'computation' THEN 1 ELSE 0 END AS computation_count,
        CASE WHEN kind = 'communication' THEN 1 ELSE 0 END AS communication_count,
        CASE WHEN kind = 'memory' THEN 1 ELSE 0 END AS memory_count
    FROM device_activities
),
segments AS (
    overlap_counts!(intervals, (rank), (computation_count, communication_count, memory_count))
)
SELECT rank, ts_ns, dur_ns, computation_count, communication_count, memory_count
FROM segments
WHERE dur_ns > 0
