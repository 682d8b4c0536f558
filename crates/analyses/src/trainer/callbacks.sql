--! question = "Which Composer or Determined callbacks take the most time?"
--! row = "one callback, logger or algorithm of Composer on one rank, or a callback of Determined, in one event"
--! window = "recording"
--! sort = ["total_ns"]
--! needs = ["annotations", "trainer_steps"]
--! order = ["rank", "class", "event"]
--! requires = ["trainer_markers"]
--! when_empty = "no callback or algorithm is marked: record with Composer's Profiler, or with Determined's profiling of 0.16 to 0.29 and a callback of the trial"
--! [columns]
--! rank = "rank"
--! kind = "callback or algorithm; loggers are callbacks"
--! class = "its class"
--! event = "event that it is called in: batch_end, after_loss"
--! call_count = { doc = "calls recorded", unit = "count" }
--! total_ns = { doc = "time in all of them", unit = "ns" }
--! mean_ns = { doc = "mean", unit = "ns" }
--! max_ns = { doc = "longest", unit = "ns" }
--! class_total_ns = { doc = "time in the class, in all events", unit = "ns" }
--! step_ratio = { doc = "total_ns over the time of all recorded steps (trainer_steps.step_ns); what is called outside of batches counts too", unit = "ratio" }
WITH calls AS (
    SELECT rank, split_part(name, '/', 1) AS kind, split_part(name, '/', 2) AS class, split_part(name, '/', 4) AS event, dur_ns
    FROM annotations
    WHERE NOT on_device AND (name LIKE 'callback/%/event/%' OR name LIKE 'algorithm/%/event/%')
    UNION ALL
    SELECT rank, 'callback', split_part(name, '.', 2), split_part(name, '.', 3), dur_ns
    FROM annotations
    WHERE NOT on_device AND name LIKE 'callbacks.%' AND args LIKE '%"trial"%'
),
sums AS (
    SELECT
        rank, kind, class, event,
        count(*) AS call_count,
        sum(dur_ns) AS total_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        max(dur_ns) AS max_ns
    FROM calls
    GROUP BY rank, kind, class, event
),
whole_totals AS (
    SELECT rank, sum(step_ns) AS whole_ns FROM trainer_steps GROUP BY rank
)
SELECT
    s.rank, s.kind, s.class, s.event, s.call_count, s.total_ns, s.mean_ns, s.max_ns,
    sum(s.total_ns) OVER (PARTITION BY s.rank, s.kind, s.class) AS class_total_ns,
    ratio!(s.total_ns, w.whole_ns) AS step_ratio
FROM sums s
LEFT JOIN whole_totals w ON w.rank = s.rank
