--! question = "Which annotations mark the steps of an inference engine, and what does each step serve?"
--! row = "one step of the engine"
--! window = "recording"
--! needs = ["annotations"]
--! order = ["rank", "ts_ns", "event_id"]
--! when_empty = "the trace holds no steps of an inference engine: vLLM records them as execute_context_..., SGLang as step[DECODE bs=...]"
--! [columns]
--! rank = "rank"
--! event_id = "annotation"
--! name = "its name"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration on the host", unit = "ns" }
--! prefill_request_count = { doc = "requests whose prompt is processed", unit = "count" }
--! prefill_token_count = { doc = "tokens of these prompts in this step", unit = "count" }
--! decode_request_count = { doc = "requests that get their next token", unit = "count" }
--! decode_token_count = { doc = "tokens that enter the model for them: one for each request, more with speculative decoding", unit = "count" }
--! kv_token_count = { doc = "tokens in the caches that attention reads, over all requests; absent where the name does not state it", unit = "count" }
--! attention_pair_count = { doc = "pairs of a new token and a token that it attends to: all before it and itself, over all requests; absent where the name does not state it", unit = "count" }
-- A name with a longer number marks nothing: no engine serves so many tokens.
-- vLLM: execute_<tokens>_context_<requests>(<tokens>)_generation_<requests>(<tokens>); newer versions write sq, sk, sqsq and sqsk
-- in the parentheses: sums over requests of new tokens, of tokens in the cache, and of their squares and products. SGLang:
-- step[DECODE bs=8], step[EXTEND bs=2 toks=512]; it may record vLLM's marks, too, which say more.
WITH names AS (
    SELECT
        name,
        regexp_match(CAST(name AS VARCHAR), 'context_(\d{1,12})\((?:sq)?(\d{1,12})(?:s[sqk0-9]*)?\)_generation_(\d{1,12})\((?:sq)?(\d{1,12})(?:s[sqk0-9]*)?\)') AS vllm,
        regexp_match(CAST(name AS VARCHAR), 'context_\d+\(sq(\d{1,12})sk(\d{1,12})sqsq(\d{1,13})sqsk(\d{1,13})\)_generation_\d+\(sq(\d{1,12})sk(\d{1,12})sqsq(\d{1,13})sqsk(\d{1,13})\)') AS lengths,
        regexp_match(CAST(name AS VARCHAR), '^step\[(\w+) bs=(\d{1,12})(?:[^\]\d][^\]]*)?\]\z') AS sglang,
        regexp_match(CAST(name AS VARCHAR), '^step\[[^\]]* toks=(\d{1,12})(?:\D|\z)') AS sglang_tokens
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
        CAST(lengths[2] AS BIGINT) + CAST(lengths[6] AS BIGINT) AS kv_token_count,
        -- Of n new tokens of a request, the last one attends to the whole cache, the first one to n - 1 tokens less.
        CAST(lengths[4] AS BIGINT) + CAST(lengths[8] AS BIGINT)
            - (CAST(lengths[3] AS BIGINT) + CAST(lengths[7] AS BIGINT) - CAST(lengths[1] AS BIGINT) - CAST(lengths[5] AS BIGINT)) / 2
            AS attention_pair_count
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
)
SELECT
    rank, event_id, name, ts_ns, dur_ns, prefill_request_count, prefill_token_count, decode_request_count, decode_token_count,
    kv_token_count, attention_pair_count
FROM marks
WHERE dialect = first_dialect
