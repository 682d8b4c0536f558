--! question = "How long does training stop while Composer writes a profile?"
--! row = "one batch after which Composer wrote a profile, with the length of that pause"
--! window = "recording"
--! needs = ["annotations", "unpaired_events"]
--! order = ["rank", "ts_ns"]
--! requires = ["trainer_markers"]
--! when_empty = "no profile was written between two batches: Composer's Profiler does so at the end of each cycle, and the last one of a run leaves no mark"
--! [columns]
--! rank = "rank"
--! batch_count = { doc = "batches done by then", unit = "count" }
--! ts_ns = { doc = "end of event/batch", unit = "ns" }
--! pause_ns = { doc = "from there to the end of JSONTraceHandler's batch_end: what the profile costs, merging those of all ranks included", unit = "ns" }
--! median_ns = { doc = "median of the same after all batches: most write nothing", unit = "ns" }
-- The pauses that stand out: 10 times as long as usual, and 10 ms or more.
WITH ends AS (
    -- A pair has the counter of its begin, which is that of the batch; an end that of the batches done.
    SELECT rank, CAST(name AS VARCHAR) AS name, ts_ns + dur_ns AS end_ns, args, 1 AS done
    FROM annotations
    WHERE NOT on_device AND name IN ('event/batch', 'callback/JSONTraceHandler/event/batch_end')
    UNION ALL
    SELECT rank, CAST(name AS VARCHAR), ts_ns, args, 0
    FROM unpaired_events
    WHERE phase = 'E' AND name IN ('event/batch', 'callback/JSONTraceHandler/event/batch_end')
),
ordered AS (
    SELECT
        rank, name, end_ns, done,
        TRY_CAST(trim(split_part(split_part(split_part(args, '"batch":', 2), ',', 1), '}', 1)) AS BIGINT) AS batch,
        lead(name) OVER w AS next_name,
        lead(end_ns) OVER w AS next_ns
    FROM ends
    WINDOW w AS (PARTITION BY rank ORDER BY end_ns)
),
pauses AS (
    SELECT rank, batch + done AS batch_count, end_ns AS ts_ns, next_ns - end_ns AS pause_ns
    FROM ordered
    WHERE name = 'event/batch' AND next_name <> 'event/batch'
),
usual AS (
    SELECT rank, median(CAST(pause_ns AS DOUBLE)) AS median_ns FROM pauses GROUP BY rank
)
SELECT p.rank, p.batch_count, p.ts_ns, p.pause_ns, u.median_ns
FROM pauses p
JOIN usual u ON u.rank = p.rank
WHERE p.pause_ns >= 10 * u.median_ns AND p.pause_ns >= 10000000
