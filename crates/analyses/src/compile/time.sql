--! question = "How long did torch.compile compile each function, when, and was it in the cache?"
--! row = "one compilation of a function, or of its backward pass"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["compiled_frames", "steps"]
--! order = ["rank", "ts_ns", "compile_id", "phase", "number"]
--! requires = ["compile_log"]
--! when_empty = "the run has no log of torch.compile: record with TORCH_TRACE=folder in the environment, and put the log into the folder of the trace"
--! [columns]
--! rank = "rank"
--! number = "position by start, from 1"
--! compile_id = "id of the compilation: 0/1 is the second one of frame 0"
--! phase = "forward or backward"
--! function = "function"
--! file = "its file"
--! line = "its first line"
--! ts_ns = { doc = "start; absent if the log, or the trace, does not say when it was recorded", unit = "ns" }
--! step = "step in which it starts; absent outside of steps"
--! dur_ns = { doc = "duration; absent if the log does not say, or ends before", unit = "ns" }
--! inductor_ns = { doc = "time in Inductor", unit = "ns" }
--! in_steps_ns = { doc = "time within steps of the recording; absent if ts_ns or dur_ns is", unit = "ns" }
--! recompile_reason = "guards of earlier compilations that failed, one per line, each with its compilation; absent for the first compilation"
--! cache = "hit, miss (of any graph) or bypass in the cache of compiled graphs; absent if none was looked up"
--! fail_reason = "reason for which the function runs uncompiled"
WITH frames AS (
    SELECT
        rank,
        row_number() OVER (PARTITION BY rank ORDER BY ts_ns, compile_id, phase, dur_ns) AS number,
        compile_id, phase, function, file, line, ts_ns, dur_ns, inductor_dur_ns, recompile_reason, fail_reason,
        graph_cache_hit_count, graph_cache_miss_count, graph_cache_bypass_count
    FROM compiled_frames
),
points AS (
    SELECT
        rank, ts_ns, 0 AS place, dur_ns AS step_ns, ts_ns + dur_ns AS step_end_ns, step, CAST(NULL AS BIGINT) AS number
    FROM steps
    UNION ALL
    SELECT rank, ts_ns, 1, 0, NULL, NULL, number FROM frames WHERE ts_ns IS NOT NULL
    UNION ALL
    SELECT rank, ts_ns + dur_ns, 2, 0, NULL, NULL, number FROM frames WHERE ts_ns IS NOT NULL AND dur_ns IS NOT NULL
),
-- Steps do not overlap: the time of those that began, less what is left of the last.
running AS (
    SELECT
        rank, ts_ns, place, number,
        running_sum!(step_ns, PARTITION BY rank ORDER BY ts_ns, place) AS begun_ns,
        running_max!(step_end_ns, PARTITION BY rank ORDER BY ts_ns, place) AS last_end_ns,
        running_max!(step, PARTITION BY rank ORDER BY ts_ns, place) AS last_step
    FROM points
),
covered AS (
    SELECT
        rank, number,
        max(CASE WHEN place = 1 AND ts_ns < last_end_ns THEN last_step END) AS step,
        max(CASE WHEN place = 2 THEN begun_ns - greatest(coalesce(last_end_ns, ts_ns) - ts_ns, 0) END)
            - max(CASE WHEN place = 1 THEN begun_ns - greatest(coalesce(last_end_ns, ts_ns) - ts_ns, 0) END)
            AS in_steps_ns
    FROM running
    WHERE number IS NOT NULL
    GROUP BY rank, number
)
SELECT
    f.rank, f.number, f.compile_id, f.phase, f.function, f.file, f.line, f.ts_ns, c.step, f.dur_ns,
    f.inductor_dur_ns AS inductor_ns, c.in_steps_ns,
    f.recompile_reason,
    CASE
        WHEN f.graph_cache_miss_count > 0 THEN 'miss'
        WHEN f.graph_cache_hit_count > 0 THEN 'hit'
        WHEN f.graph_cache_bypass_count > 0 THEN 'bypass'
    END AS cache,
    f.fail_reason
FROM frames f
LEFT JOIN covered c ON c.rank = f.rank AND c.number = f.number
