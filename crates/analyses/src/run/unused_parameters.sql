--! question = "How much time does DDP spend searching for unused parameters?"
--! row = "one rank: searches of DistributedDataParallel for unused parameters"
--! window = "counted_steps"
--! needs = ["ranks", "cpu_ops", "annotations", "step_extents"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! steps_ns = { doc = "time of complete steps, with the device work that they launched; of the recording where there are none", unit = "ns", metric = "rank" }
--! unused_count = { doc = "searches of DistributedDataParallel for parameters without a gradient (find_unused_parameters=True)", unit = "count", metric = "rank" }
--! unused_ns = { doc = "their time", unit = "ns", metric = "rank" }
--! unused_ratio = { doc = "share of steps_ns", unit = "ratio", metric = "rank" }
WITH searches AS (
    SELECT s.rank, count(*) AS unused_count, sum(s.dur_ns) AS unused_ns
    FROM (
        SELECT rank, name, ts_ns, dur_ns FROM cpu_ops
        UNION ALL
        SELECT rank, name, ts_ns, dur_ns FROM annotations WHERE NOT on_device
    ) s
    JOIN step_extents e ON e.rank = s.rank
    WHERE s.name LIKE '%reducer::search\_unused\_parameters%' AND s.ts_ns >= e.start_ns AND s.ts_ns < e.end_ns
    GROUP BY s.rank
),
ranks_with_operators AS (
    SELECT DISTINCT rank FROM cpu_ops
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    e.steps_ns,
    coalesce(s.unused_count, 0) AS unused_count,
    coalesce(s.unused_ns, 0) AS unused_ns,
    ratio!(coalesce(s.unused_ns, 0), e.steps_ns) AS unused_ratio
FROM ranks r
LEFT JOIN step_extents e ON e.rank = r.rank
LEFT JOIN searches s ON s.rank = r.rank
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
WHERE r.vendor IS NOT NULL
