--! question = "Do all ranks compute the same number of tokens in mixtures of experts?"
--! row = "one rank"
--! window = "recording"
--! scope = "run"
--! needs = ["cpu_ops", "kernels", "ranks", "active_ranks"]
--! order = ["rank"]
--! when_empty = "no trace was read"
--! [columns]
--! rank = "rank"
--! has_timeline = "the rank has operators or kernels, which would show what the view is about"
--! rank_count = { doc = "ranks that compute experts", unit = "count", metric = "rank" }
--! call_count = { doc = "calls of operators that multiply groups of tokens, with recorded shapes: aten::_grouped_mm, grouped_gemm, fused_experts; 0 without", unit = "count", metric = "rank" }
--! token_count = { doc = "tokens that enter these calls: the first dimension of the first matrix", unit = "count", metric = "rank" }
--! mean_token_count = { doc = "the mean of token_count over the ranks that compute experts", unit = "count", metric = "rank" }
--! token_load = { doc = "token_count over that mean", unit = "number", metric = "rank" }
--! imbalance = { doc = "the most tokens of one rank over the mean; absent where ranks have different numbers of calls, or with a single rank", unit = "number", metric = "rank" }
--! has_most = "this rank computes the most tokens"
--! expert_ns = { doc = "time of the kernels that these calls launch", unit = "ns", metric = "rank" }
--! recording_ns = { doc = "length of the recording", unit = "ns", metric = "rank" }
--! expert_ratio = { doc = "expert_ns over the recording", unit = "ratio", metric = "rank" }
-- Shapes repeat: each is read once.
WITH shapes AS (
    SELECT
        name, input_dims,
        TRY_CAST((regexp_match(CAST(input_dims AS VARCHAR), '^\[\[(\d+), \d+\]'))[1] AS BIGINT) AS token_count
    FROM (
        SELECT DISTINCT name, input_dims
        FROM cpu_ops
        WHERE input_dims IS NOT NULL
            AND (name = 'aten::_grouped_mm' OR name LIKE '%grouped\_gemm%' OR name LIKE '%GroupedGemm%'
                OR name LIKE '%fused\_experts%' OR name LIKE '%fused\_moe%' OR name LIKE '%::gmm')
    )
),
calls AS (
    SELECT o.rank, o.event_id, s.token_count
    FROM cpu_ops o
    JOIN shapes s ON s.name = o.name AND s.input_dims = o.input_dims
    WHERE s.token_count IS NOT NULL
),
times AS (
    SELECT k.rank, sum(k.dur_ns) AS expert_ns
    FROM kernels k
    JOIN calls c ON c.rank = k.rank AND c.event_id = k.op
    GROUP BY k.rank
),
sums AS (
    SELECT rank, count(*) AS call_count, sum(token_count) AS token_count FROM calls GROUP BY rank
),
compared AS (
    SELECT
        *,
        count(*) OVER () AS rank_count,
        avg(CAST(token_count AS DOUBLE)) OVER () AS mean_token_count,
        max(token_count) OVER () AS most_token_count,
        min(call_count) OVER () = max(call_count) OVER () AS has_equal_calls
    FROM sums
)
SELECT
    r.rank, h.rank IS NOT NULL AS has_timeline, coalesce(c.rank_count, 0) AS rank_count, coalesce(c.call_count, 0) AS call_count,
    coalesce(c.token_count, 0) AS token_count, c.mean_token_count,
    ratio!(c.token_count, c.mean_token_count) AS token_load,
    CASE WHEN c.rank_count > 1 AND c.has_equal_calls THEN ratio!(c.most_token_count, c.mean_token_count) END AS imbalance,
    coalesce(c.token_count = c.most_token_count, false) AS has_most,
    coalesce(t.expert_ns, 0) AS expert_ns,
    r.end_ns - r.start_ns AS recording_ns,
    ratio!(coalesce(t.expert_ns, 0), r.end_ns - r.start_ns) AS expert_ratio
FROM ranks r
LEFT JOIN active_ranks h ON h.rank = r.rank
LEFT JOIN compared c ON c.rank = r.rank
LEFT JOIN times t ON t.rank = r.rank
