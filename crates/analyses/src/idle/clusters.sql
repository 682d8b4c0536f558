--! question = "Is the idle time concentrated in a few stretches?"
--! row = "one device of one rank: clusters of idle time, the parts of its window in which it is idle more than half of the time"
--! window = "counted_steps"
--! needs = ["idle_gap_causes", "device_windows"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "the analyzed window", unit = "ns", metric = "device" }
--! cluster_count = { doc = "of 30 equal parts of the window, runs of such that are busy less than half of the time", unit = "count", metric = "device" }
--! cluster_ns = { doc = "length of these", unit = "ns", metric = "device" }
--! cluster_idle_ns = { doc = "idle time in them", unit = "ns", metric = "device" }
--! cluster_idle_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! busy_outside_ratio = { doc = "share of the rest of the window in which something runs; absent if there is no rest", unit = "ratio", metric = "device" }
--! ts_ns = { doc = "start of the hole with most idle time", unit = "ns" }
--! dur_ns = { doc = "its length", unit = "ns" }
--! cause = "cause of most of the idle time in all clusters, see idle_gap_causes"
--! is_attributed = "that cause is one that a fix can remove: its side is neither unknown nor warmup"
--! name = "the call, loader, operator or function that has most of that"
-- The parts are those of Nsight Systems' gpu_time_util rule: 30, and 50 %.
WITH parts AS (
    SELECT
        i.rank, i.device, i.cause, i.side, i.name, i.dur_ns, i.gap_ts_ns, i.gap_end_ns,
        w.start_ns, w.window_ns,
        unnest(range(
            (i.gap_ts_ns - w.start_ns) * 30 / w.window_ns,
            (i.gap_end_ns - 1 - w.start_ns) * 30 / w.window_ns + 1
        )) AS part
    FROM idle_gap_causes i
    JOIN device_windows w ON w.rank = i.rank AND w.device = i.device
    WHERE w.window_ns > 0
),
-- A cause's time is spread over its gap.
spread AS (
    SELECT
        rank, device, part, cause, side, name,
        CAST(dur_ns AS DOUBLE) / (gap_end_ns - gap_ts_ns) * (
            least(gap_end_ns, start_ns + (part + 1) * window_ns / 30) - greatest(gap_ts_ns, start_ns + part * window_ns / 30)
        ) AS idle_ns
    FROM parts
),
chunks AS (
    SELECT rank, device, part, sum(idle_ns) AS idle_ns FROM spread GROUP BY rank, device, part
),
low AS (
    SELECT c.*, c.part - row_number() OVER (PARTITION BY c.rank, c.device ORDER BY c.part) AS run
    FROM chunks c
    JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
    WHERE c.idle_ns * 60 > w.window_ns
),
clusters AS (
    SELECT rank, device, run, min(part) AS first_part, count(*) AS part_count, sum(idle_ns) AS idle_ns
    FROM low
    GROUP BY rank, device, run
),
worst AS (
    SELECT
        rank, device,
        count(*) AS cluster_count,
        sum(part_count) AS part_count,
        sum(idle_ns) AS idle_ns,
        first_value(first_part ORDER BY idle_ns DESC, first_part) AS first_part,
        first_value(part_count ORDER BY idle_ns DESC, first_part) AS first_count
    FROM clusters
    GROUP BY rank, device
),
causes AS (
    SELECT s.rank, s.device, s.cause, s.side, s.name, sum(s.idle_ns) AS idle_ns
    FROM spread s
    JOIN low l ON l.rank = s.rank AND l.device = s.device AND l.part = s.part
    GROUP BY s.rank, s.device, s.cause, s.side, s.name
),
cause AS (
    SELECT
        rank, device,
        first_value(cause ORDER BY idle_ns DESC, cause, name) AS cause,
        first_value(side ORDER BY idle_ns DESC, cause, name) AS side,
        first_value(name ORDER BY idle_ns DESC, cause, name) AS name
    FROM causes
    GROUP BY rank, device
),
idle AS (
    SELECT rank, device, sum(idle_ns) AS idle_ns FROM chunks GROUP BY rank, device
)
SELECT
    w.rank, w.device, w.window_ns,
    coalesce(h.cluster_count, 0) AS cluster_count,
    CAST(coalesce(h.part_count, 0) * w.window_ns / 30 AS BIGINT) AS cluster_ns,
    CAST(coalesce(h.idle_ns, 0) AS BIGINT) AS cluster_idle_ns,
    coalesce(h.idle_ns, 0) / nullif(w.window_ns, 0) AS cluster_idle_ratio,
    1 - (coalesce(i.idle_ns, 0) - coalesce(h.idle_ns, 0)) / nullif(w.window_ns * (30 - coalesce(h.part_count, 0)) / 30.0,
        0) AS busy_outside_ratio,
    w.start_ns + h.first_part * w.window_ns / 30 AS ts_ns,
    h.first_count * w.window_ns / 30 AS dur_ns,
    c.cause, c.side NOT IN ('unknown', 'warmup') AS is_attributed, c.name
FROM device_windows w
LEFT JOIN worst h ON h.rank = w.rank AND h.device = w.device
LEFT JOIN cause c ON c.rank = w.rank AND c.device = w.device
LEFT JOIN idle i ON i.rank = w.rank AND i.device = w.device
