"""DuckDB, from nothing to the temporal breakdown: `read_json`, then SQL.

    python duckdb_temporal.py [--load] TRACE ...

One trace a rank, ranks in order. Prints the breakdown of each as JSON, times in us; with `--load` only fills the table.
The columns are declared, because finding them fails: traces have arguments called `bytes` and `Bytes`, which
are one name to DuckDB.
"""

import json
import os
import sys

import duckdb

LOAD = """
CREATE TABLE events AS
SELECT list_position($files, filename) - 1 AS rank, unnest(traceEvents, recursive := true)
FROM read_json(
    $files, filename = true, maximum_object_size = $largest,
    columns = {traceEvents: 'STRUCT(
        ph VARCHAR, cat VARCHAR, name VARCHAR, pid VARCHAR, tid VARCHAR, ts DOUBLE, dur DOUBLE, args JSON
    )[]'}
)
"""
# As HTA and we count: where there are two steps or more, what the last one launched is left out.
BREAKDOWN = """
WITH launches AS (
    SELECT rank, CAST(args->>'correlation' AS BIGINT) AS correlation, max(ts) AS launch_ts
    FROM events
    WHERE ph = 'X' AND regexp_matches(cat, '(^|_)(runtime|driver)$', 'i')
    GROUP BY ALL
),
cuts AS (
    SELECT rank, max(ts) AS cut
    FROM events
    WHERE ph = 'X' AND starts_with(name, 'ProfilerStep#')
    GROUP BY rank HAVING count(DISTINCT name) >= 2
),
activities AS (
    SELECT
        rank, ts, ts + dur AS end_ts, CAST(args->>'correlation' AS BIGINT) AS correlation,
        lower(cat) = 'kernel' AND args->>'Collective name' IS NULL
            AND NOT regexp_matches(name, '^(nccl|rccl|hccl|oneccl|nvshmem)|ncclKernel|ncclDevKernel|cross_device_reduce')
            AS computes
    FROM events
    WHERE ph = 'X' AND lower(cat) IN ('kernel', 'memcpy', 'memset', 'gpu_memcpy', 'gpu_memset')
),
counted AS (
    SELECT a.*
    FROM activities a LEFT JOIN launches USING (rank, correlation) LEFT JOIN cuts USING (rank)
    WHERE cut IS NULL OR launch_ts < cut
),
points AS (
    SELECT rank, ts, 1 AS running, CAST(computes AS INT) AS computing FROM counted
    UNION ALL
    SELECT rank, end_ts, -1, -CAST(computes AS INT) FROM counted
),
segments AS (
    SELECT
        rank, lead(ts) OVER w - ts AS dur,
        sum(running) OVER w AS running, sum(computing) OVER w AS computing
    FROM points
    WINDOW w AS (PARTITION BY rank ORDER BY ts ROWS UNBOUNDED PRECEDING)
)
SELECT
    rank,
    coalesce(sum(dur) FILTER (running = 0), 0) AS idle_us,
    coalesce(sum(dur) FILTER (computing > 0), 0) AS compute_us,
    coalesce(sum(dur) FILTER (running > 0 AND computing = 0), 0) AS non_compute_us,
    sum(dur) AS kernel_us
FROM segments
GROUP BY rank ORDER BY rank
"""

only_load = sys.argv[1] == "--load"
files = sys.argv[1 + only_load :]
# A trace is one object. What compressed ones hold is not known; the corpus has none that grows more than 40 times.
largest = max(os.path.getsize(file) * (40 if file.endswith(".gz") else 1) for file in files) + 1
connection = duckdb.connect()
connection.execute(LOAD, {"files": files, "largest": largest})
if only_load:
    print("null")
else:
    cursor = connection.execute(BREAKDOWN)
    names = [column[0] for column in cursor.description]
    json.dump([dict(zip(names, row)) for row in cursor.fetchall()], sys.stdout)
