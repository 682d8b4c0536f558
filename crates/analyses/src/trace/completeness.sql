--! question = "Is the recording complete and undamaged?"
--! row = "one rank: missing or damaged parts of its recording"
--! window = "recording"
--! scope = "run"
--! needs = ["ranks", "reading_warnings", "steps", "kernels"]
--! order = ["rank"]
--! when_empty = "no trace was read"
--! [columns]
--! rank = "rank"
--! file = "file the rank was read from"
--! flaw_count = { doc = "how many of the next four hold", unit = "count", metric = "rank" }
--! is_truncated = "the file ends in the middle, or parts of it are damaged"
--! damaged_count = { doc = "events that were skipped or lack their other half, stretches that could not be read", unit = "count", metric = "rank" }
--! damage = "warnings about the damage"
--! rank_count = { doc = "ranks that were read", unit = "count", metric = "rank" }
--! world_size = { doc = "ranks in the job; absent where no trace says", unit = "number", metric = "rank" }
--! missing_rank_count = { doc = "ranks of the job whose traces are not here; absent where no trace says how many there are", unit = "count", metric = "rank" }
--! is_world_size_unknown = "the rank communicates with other ranks, and no trace says how many there are"
--! step_count = { doc = "steps of the rank", unit = "count", metric = "rank" }
--! common_step_count = { doc = "of these, steps that all ranks have; absent with a single rank", unit = "count", metric = "rank" }
WITH flaws AS (
    SELECT
        rank,
        bool_or(code IN (
            'truncated-gzip', 'truncated-json', 'truncated-table', 'truncated-packets', 'damaged-bundle', 'zstd-packets',
            'malformed-event'
        )) AS is_truncated,
        sum(warning_count) AS damaged_count,
        string_agg(DISTINCT CAST(code AS VARCHAR), ', ') AS damage
    FROM reading_warnings
    WHERE rank IS NOT NULL
        AND code IN (
            'truncated-gzip', 'truncated-json', 'truncated-table', 'truncated-packets', 'damaged-bundle', 'zstd-packets',
            'malformed-event', 'not-an-event', 'negative-duration', 'missing-duration', 'bad-time', 'far-event', 'enclosing-work',
            'unmatched-begin-end', 'unmatched-end', 'malformed-packet', 'lost-packets', 'unknown-clock'
        )
    GROUP BY rank
),
counted AS (
    SELECT count(*) AS rank_count, max(world_size) AS world_size FROM ranks
),
numbers AS (
    SELECT DISTINCT rank, step FROM steps WHERE source <> 'trace'
),
communicating AS (
    SELECT DISTINCT rank FROM kernels WHERE kind = 'communication'
),
shared AS (
    SELECT step, count(*) AS holders FROM numbers GROUP BY step
),
stepped AS (
    SELECT
        n.rank,
        count(*) AS step_count,
        count_if!(s.holders = c.rank_count) AS common_step_count
    FROM numbers n
    JOIN shared s ON s.step = n.step
    CROSS JOIN counted c
    GROUP BY n.rank
)
SELECT
    r.rank, r.file,
    CASE WHEN coalesce(f.is_truncated, false) THEN 1 ELSE 0 END
        + CASE WHEN f.damaged_count > 0 AND NOT f.is_truncated THEN 1 ELSE 0 END
        + CASE WHEN c.world_size > c.rank_count THEN 1 ELSE 0 END
        + CASE WHEN c.rank_count > 1 AND s.step_count > 0 AND s.common_step_count = 0 THEN 1 ELSE 0 END AS flaw_count,
    coalesce(f.is_truncated, false) AS is_truncated,
    coalesce(f.damaged_count, 0) AS damaged_count,
    f.damage,
    c.rank_count,
    CAST(c.world_size AS BIGINT) AS world_size,
    CASE WHEN c.world_size IS NOT NULL THEN CAST(greatest(c.world_size - c.rank_count, 0) AS BIGINT) END AS missing_rank_count,
    c.world_size IS NULL AND p.rank IS NOT NULL AS is_world_size_unknown,
    coalesce(s.step_count, 0) AS step_count,
    CASE WHEN c.rank_count > 1 THEN coalesce(s.common_step_count, 0) END AS common_step_count
FROM ranks r
CROSS JOIN counted c
LEFT JOIN flaws f ON f.rank = r.rank
LEFT JOIN stepped s ON s.rank = r.rank
LEFT JOIN communicating p ON p.rank = r.rank
