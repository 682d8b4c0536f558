--! question = "Which step of an inference engine launched a kernel, and which part of a layer does it compute?"
--! row = "one kernel, copy or fill that a step of the engine launched"
--! window = "recording"
--! needs = ["serving_marks", "device_work"]
--! order = ["rank", "ts_ns", "event_id"]
--! when_empty = "the trace holds no steps of an inference engine: vLLM records them as execute_context_..., SGLang as step[DECODE bs=...]"
--! [columns]
--! rank = "rank"
--! event_id = "the kernel, copy or fill"
--! mark = "annotation of the step, see serving_marks"
--! ts_ns = { doc = "start on the device", unit = "ns" }
--! dur_ns = { doc = "duration on the device", unit = "ns" }
--! part = "by name: attention, cache write, matmul, expert, norm, communication or other"
-- A step launches its work between its start and its end on the host. Steps of a rank follow each other.
WITH parts AS (
    SELECT
        name,
        CASE
            WHEN is_cache_write!(CAST(name AS VARCHAR)) THEN 'cache write'
            WHEN is_attention!(CAST(name AS VARCHAR)) THEN 'attention'
            WHEN is_of_experts!(CAST(name AS VARCHAR)) THEN 'expert'
            WHEN regexp_like(CAST(name AS VARCHAR), '(?i)gemm|gemv|matmul|cijk_|nvjet|cublas|wvsplitk|skinny') THEN 'matmul'
            WHEN is_norm!(CAST(name AS VARCHAR)) THEN 'norm'
            ELSE 'other'
        END AS part
    FROM (SELECT DISTINCT name FROM device_work WHERE category = 'kernel')
),
numbered AS (
    SELECT rank, event_id, ts_ns, dur_ns, row_number() OVER (PARTITION BY rank ORDER BY ts_ns, event_id) AS number
    FROM serving_marks
),
moments AS (
    SELECT rank, ts_ns AS launch_ts_ns, 0 AS is_launch, number, ts_ns + dur_ns AS until_ns, event_id, ts_ns, dur_ns, NULL AS part
    FROM numbered
    UNION ALL
    SELECT
        w.rank, w.launch_ts_ns, 1, NULL, NULL, w.event_id, w.ts_ns, w.dur_ns,
        CASE WHEN w.kind = 'communication' THEN 'communication' ELSE coalesce(p.part, 'other') END
    FROM device_work w
    LEFT JOIN parts p ON p.name = w.name
    WHERE w.launch_ts_ns IS NOT NULL
),
placed AS (
    SELECT
        rank, launch_ts_ns, is_launch, event_id, ts_ns, dur_ns, part,
        running_max!(number, PARTITION BY rank ORDER BY launch_ts_ns, is_launch, event_id) AS number,
        running_max!(until_ns, PARTITION BY rank ORDER BY launch_ts_ns, is_launch, event_id) AS until_ns
    FROM moments
)
SELECT p.rank, p.event_id, n.event_id AS mark, p.ts_ns, p.dur_ns, p.part
FROM placed p
JOIN numbered n ON n.rank = p.rank AND n.number = p.number
WHERE p.is_launch = 1 AND p.launch_ts_ns < p.until_ns
