--! question = "How much time does profiling itself take?"
--! row = "one rank: overhead of recording the trace, as far as the profiler reports it"
--! window = "counted_steps"
--! needs = ["spans", "python_frames", "cpu_ops", "runtime_calls", "ranks", "device_steps"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! overhead_count = { doc = "events of the category overhead: buffers requested and flushed, instrumentation, and those that overhead_ns leaves out", unit = "count", metric = "rank" }
--! overhead_ns = { doc = "any of them goes on, within the steps, except for loading code, which counts as work of the program (see run_warmup), and a full queue, which waits for the device", unit = "ns", metric = "rank" }
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "rank" }
--! overhead_ratio = { doc = "share of that time; absent if the profiler wrote no such event", unit = "ratio", metric = "rank" }
--! top_name = "the kind that takes most time"
--! host_event_count = { doc = "operators, calls of the runtime and Python frames recorded", unit = "count", metric = "rank" }
--! frame_count = { doc = "of these, Python frames (with_stack=True)", unit = "count", metric = "rank" }
--! frame_per_step_count = { doc = "Python frames a step; of the whole recording where there are no steps", unit = "count", metric = "rank" }
--! detail_per_ms_count = { doc = "within the steps, a millisecond: calls and returns of Python frames, and operators if their shapes are recorded", unit = "count", metric = "rank" }
--! has_stacks = "Python frames or call stacks are present (with_stack=True)"
--! has_shapes = "operators carry input shapes (record_shapes=True)"
--! has_memory = "allocator events are present (profile_memory=True)"
WITH windows AS (
    SELECT
        rank, min(ts_ns) AS start_ns, max(end_ns) AS end_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
    FROM device_steps
    GROUP BY rank
),
overheads AS (
    SELECT s.rank, s.name, greatest(s.ts_ns, w.start_ns) AS ts_ns, least(s.ts_ns + s.dur_ns, w.end_ns) AS end_ns
    FROM spans s
    JOIN windows w ON w.rank = s.rank
    WHERE lower(CAST(s.category AS VARCHAR)) = 'overhead' AND is_profiler_overhead!(s.name) AND s.ts_ns < w.end_ns AND s.ts_ns + s.dur_ns > w.start_ns
),
merged AS (
    SELECT
        rank, ts_ns, end_ns,
        max_before!(end_ns, PARTITION BY rank ORDER BY ts_ns) AS until_ns
    FROM overheads
),
sums AS (
    SELECT rank, sum(greatest(end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)), 0)) AS overhead_ns FROM merged GROUP BY rank
),
written AS (
    SELECT rank, count(*) AS overhead_count FROM spans WHERE lower(CAST(category AS VARCHAR)) = 'overhead' GROUP BY rank
),
top_names AS (
    SELECT rank, first_value(name ORDER BY dur_ns DESC, name) AS top_name
    FROM (SELECT rank, name, sum(end_ns - ts_ns) AS dur_ns FROM overheads GROUP BY rank, name)
    GROUP BY rank
),
counts AS (
    SELECT rank, sum(n) AS host_event_count, sum_if!(n, is_frame) AS frame_count
    FROM (
        SELECT rank, count(*) AS n, false AS is_frame FROM cpu_ops GROUP BY rank
        UNION ALL
        SELECT rank, count(*), false FROM runtime_calls GROUP BY rank
        UNION ALL
        SELECT rank, count(*), true FROM python_frames GROUP BY rank
    )
    GROUP BY rank
),
details AS (
    SELECT e.rank, sum(e.weight) AS detail_count
    FROM (
        SELECT rank, ts_ns, 2 AS weight FROM python_frames
        UNION ALL
        SELECT c.rank, c.ts_ns, 1
        FROM cpu_ops c
        JOIN ranks r ON r.rank = c.rank
        WHERE r.has_shapes
    ) e
    JOIN windows w ON w.rank = e.rank
    WHERE e.ts_ns >= w.start_ns AND e.ts_ns < w.end_ns
    GROUP BY e.rank
)
SELECT
    r.rank,
    coalesce(o.overhead_count, 0) AS overhead_count,
    coalesce(s.overhead_ns, 0) AS overhead_ns,
    w.end_ns - w.start_ns AS window_ns,
    CASE WHEN o.overhead_count > 0 THEN ratio!(coalesce(s.overhead_ns, 0), w.end_ns - w.start_ns) END AS overhead_ratio,
    t.top_name,
    coalesce(c.host_event_count, 0) AS host_event_count,
    coalesce(c.frame_count, 0) AS frame_count,
    coalesce(c.frame_count, 0) / CAST(greatest(w.step_count, 1) AS DOUBLE) AS frame_per_step_count,
    1e6 * coalesce(d.detail_count, 0) / nullif(w.end_ns - w.start_ns, 0) AS detail_per_ms_count,
    r.has_stacks, r.has_shapes, r.has_memory
FROM ranks r
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN written o ON o.rank = r.rank
LEFT JOIN sums s ON s.rank = r.rank
LEFT JOIN top_names t ON t.rank = r.rank
LEFT JOIN counts c ON c.rank = r.rank
LEFT JOIN details d ON d.rank = r.rank
WHERE r.vendor IS NOT NULL
