--! question = "Which kernels are the longest of each kind, with the rest as one row (as in HTA)?"
--! row = "one of the longest kernels of its kind on one rank, or the sum of all others"
--! window = "before_last_step"
--! needs = ["device_activities"]
--! order = ["rank", "kind", "place"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! num_kernels = { default = 10, doc = "if a kind has more names than this, the others are put together" }
--! duration_ratio = { default = 0.8, doc = "and no more names are listed than it takes to reach this share of the time of their kind" }
--! [columns]
--! rank = "rank"
--! kind = "computation, communication or memory"
--! place = "from 1, by time of all executions; the others come last"
--! name = "name of the kernel, copy or fill; absent for the others"
--! name_count = { doc = "names in this row", unit = "count" }
--! call_count = { doc = "executions", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! mean_ns = { doc = "mean duration of an execution", unit = "ns" }
--! min_ns = { doc = "shortest execution", unit = "ns" }
--! max_ns = { doc = "longest execution", unit = "ns" }
--! std_ns = { doc = "standard deviation over executions (sample); absent for a single one", unit = "ns" }
--! ratio = { doc = "share of the time of that kind on the rank", unit = "ratio" }
WITH names AS (
    SELECT rank, kind, name, sum(dur_ns) AS sum_ns
    FROM device_activities
    GROUP BY rank, kind, name
),
places AS (
    SELECT
        rank, kind, name, sum_ns,
        row_number() OVER by_time AS place,
        sum(sum_ns) OVER by_time - sum_ns AS longer_ns,
        count(*) OVER (PARTITION BY rank, kind) AS names,
        sum(sum_ns) OVER (PARTITION BY rank, kind) AS kind_ns
    FROM names
    WINDOW by_time AS running!(PARTITION BY rank, kind ORDER BY sum_ns DESC, name)
),
-- Place and name of the row that a name is counted in.
listed AS (
    SELECT
        rank, kind, name, kind_ns,
        names <= $num_kernels OR (place <= $num_kernels AND longer_ns < $duration_ratio * kind_ns) AS is_listed,
        place
    FROM places
)
SELECT
    a.rank, a.kind,
    min(l.place) AS place,
    CASE WHEN l.is_listed THEN min(a.name) END AS name,
    count(DISTINCT a.name) AS name_count,
    count(*) AS call_count,
    sum(a.dur_ns) AS sum_ns,
    avg(CAST(a.dur_ns AS DOUBLE)) AS mean_ns,
    min(a.dur_ns) AS min_ns,
    max(a.dur_ns) AS max_ns,
    stddev_samp(CAST(a.dur_ns AS DOUBLE)) AS std_ns,
    ratio!(sum(a.dur_ns), max(l.kind_ns)) AS ratio
FROM device_activities a
JOIN listed l ON l.rank = a.rank AND l.kind = a.kind AND l.name = a.name
GROUP BY a.rank, a.kind, l.is_listed, CASE WHEN l.is_listed THEN l.place END
