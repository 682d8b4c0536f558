--! question = "Were all operators recorded, or only a sample?"
--! row = "one rank: share of its operators that were recorded"
--! window = "recording"
--! needs = ["cpu_ops"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "the trace holds no operators: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [columns]
--! rank = "rank"
--! op_count = { doc = "operators with a number, Kineto's External id", unit = "count", metric = "rank" }
--! missing_count = { doc = "numbers between the first and the last that no operator has; the five longest stretches of such numbers are left out, which are pauses of the profiler", unit = "count", metric = "rank" }
--! recorded_ratio = { doc = "share of the numbers that operators have: PyTorch numbers operators one after the other; absent without numbers", unit = "ratio", metric = "rank" }
--! is_sampled = "fewer than half of 200 numbers or more were recorded: somebody thinned the trace out"
WITH numbers AS (
    SELECT rank, external_id - lag(external_id) OVER (PARTITION BY rank ORDER BY external_id) AS distance
    FROM cpu_ops
    WHERE external_id > 0
),
counts AS (
    SELECT rank, count_if!(distance IS NULL OR distance > 0) AS op_count FROM numbers GROUP BY rank
),
ranked AS (
    SELECT rank, distance - 1 AS missing, row_number() OVER (PARTITION BY rank ORDER BY distance DESC) AS place
    FROM numbers
    WHERE distance > 1
),
missing AS (
    SELECT rank, sum(missing) AS missing_count FROM ranked WHERE place > 5 GROUP BY rank
),
counted AS (
    SELECT
        r.rank,
        CAST(coalesce(n.op_count, 0) AS BIGINT) AS op_count,
        CAST(coalesce(m.missing_count, 0) AS BIGINT) AS missing_count
    FROM (SELECT DISTINCT rank FROM cpu_ops) r
    LEFT JOIN counts n ON n.rank = r.rank
    LEFT JOIN missing m ON m.rank = r.rank
)
SELECT
    rank, op_count, missing_count,
    ratio!(op_count, op_count + missing_count) AS recorded_ratio,
    op_count + missing_count >= 200 AND op_count < missing_count AS is_sampled
FROM counted
ORDER BY rank
