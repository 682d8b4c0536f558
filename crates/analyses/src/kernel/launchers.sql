--! question = "Which operators launch the kernels that take the most time?"
--! row = "one kernel, copy or fill by name, as launched by one operator on one rank"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["device_activities"]
--! order = ["rank", "name", "op_name"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! kind = "computation, communication or memory"
--! name = "name of the kernel, copy or fill"
--! op_name = "operator that launched it: the innermost one around the launch; absent where the trace does not say"
--! call_count = { doc = "executions", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! mean_ns = { doc = "mean duration", unit = "ns" }
--! ratio = { doc = "share of the time of all executions of that name on the rank", unit = "ratio" }
WITH pairs AS (
    SELECT
        rank, kind, name, op_name,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns
    FROM device_activities
    GROUP BY rank, kind, name, op_name
)
SELECT
    rank, kind, name, op_name, call_count, sum_ns, mean_ns,
    ratio!(sum_ns, sum(sum_ns) OVER (PARTITION BY rank, kind, name)) AS ratio
FROM pairs
