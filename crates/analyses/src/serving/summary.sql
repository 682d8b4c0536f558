--! question = "How fast are the prefill and decode steps of an inference server?"
--! row = "one kind of engine steps (prefill, decode, mixed) on one rank"
--! window = "recording"
--! needs = ["serving_steps"]
--! order = ["rank", "kind"]
--! when_empty = "the trace holds no steps of an inference engine: vLLM records them as execute_context_..., SGLang as step[DECODE bs=...]"
--! [columns]
--! rank = "rank"
--! kind = "prefill, decode or mixed"
--! step_count = { doc = "steps", unit = "count" }
--! mean_ns = { doc = "mean time from the start of a step to the start of the next one; of the last step its duration", unit = "ns" }
--! max_ns = { doc = "longest of these times", unit = "ns" }
--! requests_per_step = { doc = "mean number of requests in a step", unit = "number" }
--! prefill_token_count = { doc = "tokens of prompts", unit = "count" }
--! decode_token_count = { doc = "tokens that enter the model in decode", unit = "count" }
--! decode_tokens_per_s = "decode_token_count over the time of these steps, on one rank"
--! prefill_tokens_per_s = "prefill_token_count over the time of these steps, on one rank"
--! device_ratio = { doc = "time of kernels, copies and fills over the time of these steps; above 1 if they overlap", unit = "ratio" }
--! cache_write_ratio = { doc = "share of that device time that writes keys and values into the cache", unit = "ratio" }
-- A trace holds no requests, so that it does not tell the time to the first token: at least that of a prefill step.
WITH steps AS (
    SELECT
        *,
        coalesce(lead(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns, event_id) - ts_ns, dur_ns) AS cycle_ns
    FROM serving_steps
)
SELECT
    rank, kind, count(*) AS step_count,
    avg(CAST(cycle_ns AS DOUBLE)) AS mean_ns,
    max(cycle_ns) AS max_ns,
    avg(CAST(prefill_request_count + decode_request_count AS DOUBLE)) AS requests_per_step,
    sum(prefill_token_count) AS prefill_token_count,
    sum(decode_token_count) AS decode_token_count,
    1e9 * ratio!(sum(decode_token_count), sum(cycle_ns)) AS decode_tokens_per_s,
    1e9 * ratio!(sum(prefill_token_count), sum(cycle_ns)) AS prefill_tokens_per_s,
    ratio!(sum(device_ns), sum(cycle_ns)) AS device_ratio,
    ratio!(sum(cache_write_ns), sum(device_ns)) AS cache_write_ratio
FROM steps
GROUP BY rank, kind
