--! question = "How much time goes to cudaMalloc and cudaFree after the first step?"
--! row = "one rank: time that steps after the first spend on allocating driver memory and freeing it"
--! window = "later_steps"
--! needs = ["memory_driver_calls", "steps", "runtime_calls", "gpu_idle_causes"]
--! order = ["rank"]
--! requires = ["runtime_calls"]
--! when_empty = "the trace holds no calls into the device runtime, or fewer than two steps"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps after the first of the recording: the first may still fill the caching allocator", unit = "count", metric = "rank" }
--! steps_ns = { doc = "their time on the host", unit = "ns", metric = "rank" }
--! driver_call_count = { doc = "calls in them that take memory from the driver or give it back", unit = "count", metric = "rank" }
--! driver_ns = { doc = "time of these calls on the host", unit = "ns", metric = "rank" }
--! driver_ratio = { doc = "that time over the time of these steps", unit = "ratio", metric = "rank" }
--! idle_ratio = { doc = "share of the analyzed window in which a device is idle under such a call of the thread that launches, see gpu_idle_causes: the device with most; absent without a device", unit = "ratio", metric = "rank" }
--! top_name = "function that takes most of it"
WITH firsts AS (
    SELECT rank, min(ts_ns) AS first_ns FROM steps WHERE source <> 'trace' GROUP BY rank
),
later AS (
    SELECT s.rank, count(*) AS step_count, sum(s.dur_ns) AS steps_ns
    FROM steps s
    JOIN firsts f ON f.rank = s.rank
    WHERE s.ts_ns > f.first_ns
    GROUP BY s.rank
),
idle AS (
    SELECT rank, max(allocation_ratio) AS idle_ratio FROM gpu_idle_causes GROUP BY rank
),
called AS (
    SELECT DISTINCT rank FROM runtime_calls
),
calls AS (
    SELECT
        rank,
        sum(later_call_count) AS driver_call_count,
        sum(later_host_ns) AS driver_ns,
        first_value(name ORDER BY later_host_ns DESC, name) AS top_name
    FROM memory_driver_calls
    WHERE later_call_count > 0
    GROUP BY rank
)
SELECT
    l.rank, l.step_count, l.steps_ns,
    coalesce(c.driver_call_count, 0) AS driver_call_count,
    coalesce(c.driver_ns, 0) AS driver_ns,
    ratio!(coalesce(c.driver_ns, 0), l.steps_ns) AS driver_ratio,
    i.idle_ratio,
    c.top_name
FROM later l
JOIN called r ON r.rank = l.rank
LEFT JOIN calls c ON c.rank = l.rank
LEFT JOIN idle i ON i.rank = l.rank
