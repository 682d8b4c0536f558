--! question = "What does each step of an inference engine serve: prefill, decode, how many requests and tokens?"
--! row = "one step of the engine"
--! window = "recording"
--! needs = ["annotations", "device_work"]
--! order = ["rank", "ts_ns", "event_id"]
--! when_empty = "the trace holds no steps of an inference engine: vLLM records them as execute_context_..., SGLang as step[DECODE bs=...]"
--! [columns]
--! rank = "rank"
--! event_id = "annotation that marks the step"
--! name = "its name"
--! kind = "prefill, decode, or mixed (prefill and decode in one batch, with chunked prefill)"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration on the host", unit = "ns" }
--! prefill_request_count = { doc = "requests whose prompt is processed", unit = "count" }
--! prefill_token_count = { doc = "tokens of these prompts in this step", unit = "count" }
--! decode_request_count = { doc = "requests that get their next token", unit = "count" }
--! decode_token_count = { doc = "tokens that enter the model for them: one for each request, more with speculative decoding", unit = "count" }
--! kv_token_count = { doc = "tokens in the caches that attention reads, over all requests; absent where the name does not state it", unit = "count" }
--! attention_pair_count = { doc = "pairs of a new token and a token in the cache, over all requests; absent where the name does not state it", unit = "count" }
--! kernel_count = { doc = "kernels, copies and fills launched in the step", unit = "count" }
--! device_ns = { doc = "their time, overlap not merged", unit = "ns" }
--! cache_write_ns = { doc = "part of device_ns of kernels that write keys and values into the cache", unit = "ns" }
-- vLLM: execute_<tokens>_context_<requests>(<tokens>)_generation_<requests>(<tokens>); newer versions write sq, sk, sqsq and sqsk
-- in the parentheses: sums over requests of new tokens, of tokens in the cache, and of their products. SGLang: step[DECODE bs=8],
-- step[EXTEND bs=2 toks=512]; it may record vLLM's marks, too, which say more.
WITH names AS (
    SELECT
        name,
        regexp_match(CAST(name AS VARCHAR), 'context_(\d+)\((?:sq)?(\d+)[sqk0-9]*\)_generation_(\d+)\((?:sq)?(\d+)[sqk0-9]*\)') AS vllm,
        regexp_match(CAST(name AS VARCHAR), 'context_\d+\(sq\d+sk(\d+)sqsq\d+sqsk(\d+)\)_generation_\d+\(sq\d+sk(\d+)sqsq\d+sqsk(\d+)\)') AS cached,
        regexp_match(CAST(name AS VARCHAR), '^step\[(\w+) bs=(\d+)[^\]]*\]\z') AS sglang,
        regexp_match(CAST(name AS VARCHAR), '^step\[[^\]]* toks=(\d+)') AS sglang_tokens
    FROM (
        SELECT DISTINCT name FROM annotations
        WHERE NOT on_device AND (name LIKE 'execute\_%context\_%\_generation\_%' OR name LIKE 'step[%')
    )
),
counts AS (
    SELECT
        name, 0 AS dialect,
        CAST(vllm[1] AS BIGINT) AS prefill_request_count,
        CAST(vllm[2] AS BIGINT) AS prefill_token_count,
        CAST(vllm[3] AS BIGINT) AS decode_request_count,
        CAST(vllm[4] AS BIGINT) AS decode_token_count,
        CAST(cached[1] AS BIGINT) + CAST(cached[3] AS BIGINT) AS kv_token_count,
        CAST(cached[2] AS BIGINT) + CAST(cached[4] AS BIGINT) AS attention_pair_count
    FROM names
    WHERE vllm IS NOT NULL
    UNION ALL
    SELECT
        name, 1,
        CASE WHEN sglang[1] = 'DECODE' THEN 0 ELSE CAST(sglang[2] AS BIGINT) END,
        CASE WHEN sglang[1] = 'DECODE' THEN 0 ELSE CAST(sglang_tokens[1] AS BIGINT) END,
        CASE WHEN sglang[1] = 'DECODE' THEN CAST(sglang[2] AS BIGINT) ELSE 0 END,
        CASE WHEN sglang[1] = 'DECODE' THEN CAST(sglang[2] AS BIGINT) ELSE 0 END,
        NULL, NULL
    FROM names
    WHERE sglang IS NOT NULL
),
marks AS (
    SELECT
        a.rank, a.event_id, a.ts_ns, a.dur_ns, c.*,
        min(c.dialect) OVER (PARTITION BY a.rank) AS first_dialect
    FROM annotations a
    JOIN counts c ON c.name = a.name
    WHERE NOT a.on_device
),
-- Marks of one dialect follow each other on a rank.
numbered AS (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY ts_ns, event_id) AS number
    FROM marks
    WHERE dialect = first_dialect
),
moments AS (
    SELECT rank, ts_ns, 0 AS place, number, ts_ns + dur_ns AS end_ns, 0 AS dur_ns, 0 AS cache_ns FROM numbered
    UNION ALL
    SELECT
        rank, launch_ts_ns, 1, NULL, NULL, dur_ns,
        CASE
            WHEN name LIKE '%reshape\_and\_cache%' OR name LIKE '%set\_kv\_buffer%' OR name LIKE '%store\_kv\_cache%'
                OR name LIKE '%concat\_and\_cache%'
            THEN dur_ns ELSE 0
        END
    FROM device_work
    WHERE launch_ts_ns IS NOT NULL
),
placed AS (
    SELECT
        rank, ts_ns, place, dur_ns, cache_ns,
        running_max!(number, PARTITION BY rank ORDER BY ts_ns, place, number) AS number,
        running_max!(end_ns, PARTITION BY rank ORDER BY ts_ns, place, number) AS until_ns
    FROM moments
),
launched AS (
    SELECT rank, number, count(*) AS kernel_count, sum(dur_ns) AS device_ns, sum(cache_ns) AS cache_write_ns
    FROM placed
    WHERE place = 1 AND ts_ns < until_ns
    GROUP BY rank, number
)
SELECT
    n.rank, n.event_id, n.name,
    CASE
        WHEN n.prefill_request_count > 0 AND n.decode_request_count > 0 THEN 'mixed'
        WHEN n.prefill_request_count > 0 THEN 'prefill'
        ELSE 'decode'
    END AS kind,
    n.ts_ns, n.dur_ns, n.prefill_request_count, n.prefill_token_count, n.decode_request_count, n.decode_token_count,
    n.kv_token_count, n.attention_pair_count,
    coalesce(l.kernel_count, 0) AS kernel_count, coalesce(l.device_ns, 0) AS device_ns,
    coalesce(l.cache_write_ns, 0) AS cache_write_ns
FROM numbered n
LEFT JOIN launched l ON l.rank = n.rank AND l.number = n.number
