--! question = "Do a few events alone make the recording long?"
--! row = "one rank: up to three events far from all others, or far longer"
--! window = "recording"
--! needs = ["ranks", "cpu_ops", "runtime_calls", "annotations", "python_frames", "kernels", "memcpys", "memsets"]
--! order = ["rank"]
--! when_empty = "no trace was read"
--! [columns]
--! rank = "rank"
--! event_count = { doc = "operators, calls, annotations, frames and device activities", unit = "count", metric = "rank" }
--! recording_ns = { doc = "from the first of them to the end of the last", unit = "ns", metric = "rank" }
--! outlier_count = { doc = "of them, up to three that alone end after the first tenth of the recording, or alone start before its last tenth; 0 if there are more such events, or fewer than 20 events in all", unit = "count", metric = "rank" }
--! outlier_name = "one of these events: the last to end, or the first to start; absent if there are none"
--! outlier_ts_ns = { doc = "its start", unit = "ns" }
--! outlier_dur_ns = { doc = "its duration", unit = "ns" }
--! rest_ns = { doc = "length of the recording without these events", unit = "ns", metric = "rank" }
--! outlier_ratio = { doc = "share of the recording that only these events cover: 1 - rest_ns / recording_ns", unit = "ratio", metric = "rank" }
WITH extents AS (
    SELECT
        rank, start_ns, end_ns,
        start_ns + (end_ns - start_ns) / 10 AS first_tenth_ns,
        end_ns - (end_ns - start_ns) / 10 AS last_tenth_ns
    FROM ranks
),
timed AS (
    SELECT rank, name, ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM runtime_calls
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM annotations
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM python_frames
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM kernels
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM memcpys
    UNION ALL
    SELECT rank, name, ts_ns, ts_ns + dur_ns FROM memsets
),
sums AS (
    SELECT
        t.rank, x.start_ns, x.end_ns, x.first_tenth_ns, x.last_tenth_ns,
        count(*) AS event_count,
        count_if!(t.end_ns > x.first_tenth_ns) AS late_count,
        count_if!(t.ts_ns < x.last_tenth_ns) AS early_count,
        max(CASE WHEN t.end_ns <= x.first_tenth_ns THEN t.end_ns END) AS rest_end_ns,
        min(CASE WHEN t.ts_ns >= x.last_tenth_ns THEN t.ts_ns END) AS rest_start_ns
    FROM timed t
    JOIN extents x ON x.rank = t.rank
    GROUP BY t.rank, x.start_ns, x.end_ns, x.first_tenth_ns, x.last_tenth_ns
),
judged AS (
    SELECT
        *,
        event_count >= 20 AND late_count <= 3 AS is_late,
        event_count >= 20 AND late_count > 3 AND early_count <= 3 AS is_early
    FROM sums
),
outliers AS (
    SELECT rank, outlier_name, outlier_ts_ns, outlier_dur_ns
    FROM (
        SELECT
            t.rank,
            CAST(t.name AS VARCHAR) AS outlier_name,
            t.ts_ns AS outlier_ts_ns,
            t.end_ns - t.ts_ns AS outlier_dur_ns,
            row_number() OVER (
                PARTITION BY t.rank
                ORDER BY CASE WHEN j.is_late THEN -t.end_ns ELSE t.ts_ns END, t.name
            ) AS place
        FROM (SELECT * FROM judged WHERE is_late OR is_early) j
        JOIN timed t ON t.rank = j.rank
        WHERE j.is_late AND t.end_ns > j.first_tenth_ns OR j.is_early AND t.ts_ns < j.last_tenth_ns
    )
    WHERE place = 1
),
rests AS (
    SELECT
        *,
        CASE WHEN is_late THEN late_count WHEN is_early THEN early_count ELSE 0 END AS outlier_count,
        end_ns - start_ns AS recording_ns,
        CASE WHEN is_late THEN rest_end_ns - start_ns WHEN is_early THEN end_ns - rest_start_ns ELSE end_ns - start_ns END AS rest_ns
    FROM judged
)
SELECT
    r.rank, r.event_count, r.recording_ns, r.outlier_count,
    o.outlier_name, o.outlier_ts_ns, o.outlier_dur_ns,
    r.rest_ns,
    ratio!(r.recording_ns - r.rest_ns, r.recording_ns) AS outlier_ratio
FROM rests r
LEFT JOIN outliers o ON o.rank = r.rank
