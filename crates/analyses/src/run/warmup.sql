--! question = "How much time goes to compilation and other warm-up?"
--! row = "one rank: compiling, loading code and taking memory from the driver, in the first step and in those after it"
--! window = "complete_steps"
--! needs = ["complete_steps", "cpu_ops", "annotations", "python_frames", "runtime_calls", "spans", "idle_gap_causes", "device_idle_gaps", "device_windows", "ranks", "graph_launches"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators or calls of the device's runtime were recorded (ProfilerActivity.CPU)"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! steps_ns = { doc = "from the start of the first to the end of the last, the device work they launched included", unit = "ns", metric = "rank" }
--! second_step = "number of the second; absent with fewer than 2 steps"
--! first_step_ns = { doc = "length of the first; absent if it does not compare with the others, see step_time.is_anchored, and with fewer than 2 steps", unit = "ns", metric = "rank" }
--! median_step_ns = { doc = "median of the others; absent with fewer than 2 steps", unit = "ns", metric = "rank" }
--! first_step_ratio = { doc = "excess of the first over median_step_ns, divided by median_step_ns; negative if the first is shorter; absent without first_step_ns, and with fewer than 3 steps", unit = "ratio", metric = "rank" }
--! warmup_ns = { doc = "any thread compiles, loads code for the device or takes memory from the driver, or a device is idle under a first launch or while the runtime sets itself up (causes first_launch and startup of idle_gap_causes), within the steps; without taking memory where that recurs, see steady_memory_ns", unit = "ns", metric = "rank" }
--! warmup_ratio = { doc = "share of steps_ns", unit = "ratio", metric = "rank" }
--! warmup_name = "name that takes most of warmup_ns"
--! first_launch_ns = { doc = "a device is idle under a first launch or a call that loads code, within the steps", unit = "ns", metric = "rank" }
--! steady_memory_ns = { doc = "memory is taken from the driver and nothing compiled, in steps after the first, if each of them does so and there are at least two: this recurs and is no warm-up", unit = "ns", metric = "rank" }
--! compile_count = { doc = "ranges and calls that compile or load code, within the steps", unit = "count", metric = "rank" }
--! compile_ns = { doc = "any thread compiles or loads code, within the steps", unit = "ns", metric = "rank" }
--! steady_ns = { doc = "length of the steps after the first", unit = "ns", metric = "rank" }
--! steady_compile_ns = { doc = "any thread compiles or loads code, in steps after the first", unit = "ns", metric = "rank" }
--! steady_compile_ratio = { doc = "share of steady_ns; absent with fewer than 2 steps", unit = "ratio", metric = "rank" }
--! steady_idle_ns = { doc = "the same while no device of the rank runs anything; all of it where the trace has no device activity", unit = "ns", metric = "rank" }
--! steady_idle_ratio = { doc = "share of steady_ns; absent with fewer than 2 steps", unit = "ratio", metric = "rank" }
--! steady_step_count = { doc = "steps after the first in which something is compiled or loaded; absent with fewer than 2 steps", unit = "count", metric = "rank" }
--! steady_name = "name that takes most of steady_compile_ns"
--! region_count = { doc = "calls of regions that torch.compile made, within the recording", unit = "count", metric = "rank" }
--! graph_launch_count = { doc = "launches of a captured graph", unit = "count", metric = "rank" }
WITH steps AS (
    SELECT
        rank, step, ts_ns, end_ns, source,
        -- A first step that is not anchored has device work, of which it is not known when it could begin: its length on
        -- the host does not compare with lengths that reach to the end of the device work.
        CASE WHEN is_anchored THEN dur_ns END AS compared_ns,
        CAST(row_number() OVER (PARTITION BY rank ORDER BY ts_ns) AS BIGINT) AS position
    FROM complete_steps
),
events AS (
    SELECT rank, name, ts_ns, ts_ns + dur_ns AS end_ns, CASE WHEN is_compile THEN 'compile' ELSE 'memory' END AS kind
    FROM (
        SELECT
            rank, name, ts_ns, dur_ns,
            is_compilation!(name) OR is_code_loading!(name) AS is_compile,
            regexp_like(name,
                '^(cudaMalloc|cudaFree|cudaHostAlloc|hipMalloc|hipFree|hipHostMalloc|hipHostFree|hipExtMalloc|cuMem(Create|Release|Map|Unmap|SetAccess|Address|AllocHost|Alloc)|hipMem(Create|Release|Map|Unmap|SetAccess|Address))')
                AND NOT name LIKE '%Async%' AS is_memory
        FROM (
            SELECT rank, name, ts_ns, dur_ns FROM cpu_ops
            UNION ALL
            SELECT rank, name, ts_ns, dur_ns FROM annotations WHERE NOT on_device
            UNION ALL
            SELECT rank, name, ts_ns, dur_ns FROM python_frames
            UNION ALL
            SELECT rank, name, ts_ns, dur_ns FROM runtime_calls
            UNION ALL
            SELECT rank, name, ts_ns, dur_ns FROM spans
        )
    )
    WHERE is_compile OR is_memory
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns, CAST(cause AS VARCHAR) FROM idle_gap_causes WHERE cause IN ('first_launch', 'startup')
),
device_counts AS (
    SELECT rank, count(*) AS device_count FROM device_windows GROUP BY rank
),
-- Intervals of steps (all, and all but the first), of compiling, of allocating driver memory, and of idle devices.
intervals AS (
    SELECT
        rank, ts_ns, end_ns, 1 AS in_step, CASE WHEN position = 1 THEN 0 ELSE 1 END AS later,
        0 AS compiles, 0 AS allocates, 0 AS loads, 0 AS starts, 0 AS idles, position
    FROM steps
    UNION ALL
    SELECT
        rank, ts_ns, end_ns, 0, 0,
        CASE WHEN kind = 'compile' THEN 1 ELSE 0 END, CASE WHEN kind = 'memory' THEN 1 ELSE 0 END,
        CASE WHEN kind = 'first_launch' THEN 1 ELSE 0 END, CASE WHEN kind = 'startup' THEN 1 ELSE 0 END, 0, 0
    FROM events
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, 0, 0, 0, 0, 0, 1, 0 FROM device_idle_gaps
),
running AS (
    overlap_counts!(intervals, (rank), (in_step, later, compiles, allocates, loads, starts, idles, position))
),
sums AS (
    SELECT
        r.rank,
        sum_if!(r.dur_ns, r.compiles > 0 OR r.allocates > 0 OR r.loads > 0 OR r.starts > 0) AS warmup_ns,
        sum_if!(r.dur_ns, r.compiles > 0 OR r.loads > 0 OR r.starts > 0) AS warmup_without_memory_ns,
        sum_if!(r.dur_ns, r.loads > 0) AS first_launch_ns,
        sum_if!(r.dur_ns, r.compiles > 0) AS compile_ns,
        sum_if!(r.dur_ns, r.later > 0 AND r.compiles > 0) AS steady_compile_ns,
        sum_if!(r.dur_ns, r.later > 0 AND r.allocates > 0 AND r.compiles = 0) AS later_memory_ns,
        count(DISTINCT CASE WHEN r.later > 0 AND r.allocates > 0 THEN r.position END) AS memory_step_count,
        sum_if!(r.dur_ns, r.later > 0 AND r.compiles > 0 AND (d.device_count IS NULL OR r.idles = d.device_count)) AS steady_idle_ns,
        count(DISTINCT CASE WHEN r.later > 0 AND r.compiles > 0 THEN r.position END) AS steady_step_count
    FROM running r
    LEFT JOIN device_counts d ON d.rank = r.rank
    WHERE r.in_step > 0 AND r.dur_ns > 0
    GROUP BY r.rank
),
windows AS (
    SELECT
        rank,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        max(end_ns) - min(ts_ns) AS steps_ns,
        min(ts_ns) AS start_ns,
        max(end_ns) AS end_ns,
        max(CASE WHEN position = 1 THEN end_ns END) AS first_end_ns,
        max(CASE WHEN position = 2 THEN step END) AS second_step,
        max(CASE WHEN position = 1 THEN compared_ns END) AS first_step_ns,
        median(CASE WHEN position > 1 THEN CAST(end_ns - ts_ns AS DOUBLE) END) AS median_step_ns,
        sum_if!(end_ns - ts_ns, position > 1) AS steady_ns
    FROM steps
    GROUP BY rank
),
totals AS (
    SELECT
        e.rank, e.name,
        sum(e.end_ns - e.ts_ns) AS dur_ns,
        coalesce(sum(CASE WHEN e.kind <> 'memory' THEN e.end_ns - e.ts_ns END), 0) AS without_memory_ns,
        count_if!(e.kind = 'compile') AS compile_count,
        sum(CASE WHEN e.kind = 'compile' AND e.ts_ns >= w.first_end_ns THEN e.end_ns - e.ts_ns END) AS steady_ns
    FROM events e
    JOIN windows w ON w.rank = e.rank
    WHERE e.ts_ns >= w.start_ns AND e.ts_ns < w.end_ns
    GROUP BY e.rank, e.name
),
top_names AS (
    SELECT
        rank,
        sum(compile_count) AS compile_count,
        first_value(name ORDER BY dur_ns DESC, name) AS warmup_name,
        first_value(CASE WHEN without_memory_ns > 0 THEN name END ORDER BY without_memory_ns DESC, name) AS without_memory_name,
        first_value(CASE WHEN steady_ns > 0 THEN name END ORDER BY coalesce(steady_ns, 0) DESC, name) AS steady_name
    FROM totals
    GROUP BY rank
),
regions AS (
    SELECT rank, count(*) AS region_count
    FROM (
        SELECT rank, name FROM cpu_ops
        UNION ALL
        SELECT rank, name FROM annotations WHERE NOT on_device
    )
    WHERE name LIKE 'Torch-Compiled Region%' OR name LIKE 'CompiledFunction%' OR name LIKE '## Call CompiledFxGraph%'
    GROUP BY rank
),
-- What each of at least two later steps takes from the driver, the first one would take, too.
steady_sums AS (
    SELECT
        s.rank,
        w.step_count >= 3 AND s.memory_step_count >= w.step_count - 1 AS memory_recurs,
        CASE WHEN w.step_count >= 3 AND s.memory_step_count >= w.step_count - 1 THEN s.warmup_without_memory_ns ELSE s.warmup_ns END
            AS warmup_ns,
        s.later_memory_ns, s.first_launch_ns, s.compile_ns, s.steady_compile_ns, s.steady_idle_ns, s.steady_step_count
    FROM sums s
    JOIN windows w ON w.rank = s.rank
),
ranks_with_host AS (
    SELECT DISTINCT rank FROM cpu_ops
    UNION
    SELECT DISTINCT rank FROM runtime_calls
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    coalesce(w.step_count, 0) AS step_count,
    w.steps_ns,
    CASE WHEN w.step_count >= 2 THEN w.second_step END AS second_step,
    CASE WHEN w.step_count >= 2 THEN w.first_step_ns END AS first_step_ns,
    CASE WHEN w.step_count >= 2 THEN w.median_step_ns END AS median_step_ns,
    CASE WHEN w.step_count >= 3 THEN w.first_step_ns / nullif(w.median_step_ns, 0) - 1 END AS first_step_ratio,
    coalesce(s.warmup_ns, 0) AS warmup_ns,
    ratio!(coalesce(s.warmup_ns, 0), w.steps_ns) AS warmup_ratio,
    CASE WHEN s.memory_recurs THEN t.without_memory_name ELSE t.warmup_name END AS warmup_name,
    coalesce(s.first_launch_ns, 0) AS first_launch_ns,
    CASE WHEN s.memory_recurs THEN s.later_memory_ns ELSE 0 END AS steady_memory_ns,
    coalesce(t.compile_count, 0) AS compile_count,
    coalesce(s.compile_ns, 0) AS compile_ns,
    coalesce(w.steady_ns, 0) AS steady_ns,
    coalesce(s.steady_compile_ns, 0) AS steady_compile_ns,
    CASE WHEN w.step_count >= 2 THEN ratio!(coalesce(s.steady_compile_ns, 0), w.steady_ns) END AS steady_compile_ratio,
    coalesce(s.steady_idle_ns, 0) AS steady_idle_ns,
    CASE WHEN w.step_count >= 2 THEN ratio!(coalesce(s.steady_idle_ns, 0), w.steady_ns) END AS steady_idle_ratio,
    CASE WHEN w.step_count >= 2 THEN coalesce(s.steady_step_count, 0) END AS steady_step_count,
    t.steady_name,
    coalesce(c.region_count, 0) AS region_count,
    g.graph_launch_count
FROM ranks r
JOIN graph_launches g ON g.rank = r.rank
LEFT JOIN ranks_with_host h ON h.rank = r.rank
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN steady_sums s ON s.rank = r.rank
LEFT JOIN top_names t ON t.rank = r.rank
LEFT JOIN regions c ON c.rank = r.rank
WHERE r.vendor IS NOT NULL
