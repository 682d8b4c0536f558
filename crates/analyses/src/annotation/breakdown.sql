--! question = "How much time do the ranges marked with record_function take?"
--! row = "one annotation by name on one rank, on the host or on the device"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["annotations", "ranks"]
--! order = ["rank", "on_device", "name"]
--! when_empty = "the trace holds no annotations (torch.profiler.record_function makes them)"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! on_device = "the device's copies: from the first to the last kernel launched inside, once per stream"
--! name = "name of the range: record_function, ProfilerStep#, Optimizer.step, nccl:all_reduce"
--! call_count = { doc = "ranges of that name", unit = "count", metric = "operator" }
--! sum_ns = { doc = "time of all of them, overlap not merged", unit = "ns", metric = "operator" }
--! mean_ns = { doc = "mean duration", unit = "ns", metric = "operator" }
--! min_ns = { doc = "shortest", unit = "ns", metric = "operator" }
--! max_ns = { doc = "longest", unit = "ns", metric = "operator" }
--! std_ns = { doc = "standard deviation (sample); absent for a single range", unit = "ns", metric = "operator" }
--! ratio = { doc = "time of all of them over the time from the first annotation of that side to the end of the last; ranges nest, so that shares add up to more than 1; above 1 where ranges of one name nest or overlap", unit = "ratio", metric = "operator" }
-- As in HTA, the device's copies are cut by their own start, like what happens on the host.
WITH selected AS (
    SELECT a.rank, a.on_device, a.name, a.ts_ns, a.ts_ns + a.dur_ns AS end_ns, a.dur_ns
    FROM annotations a
    JOIN ranks r ON r.rank = a.rank
    WHERE r.cut_ns IS NULL
        OR a.ts_ns < r.cut_ns
        OR ($include_last_step AND a.ts_ns <= r.steps_end_ns)
),
names AS (
    SELECT
        rank, on_device, name,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        stddev_samp(CAST(dur_ns AS DOUBLE)) AS std_ns,
        min(ts_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM selected
    GROUP BY rank, on_device, name
)
SELECT
    rank, on_device, name, call_count, sum_ns, mean_ns, min_ns, max_ns, std_ns,
    ratio!(sum_ns, max(end_ns) OVER side - min(start_ns) OVER side) AS ratio
FROM names
WINDOW side AS (PARTITION BY rank, on_device)
