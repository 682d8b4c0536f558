--! question = "Do all ranks do the same amount of work and exchange the same number of bytes?"
--! row = "one rank: its share of work and communication compared with the other ranks"
--! window = "recording"
--! scope = "run"
--! needs = ["comm_arrivals", "comm_collectives", "comm_matches", "comm_exposed", "kernels", "ranks"]
--! order = ["rank"]
--! when_empty = "no trace was read"
--! [columns]
--! rank = "rank"
--! rank_count = { doc = "ranks that were read", unit = "count", metric = "rank" }
--! exchange_count = { doc = "all_to_all matched between all ranks that were read, of one type and known size", unit = "count", metric = "rank" }
--! exchange_bytes = { doc = "bytes this rank hands in to them", unit = "bytes", metric = "rank" }
--! exchange_mean_bytes = { doc = "the mean over ranks", unit = "bytes", metric = "rank" }
--! imbalance = { doc = "of each all_to_all, the most that any rank hands in, over the mean, weighted by that mean; absent without", unit = "number", metric = "rank" }
--! has_most = "this rank hands in most"
--! exchange_exposed_ratio = { doc = "exposed share of communication, times the share of all_to_all in its time", unit = "ratio", metric = "rank" }
--! kernel_count = { doc = "computing kernels of the rank in complete steps", unit = "count", metric = "rank" }
--! kernel_median_count = { doc = "their median over ranks", unit = "count", metric = "rank" }
--! divergence_ratio = { doc = "distance of kernel_count from that median, divided by the median; absent with a single rank or without kernels", unit = "ratio", metric = "rank" }
--! different_count = { doc = "collectives of the run with one number and different names on different ranks", unit = "count", metric = "rank" }
--! divergent_count = { doc = "of these, those in which this rank has another name than most (comm_matches.divergent_rank)", unit = "count", metric = "rank" }
--! divergent_name = "the collective that it calls there, the first in the alphabet"
--! usual_name = "the collective that the lowest of the other ranks calls there"
--! unordered_count = { doc = "collectives of the run that could not be matched since ranks have different counts of them", unit = "count", metric = "rank" }
WITH exchanges AS (
    SELECT a.rank, a.match, c.dtype, CAST(c.input_bytes AS DOUBLE) AS bytes
    FROM comm_arrivals a
    JOIN comm_collectives c ON c.rank = a.rank AND c.collective = a.collective
    WHERE c.name = 'all_to_all' AND c.input_bytes > 0
),
by_match AS (
    SELECT match, avg(bytes) AS mean_bytes, max(bytes) AS max_bytes
    FROM exchanges
    GROUP BY match
    HAVING count(*) > 1 AND count(DISTINCT dtype) <= 1
),
overall AS (
    SELECT sum(max_bytes) / nullif(sum(mean_bytes), 0) AS imbalance FROM by_match
),
sent AS (
    SELECT e.rank, count(*) AS exchange_count, sum(e.bytes) AS bytes
    FROM exchanges e
    JOIN by_match m ON m.match = e.match
    GROUP BY e.rank
),
shares AS (
    SELECT
        rank,
        ratio!(sum_if!(dur_ns, name = 'all_to_all'), sum(dur_ns)) AS exchange_share
    FROM comm_collectives
    GROUP BY rank
),
counts AS (
    SELECT r.rank, count(k.event_id) AS kernel_count
    FROM ranks r
    LEFT JOIN kernels k ON k.rank = r.rank AND k.kind = 'computation'
        AND (r.cut_ns IS NULL OR (k.launch_ts_ns < r.cut_ns AND k.step IS NOT NULL))
    GROUP BY r.rank
),
medians AS (
    SELECT median(CAST(kernel_count AS DOUBLE)) AS kernel_median_count, count(*) AS rank_count FROM counts
),
mismatches AS (
    SELECT
        count_if!(status = 'different names') AS different_count,
        count_if!(status = 'ambiguous order') AS unordered_count
    FROM comm_matches
),
divergent AS (
    SELECT
        divergent_rank AS rank,
        count(*) AS divergent_count,
        min(divergent_name) AS divergent_name,
        min(CASE WHEN name <> divergent_name THEN name END) AS usual_name
    FROM comm_matches
    WHERE divergent_rank IS NOT NULL
    GROUP BY divergent_rank
)
SELECT
    r.rank, m.rank_count,
    coalesce(s.exchange_count, 0) AS exchange_count,
    CAST(s.bytes AS BIGINT) AS exchange_bytes,
    avg(s.bytes) OVER () AS exchange_mean_bytes,
    CASE WHEN s.rank IS NOT NULL THEN o.imbalance END AS imbalance,
    s.bytes IS NOT NULL AND s.bytes = max(s.bytes) OVER () AS has_most,
    e.exposed_ratio * h.exchange_share AS exchange_exposed_ratio,
    c.kernel_count,
    m.kernel_median_count,
    CASE WHEN m.rank_count > 1 THEN greatest(c.kernel_count - m.kernel_median_count,
        m.kernel_median_count - c.kernel_count) / nullif(m.kernel_median_count, 0) END AS divergence_ratio,
    coalesce(x.different_count, 0) AS different_count,
    coalesce(v.divergent_count, 0) AS divergent_count,
    v.divergent_name,
    v.usual_name,
    coalesce(x.unordered_count, 0) AS unordered_count
FROM ranks r
JOIN counts c ON c.rank = r.rank
CROSS JOIN medians m
CROSS JOIN overall o
CROSS JOIN mismatches x
LEFT JOIN sent s ON s.rank = r.rank
LEFT JOIN divergent v ON v.rank = r.rank
LEFT JOIN shares h ON h.rank = r.rank
LEFT JOIN comm_exposed e ON e.rank = r.rank
