--! question = "Which ranks are stragglers by HTA's definition?"
--! row = "one rank: how often it is among the last to start the collective whose duration differs most between ranks"
--! window = "before_last_step"
--! scope = "run"
--! needs = ["device_activities", "step_selection", "ranks"]
--! order = ["place"]
--! requires = ["several_ranks"]
--! when_empty = "fewer than two ranks run the same collective for long in a step, or their clocks cannot be compared (ranks.clock)"
--! [params]
--! num_candidates = { default = 2, doc = "straggler candidates in each step, and overall" }
--! long_collective_ratio = { default = 0.01, doc = "a collective that takes less than this share of a mean step is not looked at" }
--! [columns]
--! rank = "rank"
--! place = "from 1: the most suspect rank"
--! is_candidate = "its place is within num_candidates"
--! name = "kernel of the collective by which ranks are judged"
--! stream = "stream it runs on"
--! step_count = { doc = "steps in which this rank runs it", unit = "count", metric = "rank" }
--! late_count = { doc = "steps in which this rank is among the last num_candidates to start it", unit = "count", metric = "rank" }
--! late_ratio = { doc = "share of those steps", unit = "ratio", metric = "rank" }
--! mean_late_ns = { doc = "mean time by which it starts after the first rank", unit = "ns", metric = "rank" }
-- HTA's get_potential_stragglers, for kernels of any communication library and for every stream. It
-- compares starts, so it needs ranks on one clock, and looks at one collective per step: the last long
-- one of the stream and name with the largest deviation between ranks. comm_stragglers answers the same
-- question from durations (who arrives last waits least): no clock, all collectives, and the cost.
WITH selected_steps AS (
    SELECT rank, step, ts_ns, ts_ns + dur_ns AS end_ns FROM step_selection WHERE is_analyzed
),
work AS (
    SELECT a.rank, a.event_id, a.kind, a.name, a.stream, a.ts_ns, a.end_ns, a.dur_ns, s.step
    FROM device_activities a
    JOIN selected_steps s ON s.rank = a.rank AND s.step = a.step
),
mean_step AS (
    SELECT CAST(max(end_ns) - min(ts_ns) AS DOUBLE) / max(step_count) AS dur_ns
    FROM (
        SELECT ts_ns, end_ns, 0 AS step_count FROM work
        UNION ALL
        SELECT ts_ns, end_ns, (SELECT count(DISTINCT step) FROM selected_steps) FROM selected_steps
    )
),
-- The last long one of each name in each step.
long_ones AS (
    SELECT
        w.rank, w.stream, w.step, w.name, w.ts_ns, w.dur_ns,
        row_number() OVER (
            PARTITION BY w.rank, w.stream, w.step, w.name ORDER BY w.ts_ns DESC, w.event_id DESC
        ) AS from_last
    FROM work w
    CROSS JOIN mean_step m
    WHERE w.kind = 'communication' AND w.dur_ns >= $long_collective_ratio * m.dur_ns
),
last_ones AS (
    SELECT
        rank, stream, step, name, ts_ns,
        stddev_samp(CAST(dur_ns AS DOUBLE)) OVER (PARTITION BY stream, step, name) AS std_ns
    FROM long_ones
    WHERE from_last = 1
),
dominant AS (
    SELECT stream, name
    FROM (SELECT DISTINCT stream, step, name, std_ns FROM last_ones)
    WHERE std_ns IS NOT NULL
    GROUP BY stream, name
    ORDER BY avg(std_ns) DESC, stream, name
    LIMIT 1
),
starts AS (
    SELECT
        l.rank, l.stream, l.name,
        l.ts_ns - min(l.ts_ns) OVER (PARTITION BY l.step) AS late_ns,
        rank() OVER (PARTITION BY l.step ORDER BY l.ts_ns DESC) <= $num_candidates AS is_late
    FROM last_ones l
    JOIN dominant d ON d.stream = l.stream AND d.name = l.name
    WHERE NOT EXISTS (SELECT 1 FROM ranks WHERE clock = 'relative')
),
sums AS (
    SELECT
        rank, stream, name,
        count(*) AS step_count,
        count_if!(is_late) AS late_count,
        avg(CAST(late_ns AS DOUBLE)) AS mean_late_ns
    FROM starts
    GROUP BY rank, stream, name
),
places AS (
    SELECT *, row_number() OVER (ORDER BY late_count DESC, mean_late_ns DESC, rank) AS place FROM sums
)
SELECT
    rank, place,
    place <= $num_candidates AS is_candidate,
    name, stream, step_count, late_count,
    CAST(late_count AS DOUBLE) / step_count AS late_ratio,
    mean_late_ns
FROM places
