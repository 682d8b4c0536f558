--! question = "What does each step of an inference engine serve: prefill, decode, how many requests and tokens?"
--! row = "one step of the engine"
--! window = "recording"
--! needs = ["serving_marks", "serving_work"]
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
--! attention_pair_count = { doc = "pairs of a new token and a token that it attends to, see serving_marks; absent where the name does not state it", unit = "count" }
--! work_ts_ns = { doc = "start of the first kernel, copy or fill launched in the step; absent without device work", unit = "ns" }
--! work_end_ns = { doc = "end of the last one", unit = "ns" }
--! kernel_count = { doc = "kernels, copies and fills launched in the step", unit = "count" }
--! device_ns = { doc = "their time, overlap not merged", unit = "ns" }
--! cache_write_ns = { doc = "part of device_ns of kernels that write keys and values into the cache", unit = "ns" }
--! attention_ns = { doc = "part of device_ns in attention, without these writes", unit = "ns" }
WITH launched AS (
    SELECT
        rank, mark, min(ts_ns) AS work_ts_ns, max(ts_ns + dur_ns) AS work_end_ns,
        count(*) AS kernel_count, sum(dur_ns) AS device_ns,
        sum_if!(dur_ns, part = 'cache write') AS cache_write_ns,
        sum_if!(dur_ns, part = 'attention') AS attention_ns
    FROM serving_work
    GROUP BY rank, mark
)
SELECT
    m.rank, m.event_id, m.name,
    CASE
        WHEN m.prefill_request_count > 0 AND m.decode_request_count > 0 THEN 'mixed'
        WHEN m.prefill_request_count > 0 THEN 'prefill'
        ELSE 'decode'
    END AS kind,
    m.ts_ns, m.dur_ns, m.prefill_request_count, m.prefill_token_count, m.decode_request_count, m.decode_token_count,
    m.kv_token_count, m.attention_pair_count, l.work_ts_ns, l.work_end_ns,
    coalesce(l.kernel_count, 0) AS kernel_count, coalesce(l.device_ns, 0) AS device_ns,
    coalesce(l.cache_write_ns, 0) AS cache_write_ns, coalesce(l.attention_ns, 0) AS attention_ns
FROM serving_marks m
LEFT JOIN launched l ON l.rank = m.rank AND l.mark = m.event_id
