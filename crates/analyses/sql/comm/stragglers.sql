--! row = "one rank that takes part in collectives with others"
--! needs = ["device_activities", "collectives", "annotations", "cpu_ops", "ranks", "comm_overlap", "device_steps"]
--! order = ["rank"]
--! when_empty = "the run holds fewer than two ranks with the same collectives"
--! [columns]
--! rank = "rank"
--! rank_count = { doc = "ranks that were compared", unit = "count", metric = "rank" }
--! collective_count = { doc = "collectives matched across ranks", unit = "count", metric = "rank" }
--! last_count = { doc = "collectives this rank arrived at last", unit = "count", metric = "rank" }
--! last_ratio = { doc = "share of the collectives this rank arrived at last", unit = "ratio", metric = "rank" }
--! caused_wait_ns = { doc = "mean time the other ranks waited in collectives this rank arrived at last, added up", unit = "ns", metric = "rank" }
--! caused_wait_ratio = { doc = "share of the window, at most what the others do not hide behind computation", unit = "ratio", metric = "rank" }
--! own_wait_ns = { doc = "time this rank waited for others in collectives", unit = "ns", metric = "rank" }
-- A collective ends everywhere at about the same time, so that the rank that arrives last spends the
-- least time in it. That needs no clock in common. Collectives are matched by group, name and size,
-- then by order; kinds that not all ranks have equally often are left out.
WITH on_devices AS (
    SELECT
        a.rank, a.event_id, a.ts_ns, a.dur_ns,
        concat_ws('|', c.group_name, c.group_ranks, coalesce(c.name, a.name), CAST(c.input_elements AS VARCHAR)) AS collective
    FROM device_activities a
    LEFT JOIN collectives c ON c.rank = a.rank AND c.event_id = a.event_id AND c.on_device
    WHERE a.kind = 'communication'
),
on_hosts AS (
    SELECT rank, event_id, ts_ns, dur_ns, concat_ws('|', name, input_dims) AS collective
    FROM annotations
    WHERE NOT on_device AND (name LIKE 'gloo:%' OR name LIKE 'nccl:%')
    UNION ALL
    SELECT rank, event_id, ts_ns, dur_ns, concat_ws('|', name, input_dims)
    FROM cpu_ops
    WHERE name LIKE 'gloo:%' OR name LIKE 'nccl:%'
),
-- What the host says counts only if no device communicates.
calls AS (
    SELECT rank, event_id, ts_ns, dur_ns, collective FROM on_devices
    UNION ALL
    SELECT h.rank, h.event_id, h.ts_ns, h.dur_ns, h.collective
    FROM on_hosts h
    JOIN ranks r ON r.rank = h.rank
    WHERE (r.cut_ns IS NULL OR h.ts_ns < r.cut_ns) AND NOT EXISTS (SELECT 1 FROM on_devices)
),
numbered AS (
    SELECT
        rank, collective, dur_ns,
        row_number() OVER (PARTITION BY rank, collective ORDER BY ts_ns, event_id) AS occurrence,
        count(*) OVER (PARTITION BY rank, collective) AS occurrences
    FROM calls
),
matched AS (
    SELECT
        rank,
        dur_ns,
        count(*) OVER same AS ranks,
        min(occurrences) OVER same AS fewest,
        max(occurrences) OVER same AS most,
        min(dur_ns) OVER same AS least_ns,
        sum(dur_ns) OVER same AS total_ns,
        row_number() OVER (PARTITION BY collective, occurrence ORDER BY dur_ns, rank) = 1 AS is_last
    FROM numbered
    WINDOW same AS (PARTITION BY collective, occurrence)
),
sums AS (
    SELECT
        rank,
        max(ranks) AS rank_count,
        count(*) AS collective_count,
        sum(CASE WHEN is_last THEN 1 ELSE 0 END) AS last_count,
        sum(CASE WHEN is_last THEN CAST(total_ns - ranks * least_ns AS DOUBLE) / (ranks - 1) ELSE 0 END) AS caused_wait_ns,
        sum(dur_ns - least_ns) AS own_wait_ns
    FROM matched
    WHERE ranks > 1 AND fewest = most
    GROUP BY rank
),
-- Waiting behind computation costs nothing: no more is counted than the others fail to hide.
exposed AS (
    SELECT
        rank, window_ns,
        CAST(sum(exposed_ns) OVER () - exposed_ns AS DOUBLE) / nullif(count(*) OVER () - 1, 0) AS others_ns
    FROM comm_overlap
),
host_windows AS (
    SELECT rank, max(end_ns) - min(ts_ns) AS window_ns FROM device_steps GROUP BY rank
)
SELECT
    s.rank, s.rank_count, s.collective_count, s.last_count,
    CAST(s.last_count AS DOUBLE) / s.collective_count AS last_ratio,
    s.caused_wait_ns,
    least(
        s.caused_wait_ns,
        coalesce(e.others_ns, s.caused_wait_ns)
    ) / nullif(coalesce(e.window_ns, h.window_ns), 0) AS caused_wait_ratio,
    s.own_wait_ns
FROM sums s
LEFT JOIN exposed e ON e.rank = s.rank
LEFT JOIN host_windows h ON h.rank = s.rank
