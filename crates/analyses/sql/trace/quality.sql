--! row = "one rank with a profiler trace"
--! needs = ["ranks", "kernels", "graph_launches"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps marked by the profiler", unit = "count", metric = "rank" }
--! device_count = { doc = "devices that ran a kernel", unit = "count", metric = "rank" }
--! kernel_count = { doc = "kernels recorded", unit = "count", metric = "rank" }
--! unlinked_ratio = { doc = "share of kernel time whose launching call the trace does not hold", unit = "ratio", metric = "rank" }
--! graph_launch_count = { doc = "launches of a captured graph", unit = "count", metric = "rank" }
--! has_shapes = "operators carry input shapes (record_shapes)"
--! has_stacks = "Python frames or call stacks are present (with_stack)"
--! has_memory = "allocator events are present (profile_memory)"
WITH work AS (
    SELECT
        rank,
        count(DISTINCT coalesce(device, -1)) AS device_count,
        count(*) AS kernel_count,
        sum(CASE WHEN launch IS NULL THEN dur_ns ELSE 0 END) AS unlinked_ns,
        sum(dur_ns) AS kernel_ns
    FROM kernels
    GROUP BY rank
)
SELECT
    r.rank,
    CAST(r.step_count AS BIGINT) AS step_count,
    coalesce(w.device_count, 0) AS device_count,
    coalesce(w.kernel_count, 0) AS kernel_count,
    CAST(w.unlinked_ns AS DOUBLE) / nullif(w.kernel_ns, 0) AS unlinked_ratio,
    g.graph_launch_count,
    r.has_shapes,
    r.has_stacks,
    r.has_memory
FROM ranks r
LEFT JOIN work w ON w.rank = r.rank
JOIN graph_launches g ON g.rank = r.rank
WHERE r.vendor IS NOT NULL
