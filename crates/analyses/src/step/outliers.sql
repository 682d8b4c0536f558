--! question = "Are some steps much slower than the others, and do they recur?"
--! row = "one rank: outlier steps, and the interval at which they recur"
--! window = "counted_steps"
--! needs = ["step_time", "step_phases_by_step", "step_excess"]
--! order = ["rank"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps that count, see step_time.is_counted; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! median_ns = { doc = "median step time", unit = "ns", metric = "rank" }
--! limit_ns = { doc = "a step longer than this stands out: the median and 3 robust standard deviations (1.4826 times the median absolute deviation)", unit = "ns", metric = "rank" }
--! outlier_count = { doc = "steps that stand out; absent with fewer than 5 steps", unit = "count", metric = "rank" }
--! excess_ns = { doc = "their time beyond the median, added up; absent with fewer than 5 steps", unit = "ns", metric = "rank" }
--! excess_ratio = { doc = "share of all step time; absent with fewer than 5 steps", unit = "ratio", metric = "rank" }
--! worst_step = "the longest of them"
--! worst_ns = { doc = "its time", unit = "ns", metric = "rank" }
--! worst_is_first = "it is the first step of the recording"
--! worst_phase = "phase on the host (dataloader, forward, backward, optimizer or other) in which it exceeds the median step most"
--! worst_phase_excess_ns = { doc = "by how much", unit = "ns", metric = "rank" }
--! ts_ns = { doc = "start of that step", unit = "ns" }
--! dur_ns = { doc = "its duration; both absent if none stands out", unit = "ns" }
--! period = { doc = "slow steps come every so many steps: the smallest number of 2 to 64 at which one phase of the steps is slower than all others together by most, in 2 or more whole periods; absent if there is none", unit = "number", metric = "rank" }
--! period_count = { doc = "slow steps at that interval", unit = "count", metric = "rank" }
--! period_excess_ratio = { doc = "excess of these steps over the median, as a share of all step time; 0 if there is no period, absent with fewer than 6 steps", unit = "ratio", metric = "rank" }
--! period_phase = "phase on the host in which they exceed the median step most"
--! slow_cause = "why steps are slow: other_work or slower_operators, see step_excess.cause"
--! slow_op_count = { doc = "operators called in a slow step: one that takes 1.1 times the median or longer", unit = "count", metric = "rank" }
--! usual_op_count = { doc = "operators called in another step", unit = "count", metric = "rank" }
--! extra_call_name = "operator or runtime function that slow steps call more often, with most self time above that in another step; the columns extra_call describe it, too"
--! extra_call_count = { doc = "its calls in a slow step less those in another", unit = "count", metric = "rank" }
--! extra_call_ns = { doc = "its self time in a slow step less that in another", unit = "ns", metric = "rank" }
--! extra_copy_name = "kind of copy of which slow steps copy most bytes more than others; absent if they copy no more"
--! extra_copy_bytes = { doc = "bytes of it in a slow step less those in another", unit = "bytes", metric = "rank" }
WITH steps AS (
    SELECT
        rank, step, source, ts_ns, dur_ns, is_counted,
        CAST(row_number() OVER (PARTITION BY rank ORDER BY ts_ns) AS BIGINT) AS position
    FROM step_time
),
compared AS (
    SELECT * FROM steps WHERE is_counted
),
medians AS (
    SELECT rank, median(CAST(dur_ns AS DOUBLE)) AS median_ns, count(*) AS row_count FROM compared GROUP BY rank
),
deviations AS (
    SELECT
        s.rank, s.step, s.source, s.ts_ns, CAST(s.dur_ns AS DOUBLE) AS dur_ns, m.median_ns, m.row_count,
        greatest(s.dur_ns - m.median_ns, m.median_ns - s.dur_ns) AS deviation_ns, s.position
    FROM compared s
    JOIN medians m ON m.rank = s.rank
),
limits AS (
    SELECT rank, min(median_ns) + 3 * 1.4826 * median(deviation_ns) AS limit_ns FROM deviations GROUP BY rank
),
classified AS (
    SELECT
        d.*, l.limit_ns,
        d.dur_ns > l.limit_ns AND d.dur_ns > 1.02 * d.median_ns AS stands_out,
        row_number() OVER (PARTITION BY d.rank ORDER BY d.dur_ns DESC, d.position) AS place
    FROM deviations d
    JOIN limits l ON l.rank = d.rank
),
-- A period k: the steps that stand out are those at one position modulo k, all of them and no others.
candidates AS (
    SELECT rank, k, position % k AS remainder, count(*) AS step_count, count_if!(stands_out) AS out_count,
        sum_if!(dur_ns - median_ns, stands_out) AS excess_ns
    FROM classified
    CROSS JOIN (SELECT column1 AS k FROM (VALUES
        (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (20), (24), (25), (32), (40), (48), (50), (64)))
    WHERE row_count >= 2 * k AND row_count >= 6
    GROUP BY rank, k, position % k
),
outs AS (
    SELECT
        rank,
        count_if!(stands_out) AS outlier_count,
        sum_if!(dur_ns - median_ns, stands_out) AS excess_ns,
        sum(dur_ns) AS sum_ns,
        max(CASE WHEN place = 1 AND stands_out THEN step END) AS worst_step,
        max(CASE WHEN place = 1 AND stands_out THEN position END) AS worst_position,
        max(CASE WHEN place = 1 AND stands_out THEN ts_ns END) AS worst_ts_ns,
        max(CASE WHEN place = 1 AND stands_out THEN dur_ns END) AS worst_ns
    FROM classified
    GROUP BY rank
),
periods AS (
    SELECT rank, first_value(k ORDER BY k) AS period, first_value(remainder ORDER BY k) AS remainder,
        first_value(out_count ORDER BY k) AS period_count, first_value(excess_ns ORDER BY k) AS excess_ns
    FROM (
        SELECT c.rank, c.k, c.remainder, c.out_count, c.excess_ns
        FROM candidates c
        JOIN outs o ON o.rank = c.rank
        WHERE c.out_count >= 2 AND c.out_count = c.step_count AND c.out_count >= 0.8 * o.outlier_count
    )
    GROUP BY rank
),
phases AS (
    SELECT p.rank, p.step, x.phase, coalesce(CASE x.phase
        WHEN 'dataloader' THEN p.dataloader_ns WHEN 'forward' THEN p.forward_ns WHEN 'backward' THEN p.backward_ns
        WHEN 'optimizer' THEN p.optimizer_ns ELSE p.other_ns END, 0) AS dur_ns
    FROM step_phases_by_step p
    CROSS JOIN (SELECT column1 AS phase FROM (VALUES ('dataloader'), ('forward'), ('backward'), ('optimizer'), ('other'))) x
),
usual AS (
    SELECT rank, phase, median(CAST(dur_ns AS DOUBLE)) AS median_ns FROM phases GROUP BY rank, phase
),
attributed AS (
    SELECT
        p.rank,
        first_value(CASE WHEN p.dur_ns > u.median_ns THEN p.phase END ORDER BY p.dur_ns - u.median_ns DESC, p.phase) AS worst_phase,
        max(p.dur_ns - u.median_ns) AS worst_phase_excess_ns
    FROM phases p
    JOIN usual u ON u.rank = p.rank AND u.phase = p.phase
    JOIN outs o ON o.rank = p.rank AND o.worst_step = p.step
    GROUP BY p.rank
),
recurring AS (
    SELECT rank, first_value(phase ORDER BY excess_ns DESC, phase) AS period_phase
    FROM (
        SELECT j.rank, p.phase, sum(p.dur_ns - u.median_ns) AS excess_ns
        FROM classified j
        JOIN periods q ON q.rank = j.rank
        JOIN phases p ON p.rank = j.rank AND p.step = j.step
        JOIN usual u ON u.rank = p.rank AND u.phase = p.phase
        WHERE j.position % q.period = q.remainder AND j.stands_out
        GROUP BY j.rank, p.phase
    )
    GROUP BY rank
),
sources AS (
    SELECT rank, sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count, min(median_ns) AS median_ns FROM deviations GROUP BY rank
)
SELECT
    s.rank, s.step_count, s.median_ns, l.limit_ns,
    CASE WHEN s.step_count >= 5 THEN o.outlier_count END AS outlier_count,
    CASE WHEN s.step_count >= 5 THEN CAST(o.excess_ns AS BIGINT) END AS excess_ns,
    CASE WHEN s.step_count >= 5 THEN o.excess_ns / nullif(o.sum_ns, 0) END AS excess_ratio,
    o.worst_step,
    o.worst_ns,
    o.worst_position = 1 AS worst_is_first,
    b.worst_phase,
    b.worst_phase_excess_ns,
    o.worst_ts_ns AS ts_ns,
    CAST(o.worst_ns AS BIGINT) AS dur_ns,
    CASE WHEN s.step_count >= 6 THEN q.period END AS period,
    CASE WHEN s.step_count >= 6 THEN coalesce(q.period_count, 0) END AS period_count,
    CASE WHEN s.step_count >= 6 THEN coalesce(q.excess_ns, 0) / nullif(o.sum_ns, 0) END AS period_excess_ratio,
    r.period_phase,
    x.cause AS slow_cause,
    x.op_count AS slow_op_count,
    x.usual_op_count,
    x.extra_call_name,
    x.extra_call_count,
    x.extra_call_ns,
    x.extra_copy_name,
    x.extra_copy_bytes
FROM sources s
JOIN limits l ON l.rank = s.rank
JOIN outs o ON o.rank = s.rank
LEFT JOIN periods q ON q.rank = s.rank
LEFT JOIN attributed b ON b.rank = s.rank
LEFT JOIN recurring r ON r.rank = s.rank
LEFT JOIN step_excess x ON x.rank = s.rank
