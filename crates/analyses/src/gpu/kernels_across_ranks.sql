--! question = "Which kernels take longer on some ranks than on others?"
--! row = "one kernel, copy or fill by name, over all ranks"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! scope = "run"
--! needs = ["device_activities"]
--! order = ["kind", "name"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! kind = "computation, communication or memory"
--! name = "name of the kernel, copy or fill"
--! rank_count = { doc = "ranks that run it", unit = "count" }
--! missing_count = { doc = "ranks with device work that do not", unit = "count" }
--! call_count = { doc = "executions on all ranks", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! mean_ns = { doc = "mean duration of an execution", unit = "ns" }
--! min_ns = { doc = "shortest execution", unit = "ns" }
--! max_ns = { doc = "longest execution", unit = "ns" }
--! std_ns = { doc = "standard deviation over executions (sample); absent for a single one", unit = "ns" }
--! mean_rank_ns = { doc = "mean time a rank spends in it, over the ranks that run it", unit = "ns" }
--! min_rank_ns = { doc = "least time a rank spends in it", unit = "ns" }
--! max_rank_ns = { doc = "most time a rank spends in it", unit = "ns" }
--! std_rank_ns = { doc = "standard deviation over ranks (sample); absent for a single one", unit = "ns" }
--! fastest_rank = "rank that spends least time in it; the first of them"
--! slowest_rank = "rank that spends most time in it; the first of them"
--! spread_ratio = { doc = "most less least time of a rank, over the mean: 0 where ranks are alike", unit = "ratio" }
-- In collectives it is the rank that waits who spends most time: see comm_stragglers.
WITH ranks_with_work AS (
    SELECT count(DISTINCT rank) AS rank_count FROM device_activities
),
executions AS (
    SELECT
        kind, name,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        stddev_samp(CAST(dur_ns AS DOUBLE)) AS std_ns
    FROM device_activities
    GROUP BY kind, name
),
totals AS (
    SELECT
        kind, name,
        count(*) AS rank_count,
        avg(CAST(rank_ns AS DOUBLE)) AS mean_rank_ns,
        min(rank_ns) AS min_rank_ns,
        max(rank_ns) AS max_rank_ns,
        stddev_samp(CAST(rank_ns AS DOUBLE)) AS std_rank_ns,
        first_value(rank ORDER BY rank_ns, rank) AS fastest_rank,
        first_value(rank ORDER BY rank_ns DESC, rank) AS slowest_rank
    FROM (SELECT rank, kind, name, sum(dur_ns) AS rank_ns FROM device_activities GROUP BY rank, kind, name)
    GROUP BY kind, name
)
SELECT
    e.kind, e.name, t.rank_count, r.rank_count - t.rank_count AS missing_count,
    e.call_count, e.sum_ns, e.mean_ns, e.min_ns, e.max_ns, e.std_ns,
    t.mean_rank_ns, t.min_rank_ns, t.max_rank_ns, t.std_rank_ns, t.fastest_rank, t.slowest_rank,
    (t.max_rank_ns - t.min_rank_ns) / nullif(t.mean_rank_ns, 0) AS spread_ratio
FROM executions e
JOIN totals t ON t.kind = e.kind AND t.name = e.name
CROSS JOIN ranks_with_work r
