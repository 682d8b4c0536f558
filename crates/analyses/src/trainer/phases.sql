--! question = "Which phases that the trainer marks take the most time?"
--! row = "one name that a trainer marks or times on one rank: an event of Composer, a timing of Determined, a marker of the program's own"
--! window = "recording"
--! sort = ["total_ns"]
--! needs = ["annotations", "trainer_steps"]
--! order = ["rank", "total_ns", "name"]
--! requires = ["trainer_markers"]
--! when_empty = "there are no marks of a trainer: record with Composer's Profiler (active batches), or with Determined's profiling of 0.16 to 0.29, which times what a batch is made of"
--! [columns]
--! rank = "rank"
--! source = "composer or determined"
--! name = "name: event/forward, dataloader/train, train_batch.backward; callbacks and algorithms are in trainer_callbacks"
--! is_part = "loading or the batch, of which total_ratio is a share: Composer's loader and event/batch; Determined's dataloader_next, to_device, train_batch, step_lr_schedulers, from_device and reduce_metrics. The others lie inside these, or outside of batches"
--! phase_count = { doc = "marks with begin and end", unit = "count" }
--! total_ns = { doc = "time in all of them", unit = "ns" }
--! mean_ns = { doc = "mean", unit = "ns" }
--! median_ns = { doc = "median", unit = "ns" }
--! p95_ns = { doc = "95 % are shorter", unit = "ns" }
--! max_ns = { doc = "longest", unit = "ns" }
--! total_ratio = { doc = "total_ns over the time of all steps: with Composer the loader and the batch of each (trainer_steps.step_ns), with Determined all timings that are a part; more than 1 for what lasts longer than the steps that were recorded", unit = "ratio" }
WITH marks AS (
    SELECT
        rank, CAST(name AS VARCHAR) AS name, dur_ns,
        CASE WHEN args LIKE '%"trial"%' THEN 'determined' ELSE 'composer' END AS source
    FROM annotations
    WHERE NOT on_device
        AND name NOT LIKE 'callback/%' AND name NOT LIKE 'algorithm/%'
        AND (args LIKE '%"trial"%' OR args LIKE '%"epoch"%"batch"%' OR name LIKE 'event/%' OR name LIKE 'dataloader/%')
),
phases AS (
    SELECT
        rank, source, name,
        name IN ('event/dataloader', 'dataloader/train', 'event/batch', 'dataloader_next', 'to_device', 'train_batch',
            'step_lr_schedulers', 'from_device', 'reduce_metrics') AS is_part,
        count(*) AS phase_count,
        sum(dur_ns) AS total_ns,
        avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
        median(CAST(dur_ns AS DOUBLE)) AS median_ns,
        percentile_cont(CAST(dur_ns AS DOUBLE), 0.95) AS p95_ns,
        max(dur_ns) AS max_ns
    FROM marks
    GROUP BY rank, source, name
),
whole_totals AS (
    SELECT rank, source, sum(step_ns) AS whole_ns FROM trainer_steps WHERE source = 'composer' GROUP BY rank, source
    UNION ALL
    SELECT rank, source, sum(total_ns) FROM phases WHERE source = 'determined' AND is_part GROUP BY rank, source
)
SELECT
    p.rank, p.source, p.name, p.is_part, p.phase_count, p.total_ns, p.mean_ns, p.median_ns, p.p95_ns, p.max_ns,
    ratio!(p.total_ns, w.whole_ns) AS total_ratio
FROM phases p
LEFT JOIN whole_totals w ON w.rank = p.rank AND w.source = p.source
