--! question = "How long is a step: mean, median, spread?"
--! row = "one rank"
--! window = "counted_steps"
--! needs = ["step_time", "step_excess"]
--! order = ["rank"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! source = "kind of mark: profiler_step, engine, optimizer or trace (no steps found: the whole recording as one)"
--! step_count = { doc = "steps that count, see step_time.is_counted; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! mean_ns = { doc = "mean step time", unit = "ns", metric = "rank" }
--! median_ns = { doc = "median step time", unit = "ns", metric = "rank" }
--! min_ns = { doc = "shortest step", unit = "ns", metric = "rank" }
--! max_ns = { doc = "longest step", unit = "ns", metric = "rank" }
--! std_ns = { doc = "standard deviation of step time (sample); absent with fewer than 2 steps", unit = "ns", metric = "rank" }
--! cv_ratio = { doc = "standard deviation over mean; absent with fewer than 2 steps", unit = "ratio", metric = "rank" }
--! outlier_excess_ratio = { doc = "share of all step time by which steps longer than the median by more than 3 robust standard deviations (1.4826 times the median absolute deviation) exceed the median; absent with fewer than 5 steps", unit = "ratio", metric = "rank" }
--! slow_cause = "why some steps take 1.1 times the median or longer: other_work or slower_operators, see step_excess.cause"
WITH steps AS (
    SELECT rank, source, dur_ns FROM step_time WHERE is_counted
),
medians AS (
    SELECT rank, median(CAST(dur_ns AS DOUBLE)) AS median_ns FROM steps GROUP BY rank
),
deviations AS (
    SELECT
        s.rank, s.source, CAST(s.dur_ns AS DOUBLE) AS dur_ns, m.median_ns,
        greatest(s.dur_ns - m.median_ns, m.median_ns - s.dur_ns) AS deviation_ns
    FROM steps s
    JOIN medians m ON m.rank = s.rank
),
spreads AS (
    SELECT rank, 3 * 1.4826 * median(deviation_ns) AS limit_ns FROM deviations GROUP BY rank
)
SELECT
    d.rank,
    min(d.source) AS source,
    sum(CASE WHEN d.source = 'trace' THEN 0 ELSE 1 END) AS step_count,
    avg(d.dur_ns) AS mean_ns,
    min(d.median_ns) AS median_ns,
    CAST(min(d.dur_ns) AS BIGINT) AS min_ns,
    CAST(max(d.dur_ns) AS BIGINT) AS max_ns,
    stddev_samp(d.dur_ns) AS std_ns,
    stddev_samp(d.dur_ns) / nullif(avg(d.dur_ns), 0) AS cv_ratio,
    CASE
        WHEN count(*) >= 5 THEN
            sum_if!(d.dur_ns - d.median_ns, d.dur_ns > d.median_ns + s.limit_ns)
            / nullif(sum(d.dur_ns), 0)
    END AS outlier_excess_ratio,
    min(x.cause) AS slow_cause
FROM deviations d
JOIN spreads s ON s.rank = d.rank
LEFT JOIN step_excess x ON x.rank = d.rank
GROUP BY d.rank
