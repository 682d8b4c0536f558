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
--! mean_ns = { doc = "mean time between the starts of the work of two consecutive steps: on the device, or on the host if no step has device work; the last step is left out", unit = "ns" }
--! max_ns = { doc = "longest of these times", unit = "ns" }
--! mean_work_ns = { doc = "mean duration of the work of a step: on the device, or on the host if the step has no device work", unit = "ns" }
--! requests_per_step = { doc = "mean number of requests in a step", unit = "number" }
--! prefill_token_count = { doc = "tokens of prompts", unit = "count" }
--! decode_token_count = { doc = "tokens that enter the model in decode", unit = "count" }
--! decode_tokens_per_s = "decode_token_count over the time of the steps that another step follows, on one rank; absent for a single step"
--! prefill_tokens_per_s = "prefill_token_count over the same time; absent for a single step"
--! device_ratio = { doc = "time of kernels, copies and fills over the same time; above 1 only where several streams overlap", unit = "ratio" }
--! cache_write_ratio = { doc = "share of that device time that writes keys and values into the cache", unit = "ratio" }
-- A trace holds no requests, so that it does not tell the time to the first token: at least that of a prefill step.
-- The host only launches a step: its marks say when, not how long the step takes. A last step has no known time: the host
-- and the device may go on with work that was not recorded.
WITH followed AS (
    SELECT
        *,
        coalesce(work_ts_ns, ts_ns) AS start_ns,
        lead(coalesce(work_ts_ns, ts_ns)) OVER steps_alike AS next_start_ns,
        count(work_ts_ns) OVER (PARTITION BY rank) AS worked_count
    FROM serving_steps
    WINDOW steps_alike AS (PARTITION BY rank, work_ts_ns IS NULL ORDER BY ts_ns, event_id)
),
steps AS (
    SELECT
        *,
        coalesce(work_end_ns - work_ts_ns, dur_ns) AS work_ns,
        CASE
            WHEN next_start_ns > start_ns AND (work_ts_ns IS NOT NULL OR worked_count = 0) THEN next_start_ns - start_ns
        END AS cycle_ns
    FROM followed
)
SELECT
    rank, kind, count(*) AS step_count,
    avg(CAST(cycle_ns AS DOUBLE)) AS mean_ns,
    max(cycle_ns) AS max_ns,
    avg(CAST(work_ns AS DOUBLE)) AS mean_work_ns,
    avg(CAST(prefill_request_count + decode_request_count AS DOUBLE)) AS requests_per_step,
    sum(prefill_token_count) AS prefill_token_count,
    sum(decode_token_count) AS decode_token_count,
    1e9 * ratio!(sum_if!(decode_token_count, cycle_ns IS NOT NULL), sum(cycle_ns)) AS decode_tokens_per_s,
    1e9 * ratio!(sum_if!(prefill_token_count, cycle_ns IS NOT NULL), sum(cycle_ns)) AS prefill_tokens_per_s,
    ratio!(sum_if!(device_ns, cycle_ns IS NOT NULL), sum(cycle_ns)) AS device_ratio,
    ratio!(sum(cache_write_ns), sum(device_ns)) AS cache_write_ratio
FROM steps
GROUP BY rank, kind
