--! question = "Does the program print tensors?"
--! row = "one rank with operators"
--! window = "recording"
--! needs = ["cpu_ops", "steps"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no operators: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! print_count = { doc = "tensors of floats that are turned into text: to find the width of a column, PyTorch selects the finite values, masked_select(x, isfinite(x) & x.ne(0)), which little else does", unit = "count", metric = "rank" }
--! step_count = { doc = "steps", unit = "count", metric = "rank" }
--! ts_ns = { doc = "start of the first of them", unit = "ns" }
WITH marks AS (
    SELECT rank, thread, name, ts_ns, dur_ns,
        lag(name) OVER (PARTITION BY rank, thread ORDER BY ts_ns, dur_ns DESC) AS previous_name,
        lag(ts_ns) OVER (PARTITION BY rank, thread ORDER BY ts_ns, dur_ns DESC) AS previous_ts_ns
    FROM (
        SELECT rank, thread, CAST(name AS VARCHAR) AS name, ts_ns, dur_ns
        FROM cpu_ops
        WHERE name IN ('aten::isfinite', 'aten::masked_select')
    )
),
prints AS (
    SELECT rank, count(*) AS print_count, min(previous_ts_ns) AS ts_ns
    FROM marks
    WHERE name = 'aten::masked_select' AND previous_name = 'aten::isfinite' AND ts_ns < previous_ts_ns + 10000000
    GROUP BY rank
)
SELECT r.rank, coalesce(p.print_count, 0) AS print_count, coalesce(s.step_count, 0) AS step_count, p.ts_ns
FROM (SELECT DISTINCT rank FROM cpu_ops) r
LEFT JOIN prints p ON p.rank = r.rank
LEFT JOIN (SELECT rank, count(*) AS step_count FROM steps WHERE source <> 'trace' GROUP BY rank) s ON s.rank = r.rank
