--! question = "Which markers of a trainer are complete?"
--! row = "one name with begin and end events of its own on one rank"
--! window = "recording"
--! needs = ["annotations", "unpaired_events"]
--! order = ["rank", "name"]
--! requires = ["trainer_markers"]
--! when_empty = "the files have no begin and end events of a trainer: Composer's Profiler writes them"
--! [columns]
--! rank = "rank"
--! name = "name of the mark"
--! pair_count = { doc = "begin and end both recorded", unit = "count" }
--! orphan_end_count = { doc = "ends without a begin: Composer writes an end for every batch, a begin only for those its schedule records", unit = "count" }
--! open_begin_count = { doc = "begins without an end: what was going on when the recording ended", unit = "count" }
WITH ends AS (
    SELECT rank, CAST(name AS VARCHAR) AS name, 1 AS pairs, 0 AS orphans, 0 AS opens
    FROM annotations
    WHERE NOT on_device
        AND (args LIKE '%"epoch"%"batch"%' OR name LIKE 'event/%' OR name LIKE 'callback/%' OR name LIKE 'algorithm/%'
            OR name LIKE 'dataloader/%')
        AND (args IS NULL OR args NOT LIKE '%"trial"%')
    UNION ALL
    SELECT
        rank, CAST(name AS VARCHAR), 0,
        CASE WHEN phase = 'E' THEN 1 ELSE 0 END,
        CASE WHEN phase = 'B' THEN 1 ELSE 0 END
    FROM unpaired_events
)
SELECT
    rank, name,
    sum(pairs) AS pair_count,
    sum(orphans) AS orphan_end_count,
    sum(opens) AS open_begin_count
FROM ends
GROUP BY rank, name
