--! question = "How long is the GPU in each state in each step (input of `advisor diff`)?"
--! row = "one state of the devices of a rank in one complete step, with its duration"
--! window = "counted_steps"
--! needs = ["device_steps", "device_work"]
--! order = ["rank", "step", "state"]
--! requires = ["device_activity"]
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
intervals AS (
    SELECT
        rank, ts_ns, end_ns,
        CASE WHEN kind = 'computation' THEN 1 ELSE 0 END AS computations,
        CASE WHEN kind = 'communication' THEN 1 ELSE 0 END AS communications,
        CASE WHEN kind = 'memory' THEN 1 ELSE 0 END AS copies,
        0 AS ordinal
    FROM device_work
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, 0, 0, ordinal
    FROM numbered
    WHERE rank IN (SELECT DISTINCT rank FROM device_work)
),
running AS (
    overlap_counts!(intervals, (rank), (computations, communications, copies, ordinal))
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
