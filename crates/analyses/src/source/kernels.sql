--! question = "Which source lines launch the kernels that take the most time?"
--! row = "one kernel, copy or fill by name, launched from one line of the program, on one rank"
--! window = "recording"
--! sort = ["sum_ns"]
--! needs = ["work_origins"]
--! order = ["rank", "name", "source"]
--! requires = ["device_activity", "python_stacks"]
--! when_empty = "the trace holds no device activity, or does not say which line of the program launched it: record call stacks (with_stack=True)"
--! [columns]
--! rank = "rank"
--! name = "name of the kernel, copy or fill"
--! source = "line of the program that launched it: train.py:112; see cpu_ops"
--! call_count = { doc = "executions", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! name_ratio = { doc = "share of the time of all executions of that name on the rank", unit = "ratio" }
-- Covers the whole recording. Shares include events without a line.
WITH sums AS (
    SELECT
        rank, name, source, count(*) AS call_count, sum(dur_ns) AS sum_ns,
        sum(sum(dur_ns)) OVER (PARTITION BY rank, name) AS name_ns
    FROM work_origins
    GROUP BY rank, name, source
)
SELECT
    rank, name, source, call_count, sum_ns,
    ratio!(sum_ns, name_ns) AS name_ratio
FROM sums
WHERE source IS NOT NULL
