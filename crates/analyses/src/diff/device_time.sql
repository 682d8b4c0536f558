--! row = "what the devices of a rank do in one complete step: one state and how long it lasts"
--! needs = ["device_steps", "device_work"]
--! order = ["rank", "step", "state"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! state = "computation; communication or memory (copies, fills) where no computing kernel runs; idle"
--! dur_ns = { doc = "time of the step in this state", unit = "ns" }
-- Each moment of a step is in one state, so that states add up to the step, which reaches to the end of
-- the device work it launched. The devices of a rank share one timeline, as in gpu_temporal_breakdown.
WITH numbered AS (
    SELECT rank, step, ts_ns, end_ns, CAST(row_number() OVER (PARTITION BY rank ORDER BY ts_ns, step) AS BIGINT) AS ordinal
    FROM device_steps
),
points AS (
    SELECT rank, ts_ns, kind, 1 AS delta, 0 AS ordinal FROM device_work
    UNION ALL
    SELECT rank, end_ns, kind, -1, 0 FROM device_work
    UNION ALL
    SELECT rank, ts_ns, NULL, 0, ordinal FROM numbered WHERE rank IN (SELECT DISTINCT rank FROM device_work)
    UNION ALL
    SELECT rank, end_ns AS at_ns, NULL, 0, -ordinal FROM numbered WHERE rank IN (SELECT DISTINCT rank FROM device_work)
),
running AS (
    SELECT
        rank,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        sum(ordinal) OVER w AS ordinal,
        sum_if!(delta, kind = 'computation') OVER w AS computations,
        sum_if!(delta, kind = 'communication') OVER w AS communications,
        sum_if!(delta, kind = 'memory') OVER w AS copies
    FROM points
    WINDOW w AS running!(PARTITION BY rank ORDER BY ts_ns)
),
states AS (
    SELECT
        rank, ordinal, dur_ns,
        CASE
            WHEN computations > 0 THEN 'computation'
            WHEN communications > 0 THEN 'communication'
            WHEN copies > 0 THEN 'memory'
            ELSE 'idle'
        END AS state
    FROM running
    WHERE dur_ns > 0 AND ordinal > 0
)
SELECT n.rank, n.step, s.state, CAST(sum(s.dur_ns) AS BIGINT) AS dur_ns
FROM states s
JOIN numbered n ON n.rank = s.rank AND n.ordinal = s.ordinal
GROUP BY n.rank, n.step, s.state
