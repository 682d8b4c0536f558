--! question = "What does the recording lack: shapes, stacks, launches, memory?"
--! row = "one rank with a profiler trace"
--! window = "recording"
--! needs = ["ranks", "kernels", "graph_launches", "steps"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps marked by the profiler", unit = "count", metric = "rank" }
--! found_step_count = { doc = "steps, however they were found: see steps.source", unit = "count", metric = "rank" }
--! recurring_step_count = { doc = "of them, those that nothing marks: the same operators recur", unit = "count", metric = "rank" }
--! device_count = { doc = "devices that ran a kernel", unit = "count", metric = "rank" }
--! kernel_count = { doc = "kernels in the whole recording", unit = "count", metric = "rank" }
--! early_ratio = { doc = "share of kernel time launched before the recording began: ahead of the first kernel of its stream whose launching call the trace holds", unit = "ratio", metric = "rank" }
--! unlinked_ratio = { doc = "share of kernel time, beyond early_ratio, whose launching call the trace does not hold", unit = "ratio", metric = "rank" }
--! no_launch_ratio = { doc = "both together", unit = "ratio", metric = "rank" }
--! graph_launch_count = { doc = "launches of a captured graph", unit = "count", metric = "rank" }
--! has_shapes = "operators carry input shapes (record_shapes)"
--! has_stacks = "Python frames or call stacks are present (with_stack)"
--! has_memory = "allocator events are present (profile_memory)"
-- A stream works in the order of launches: what comes ahead of the first known launch was launched earlier.
WITH streams AS (
    SELECT rank, device, stream, min(CASE WHEN launch IS NOT NULL THEN ts_ns END) AS first_ns
    FROM kernels
    GROUP BY rank, device, stream
),
work AS (
    SELECT
        k.rank,
        count(DISTINCT coalesce(k.device, -1)) AS device_count,
        count(*) AS kernel_count,
        sum_if!(k.dur_ns, k.launch IS NULL AND k.ts_ns < s.first_ns) AS early_ns,
        sum_if!(k.dur_ns, k.launch IS NULL AND coalesce(k.ts_ns >= s.first_ns, true)) AS unlinked_ns,
        sum(k.dur_ns) AS kernel_ns
    FROM kernels k
    -- Equality, so that rows are found by hash. No device and no stream has this number.
    JOIN streams s
        ON s.rank = k.rank
        AND coalesce(s.device, -2147483648) = coalesce(k.device, -2147483648)
        AND coalesce(s.stream, -2147483648) = coalesce(k.stream, -2147483648)
    GROUP BY k.rank
),
found AS (
    SELECT rank, count(*) AS step_count, count_if!(source IN ('repetition', 'pass')) AS recurring_step_count
    FROM steps
    WHERE source <> 'trace'
    GROUP BY rank
)
SELECT
    r.rank,
    CAST(r.step_count AS BIGINT) AS step_count,
    coalesce(f.step_count, 0) AS found_step_count,
    coalesce(f.recurring_step_count, 0) AS recurring_step_count,
    coalesce(w.device_count, 0) AS device_count,
    coalesce(w.kernel_count, 0) AS kernel_count,
    ratio!(w.early_ns, w.kernel_ns) AS early_ratio,
    ratio!(w.unlinked_ns, w.kernel_ns) AS unlinked_ratio,
    ratio!(w.early_ns + w.unlinked_ns, w.kernel_ns) AS no_launch_ratio,
    g.graph_launch_count,
    r.has_shapes,
    r.has_stacks,
    r.has_memory
FROM ranks r
LEFT JOIN work w ON w.rank = r.rank
LEFT JOIN found f ON f.rank = r.rank
JOIN graph_launches g ON g.rank = r.rank
WHERE r.vendor IS NOT NULL
