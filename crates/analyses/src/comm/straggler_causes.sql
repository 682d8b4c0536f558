--! question = "What does the rank that the others wait for do more, or slower, than they do?"
--! row = "one rank that takes part in collectives with others"
--! window = "before_last_step"
--! scope = "run"
--! needs = ["comm_stragglers", "comm_rank_tasks"]
--! order = ["rank"]
--! requires = ["several_ranks"]
--! when_empty = "the run holds fewer than two ranks with the same collectives, or not their times"
--! [columns]
--! rank = "rank"
--! rank_count = { doc = "ranks that were compared; this column and those up to delay_ns are of comm_stragglers", unit = "count", metric = "rank" }
--! collective_count = { doc = "collectives of this rank that could be matched across ranks", unit = "count", metric = "rank" }
--! caused_wait_ns = { doc = "time that the others waited for this rank, per other rank", unit = "ns", metric = "rank" }
--! caused_wait_ratio = { doc = "share of the window", unit = "ratio", metric = "rank" }
--! wait_share_ratio = { doc = "share of all waiting in the run that this rank caused", unit = "ratio", metric = "rank" }
--! step_count = { doc = "steps in which collectives were matched", unit = "count", metric = "rank" }
--! late_step_count = { doc = "of these, steps in which this rank caused at least half of the waiting", unit = "count", metric = "rank" }
--! chance_ratio = { doc = "probability that some rank has so many by chance", unit = "ratio", metric = "rank" }
--! delay_phase = "phase of its largest delay"
--! delay_ns = { doc = "sum of its delays", unit = "ns", metric = "rank" }
--! cause = "what takes at least half of the time that a rank with half of the waiting lost: dataloader; range (a range of the program, outside of operators); shapes (operators with shapes that no other rank has; where kernels take the time, if a fifth of the operators' time is in such); slow_operators (the same operators as on other ranks, as often, but slower); absent if none does"
--! cause_name = "the range, or the operator with the largest part; absent for dataloader"
--! reads_data = "the name of the range says that it reads or prepares data; absent without a range"
--! cause_ns = { doc = "time that the cause takes on this rank beyond the median of the other ranks", unit = "ns", metric = "rank" }
--! name_ns = { doc = "time of cause_name, or of loading, on this rank", unit = "ns", metric = "rank" }
--! others_name_ns = { doc = "the same on the other ranks: their median; for shapes, the most that another rank spends in that operator with shapes of its own", unit = "ns", metric = "rank" }
--! cause_shape = "for shapes, the first input of the operator on this rank, where it takes most time"
--! others_shape = "the same on the other rank with the largest time"
WITH late AS (
    SELECT rank, delay_phase, least(caused_wait_ns, CAST(delay_ns AS DOUBLE)) AS lost_ns
    FROM comm_stragglers
    WHERE wait_share_ratio >= 0.5 AND caused_wait_ns > 0 AND delay_ns > 0
),
-- Each task of a late rank, and what each other rank spends on it.
pairs AS (
    SELECT
        t.rank, t.kind, t.name, t.input_dims, CAST(t.total_ns AS DOUBLE) AS own_ns, t.call_count,
        CAST(u.total_ns AS DOUBLE) AS other_ns, u.call_count AS other_count
    FROM comm_rank_tasks t
    JOIN late l ON l.rank = t.rank
    JOIN comm_stragglers o ON o.rank <> t.rank
    LEFT JOIN comm_rank_tasks u ON u.rank = o.rank AND u.kind = t.kind AND u.name = t.name AND u.input_dims = t.input_dims
),
compared AS (
    SELECT
        rank, kind, name, input_dims, max(own_ns) AS own_ns, median(coalesce(other_ns, 0.0)) AS others_ns,
        count(other_ns) = 0 AS is_own,
        bool_and(coalesce(other_count = call_count, false)) AS is_equal
    FROM pairs
    GROUP BY rank, kind, name, input_dims
),
-- Operators of other ranks with shapes that the late rank does not have.
theirs AS (
    SELECT l.rank, u.rank AS other, u.name, u.input_dims, CAST(u.total_ns AS DOUBLE) AS other_ns
    FROM late l
    JOIN comm_rank_tasks u ON u.rank <> l.rank AND u.kind = 'operator' AND u.input_dims <> ''
    LEFT JOIN comm_rank_tasks t ON t.rank = l.rank AND t.kind = 'operator' AND t.name = u.name AND t.input_dims = u.input_dims
    WHERE t.rank IS NULL
),
their_sums AS (
    SELECT rank, median(other_ns) AS others_ns
    FROM (SELECT rank, other, sum(other_ns) AS other_ns FROM theirs GROUP BY rank, other)
    GROUP BY rank
),
their_names AS (
    SELECT
        rank, name, max(other_ns) AS others_ns,
        first_value(input_dims ORDER BY other_ns DESC, input_dims) AS input_dims
    FROM theirs
    GROUP BY rank, name
),
candidates AS (
    SELECT
        rank, 1 AS place, false AS is_uneven, 'dataloader' AS cause, own_ns - others_ns AS cause_ns, CAST(NULL AS VARCHAR) AS cause_name,
        own_ns AS name_ns, others_ns AS others_name_ns, CAST(NULL AS VARCHAR) AS own_dims, CAST(NULL AS VARCHAR) AS their_dims
    FROM compared
    WHERE kind = 'dataloader'
    UNION ALL
    SELECT
        rank, 2, false, 'range', own_ns - others_ns, name, own_ns, others_ns, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR)
    FROM (
        SELECT *, row_number() OVER (PARTITION BY rank ORDER BY own_ns - others_ns DESC, name) AS number
        FROM compared
        WHERE kind = 'range'
    )
    WHERE number = 1
    UNION ALL
    SELECT
        s.rank, 3, 5 * s.own_ns > s.all_ns, 'shapes', s.own_ns - coalesce(t.others_ns, 0.0), s.name, s.name_ns, n.others_ns, s.input_dims, n.input_dims
    FROM (
        SELECT
            rank, sum(own_ns) AS all_ns, sum_if!(own_ns, is_own) AS own_ns, max(CASE WHEN is_own THEN own_ns END) AS name_ns,
            first_value(name ORDER BY own_ns DESC, name) FILTER (WHERE is_own) AS name,
            first_value(input_dims ORDER BY own_ns DESC, name) FILTER (WHERE is_own) AS input_dims
        FROM compared
        WHERE kind = 'operator' AND input_dims <> ''
        GROUP BY rank
        HAVING bool_or(is_own)
    ) s
    LEFT JOIN their_sums t ON t.rank = s.rank
    LEFT JOIN their_names n ON n.rank = s.rank AND n.name = s.name
    UNION ALL
    SELECT
        e.rank, 4, false, 'slow_operators', e.cause_ns, n.name, n.own_ns, n.others_ns, CAST(NULL AS VARCHAR), CAST(NULL AS VARCHAR)
    FROM (
        SELECT rank, sum(own_ns - others_ns) AS cause_ns FROM compared WHERE kind = 'operator' AND is_equal GROUP BY rank
    ) e
    JOIN (
        SELECT *, row_number() OVER (PARTITION BY rank ORDER BY own_ns - others_ns DESC, name) AS number
        FROM (
            SELECT rank, name, sum(own_ns) AS own_ns, sum(others_ns) AS others_ns
            FROM compared
            WHERE kind = 'operator' AND is_equal
            GROUP BY rank, name
        )
    ) n ON n.rank = e.rank AND n.number = 1
),
causes AS (
    SELECT *, row_number() OVER (PARTITION BY rank ORDER BY place) AS number
    FROM (
        -- The time of kernels does not show on the host, but shapes do.
        SELECT c.*
        FROM candidates c
        JOIN late l ON l.rank = c.rank
        WHERE CASE WHEN l.delay_phase = 'device' THEN c.is_uneven ELSE 2 * c.cause_ns >= l.lost_ns END
    )
)
SELECT
    s.rank, s.rank_count, s.collective_count, s.caused_wait_ns, s.caused_wait_ratio, s.wait_share_ratio, s.step_count,
    s.late_step_count, s.chance_ratio, s.delay_phase, s.delay_ns,
    c.cause, c.cause_name,
    CASE WHEN c.cause = 'range' THEN regexp_like(c.cause_name, '(?i)read|load|fetch|data|input|batch|storage|download|decod|augment|preproc|tokeniz|collat|sampl') END AS reads_data,
    c.cause_ns, c.name_ns, c.others_name_ns,
    CASE WHEN c.own_dims LIKE '[[%' THEN regexp_replace(c.own_dims, '^\[(\[[^\]]*\]).*\z', '\1') END AS cause_shape,
    CASE WHEN c.their_dims LIKE '[[%' THEN regexp_replace(c.their_dims, '^\[(\[[^\]]*\]).*\z', '\1') END AS others_shape
FROM comm_stragglers s
LEFT JOIN causes c ON c.rank = s.rank AND c.number = 1
ORDER BY s.rank
