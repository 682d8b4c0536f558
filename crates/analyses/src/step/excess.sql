--! question = "What do slow steps do that the others do not?"
--! row = "one rank whose steps do not all take less than 1.1 times the median"
--! window = "counted_steps"
--! needs = ["step_time", "cpu_ops", "runtime_calls", "memcpys", "op_cpu_work"]
--! order = ["rank"]
--! requires = ["steps", "host_operators"]
--! when_empty = "no step takes 1.1 times as long as the median, or the trace has no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "slow steps: those that take 1.1 times the median or longer", unit = "count", metric = "rank" }
--! excess_ns = { doc = "mean duration of a slow step less that of another", unit = "ns", metric = "rank" }
--! op_count = { doc = "operators called in a slow step, on all threads: the mean", unit = "count", metric = "rank" }
--! usual_op_count = { doc = "operators called in another step: the mean", unit = "count", metric = "rank" }
--! op_excess_ns = { doc = "self time of operators in a slow step less that in another", unit = "ns", metric = "rank" }
--! cause = "other_work: a slow step calls 1.5 times as many operators as another, so it runs another part of the program; slower_operators: the rank works on the CPU alone, a slow step calls as many operators, and most of the excess is in their time, so something else on the machine delays them; absent otherwise"
--! extra_call_name = "operator or function of the device's runtime with most self time in a slow step above that in another, of those that it calls more often"
--! extra_call_count = { doc = "its calls in a slow step less those in another", unit = "count", metric = "rank" }
--! extra_call_ns = { doc = "its self time in a slow step less that in another", unit = "ns", metric = "rank" }
--! extra_copy_name = "kind of copy of which slow steps copy most bytes more than others: Memcpy DtoH (Device -> Pageable)"
--! extra_copy_bytes = { doc = "bytes of it in a slow step less those in another", unit = "bytes", metric = "rank" }
WITH medians AS (
    SELECT rank, median(CAST(dur_ns AS DOUBLE)) AS median_ns
    FROM step_time
    WHERE is_counted AND source <> 'trace'
    GROUP BY rank
),
steps AS (
    SELECT s.rank, s.step, s.dur_ns, s.dur_ns > 1.1 * m.median_ns AS is_slow
    FROM step_time s
    JOIN medians m ON m.rank = s.rank
    WHERE s.is_counted
),
groups AS (
    SELECT
        rank, count_if!(is_slow) AS slow_count, count_if!(NOT is_slow) AS usual_count,
        CAST(sum_if!(dur_ns, is_slow) AS DOUBLE) / nullif(count_if!(is_slow), 0)
            - CAST(sum_if!(dur_ns, NOT is_slow) AS DOUBLE) / nullif(count_if!(NOT is_slow), 0) AS excess_ns
    FROM steps
    GROUP BY rank
    HAVING count_if!(is_slow) > 0 AND count_if!(NOT is_slow) > 0
),
calls AS (
    SELECT
        o.rank, o.is_op, CAST(o.name AS VARCHAR) AS name,
        CAST(count_if!(s.is_slow) AS DOUBLE) / min(g.slow_count) AS slow_calls,
        CAST(count_if!(NOT s.is_slow) AS DOUBLE) / min(g.usual_count) AS usual_calls,
        CAST(sum_if!(o.self_dur_ns, s.is_slow) AS DOUBLE) / min(g.slow_count) AS slow_ns,
        CAST(sum_if!(o.self_dur_ns, NOT s.is_slow) AS DOUBLE) / min(g.usual_count) AS usual_ns
    FROM (
        SELECT rank, step, name, self_dur_ns, true AS is_op FROM cpu_ops
        UNION ALL
        SELECT rank, step, name, self_dur_ns, false FROM runtime_calls
    ) o
    JOIN groups g ON g.rank = o.rank
    JOIN steps s ON s.rank = o.rank AND s.step = o.step
    GROUP BY o.rank, o.name, o.is_op
),
extra AS (
    SELECT rank, name, slow_calls - usual_calls AS extra_calls, slow_ns - usual_ns AS extra_ns,
        row_number() OVER (PARTITION BY rank ORDER BY slow_ns - usual_ns DESC, name) AS place
    FROM calls
    WHERE slow_calls - usual_calls >= 0.5 AND slow_ns > usual_ns
),
copies AS (
    SELECT
        c.rank, c.name,
        CAST(sum_if!(c.bytes, s.is_slow) AS DOUBLE) / min(g.slow_count)
            - CAST(sum_if!(c.bytes, NOT s.is_slow) AS DOUBLE) / min(g.usual_count) AS extra_bytes
    FROM memcpys c
    JOIN groups g ON g.rank = c.rank
    JOIN steps s ON s.rank = c.rank AND s.step = c.step
    GROUP BY c.rank, c.name
),
extra_copies AS (
    SELECT
        rank, first_value(name ORDER BY extra_bytes DESC, name) AS name,
        CAST(round(max(extra_bytes)) AS BIGINT) AS extra_bytes
    FROM copies
    WHERE extra_bytes >= 1
    GROUP BY rank
),
totals AS (
    SELECT rank, sum(slow_calls) AS slow_calls, sum(usual_calls) AS usual_calls, sum(slow_ns) - sum(usual_ns) AS op_excess_ns
    FROM calls
    WHERE is_op
    GROUP BY rank
)
SELECT
    g.rank, g.slow_count AS step_count, g.excess_ns, CAST(round(t.slow_calls) AS BIGINT) AS op_count, CAST(round(t.usual_calls) AS BIGINT) AS usual_op_count, t.op_excess_ns,
    CASE
        WHEN t.slow_calls >= 1.5 * t.usual_calls THEN 'other_work'
        WHEN NOT w.has_device AND NOT w.has_collectives AND t.slow_calls <= 1.05 * t.usual_calls
            AND t.op_excess_ns >= 0.5 * g.excess_ns THEN 'slower_operators'
    END AS cause,
    e.name AS extra_call_name, CAST(round(e.extra_calls) AS BIGINT) AS extra_call_count, e.extra_ns AS extra_call_ns,
    p.name AS extra_copy_name, p.extra_bytes AS extra_copy_bytes
FROM groups g
LEFT JOIN totals t ON t.rank = g.rank
LEFT JOIN op_cpu_work w ON w.rank = g.rank
LEFT JOIN extra_copies p ON p.rank = g.rank
LEFT JOIN extra e ON e.rank = g.rank AND e.place = 1
