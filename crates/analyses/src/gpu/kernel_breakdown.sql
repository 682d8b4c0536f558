--! question = "How much GPU time goes to computation, communication, memory and their overlaps?"
--! row = "one combination of kinds of device activity, over all ranks"
--! window = "activity_span"
--! sort = ["sum_ns"]
--! scope = "run"
--! needs = ["activity_segments"]
--! order = ["kernel_type"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! kernel_type = "computation, communication, memory, or those that overlap: 'computation overlapping memory'"
--! sum_ns = { doc = "time in which exactly these run, added up over ranks", unit = "ns" }
--! ratio = { doc = "share of the time in which anything runs", unit = "ratio" }
WITH kinds AS (
    SELECT
        computation_count > 0 AS computation,
        communication_count > 0 AS communication,
        memory_count > 0 AS memory,
        sum(dur_ns) AS sum_ns
    FROM activity_segments
    WHERE computation_count + communication_count + memory_count > 0
    GROUP BY computation_count > 0, communication_count > 0, memory_count > 0
)
SELECT
    concat_ws(
        ' overlapping ',
        CASE WHEN computation THEN 'computation' END,
        CASE WHEN communication THEN 'communication' END,
        CASE WHEN memory THEN 'memory' END
    ) AS kernel_type,
    sum_ns,
    CAST(sum_ns AS DOUBLE) / sum(sum_ns) OVER () AS ratio
FROM kinds
