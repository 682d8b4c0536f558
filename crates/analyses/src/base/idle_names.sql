--! question = "Which Python code and operators are behind the idle time of each GPU?"
--! row = "one device of one rank: the names behind its idle time of causes python and launching"
--! window = "counted_steps"
--! needs = ["idle_gap_causes", "device_windows", "python_frames", "annotations", "cpu_ops"]
--! order = ["rank", "device"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! top_python_name = "the Python function or annotation with most idle time of cause python"
--! top_python_ratio = { doc = "its share of that time", unit = "ratio" }
--! top_dispatch_name = "the call or operator with most idle time of launching"
--! top_dispatch_ratio = { doc = "its share of that time", unit = "ratio" }
--! around_python_name = "where that is 80 % or less: the Python frame, annotation or operator with least time of those that hold more than 80 %; absent if that time is below 3 % of the window"
--! around_python_ratio = { doc = "its share of that time", unit = "ratio" }
--! around_dispatch_name = "the same of launching"
--! around_dispatch_ratio = { doc = "its share of that time", unit = "ratio" }
-- A frame holds what it has of each gap, times the share of the part in that gap: the pieces of a part may alternate
-- with others.
WITH pieces AS (
    SELECT
        rank, device, thread, gap_ts_ns, gap_end_ns, name,
        CASE WHEN cause = 'python' THEN 'python' ELSE 'dispatch' END AS part, dur_ns
    FROM idle_gap_causes
    WHERE cause IN ('python', 'op_dispatch', 'launch_api', 'copy_api', 'launch_latency')
),
names AS (
    SELECT rank, device, part, name, sum(dur_ns) AS dur_ns FROM pieces GROUP BY rank, device, part, name
),
parts AS (
    SELECT
        rank, device, part, sum(dur_ns) AS part_ns,
        first_value(name ORDER BY name IS NULL, dur_ns DESC, name) AS top_name,
        max(CASE WHEN name IS NOT NULL THEN dur_ns END) AS top_ns
    FROM names
    GROUP BY rank, device, part
),
-- Parts that rules report.
reported AS (
    SELECT p.rank, p.device, p.part, p.part_ns, p.top_name
    FROM parts p
    JOIN device_windows w ON w.rank = p.rank AND w.device = p.device
    WHERE p.part_ns >= 0.03 * w.window_ns
),
gaps AS (
    SELECT
        g.rank, g.device, g.part, g.thread, g.gap_ts_ns, g.gap_end_ns,
        CAST(sum(g.dur_ns) AS DOUBLE) / (g.gap_end_ns - g.gap_ts_ns) AS share
    FROM pieces g
    JOIN reported r ON r.rank = g.rank AND r.device = g.device AND r.part = g.part
    WHERE g.thread IS NOT NULL
    GROUP BY g.rank, g.device, g.part, g.thread, g.gap_ts_ns, g.gap_end_ns
),
lanes AS (
    SELECT DISTINCT g.rank, g.device, g.part, g.thread, r.part_ns, r.top_name
    FROM gaps g
    JOIN reported r ON r.rank = g.rank AND r.device = g.device AND r.part = g.part
),
frames AS (
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns AS end_ns, event_id FROM python_frames
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns, event_id
    FROM annotations
    WHERE NOT on_device AND name NOT LIKE 'ProfilerStep%'
    UNION ALL
    SELECT rank, thread, name, ts_ns, ts_ns + dur_ns, event_id FROM cpu_ops
),
-- What takes less time in all cannot hold that much. A gap is named after what has most of it, which may be little.
candidates AS (
    SELECT l.rank, l.device, l.part, l.thread, l.part_ns, n.name
    FROM (SELECT rank, thread, name, sum(end_ns - ts_ns) AS dur_ns FROM frames GROUP BY rank, thread, name) n
    JOIN lanes l
        ON l.rank = n.rank AND l.thread = n.thread AND (n.dur_ns > 0.8 * l.part_ns OR n.name = l.top_name)
),
calls AS (
    SELECT
        c.rank, c.device, c.part, c.thread, c.part_ns, c.name, f.ts_ns, f.end_ns,
        max_before!(f.end_ns, PARTITION BY c.rank, c.device, c.part, c.thread, c.name ORDER BY f.ts_ns, f.end_ns DESC, f.event_id) AS until_ns
    FROM candidates c
    JOIN frames f ON f.rank = c.rank AND f.thread = c.thread AND f.name = c.name
),
-- Of calls that call themselves, the outermost.
outer_calls AS (
    SELECT * FROM calls WHERE until_ns IS NULL OR ts_ns >= until_ns
),
-- Time of the part up to a moment: where the shares so far add up to s, and s times their moments to m, s * t - m. Moments
-- are counted from the first one: sums of large numbers are less exact.
boundaries AS (
    SELECT rank, device, part, thread, gap_ts_ns AS ts_ns, share, NULL AS name, 0 AS sign FROM gaps
    UNION ALL
    SELECT rank, device, part, thread, gap_end_ns, -share, NULL, 0 FROM gaps
    UNION ALL
    SELECT rank, device, part, thread, ts_ns, 0.0, name, -1 FROM outer_calls
    UNION ALL
    SELECT rank, device, part, thread, end_ns, 0.0, name, 1 FROM outer_calls
),
moments AS (
    SELECT
        rank, device, part, thread, name, sign, share,
        ts_ns - min(ts_ns) OVER (PARTITION BY rank, device, part, thread) AS after_ns
    FROM boundaries
),
running AS (
    SELECT
        rank, device, part, name, sign,
        after_ns * running_sum!(share, PARTITION BY rank, device, part, thread ORDER BY after_ns)
            - running_sum!(share * after_ns, PARTITION BY rank, device, part, thread ORDER BY after_ns) AS held_ns
    FROM moments
),
held AS (
    SELECT rank, device, part, name, sum(sign * held_ns) AS held_ns
    FROM running
    WHERE sign <> 0
    GROUP BY rank, device, part, name
),
lengths AS (
    SELECT rank, device, part, name, min(part_ns) AS part_ns, sum(end_ns - ts_ns) AS dur_ns
    FROM outer_calls
    GROUP BY rank, device, part, name
),
around AS (
    SELECT
        h.rank, h.device, h.part,
        first_value(h.name ORDER BY l.dur_ns, h.name) AS name,
        first_value(least(h.held_ns / l.part_ns, 1.0) ORDER BY l.dur_ns, h.name) AS ratio
    FROM held h
    JOIN lengths l ON l.rank = h.rank AND l.device = h.device AND l.part = h.part AND l.name = h.name
    WHERE h.held_ns > 0.8 * l.part_ns
    GROUP BY h.rank, h.device, h.part
),
shares AS (
    SELECT
        p.rank, p.device, p.part, p.top_name,
        -- least() passes over what is absent.
        CASE WHEN h.held_ns IS NOT NULL THEN least(h.held_ns / p.part_ns, 1.0) ELSE ratio!(p.top_ns, p.part_ns) END AS top_ratio
    FROM parts p
    LEFT JOIN held h ON h.rank = p.rank AND h.device = p.device AND h.part = p.part AND h.name = p.top_name
)
SELECT
    s.rank, s.device,
    max(CASE WHEN s.part = 'python' THEN s.top_name END) AS top_python_name,
    max(CASE WHEN s.part = 'python' THEN s.top_ratio END) AS top_python_ratio,
    max(CASE WHEN s.part = 'dispatch' THEN s.top_name END) AS top_dispatch_name,
    max(CASE WHEN s.part = 'dispatch' THEN s.top_ratio END) AS top_dispatch_ratio,
    max(CASE WHEN s.part = 'python' THEN a.name END) AS around_python_name,
    max(CASE WHEN s.part = 'python' THEN a.ratio END) AS around_python_ratio,
    max(CASE WHEN s.part = 'dispatch' THEN a.name END) AS around_dispatch_name,
    max(CASE WHEN s.part = 'dispatch' THEN a.ratio END) AS around_dispatch_ratio
FROM shares s
LEFT JOIN around a
    ON a.rank = s.rank AND a.device = s.device AND a.part = s.part AND coalesce(s.top_ratio, 0.0) <= 0.8
GROUP BY s.rank, s.device
