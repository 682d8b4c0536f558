--! question = "What do the hardware counters of each GPU say?"
--! row = "one counter of one GPU, over all its samples"
--! window = "recording"
--! needs = ["counters", "kernels"]
--! order = ["rank", "device", "name"]
--! when_empty = "the trace holds no samples of hardware counters (CUPTI PM sampling, PyTorch of August 2026 and later)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "counter, as the profiler names it"
--! sample_count = { doc = "samples", unit = "count" }
--! mean = "mean of all samples, in the unit of the counter"
--! min = "smallest sample"
--! max = "largest sample"
--! busy_sample_count = { doc = "samples taken while a kernel runs on the device", unit = "count" }
--! busy_mean = "mean of these samples; absent if there are none"
WITH samples AS (
    SELECT rank, TRY_CAST(substr(CAST(device AS VARCHAR), 5) AS INT) AS device, CAST(name AS VARCHAR) AS name, ts_ns, event_id, value
    FROM counters
    WHERE device LIKE 'GPU _' OR device LIKE 'GPU __'
),
moments AS (
    SELECT rank, device, CAST(NULL AS VARCHAR) AS name, ts_ns, CAST(NULL AS BIGINT) AS event_id, CAST(NULL AS DOUBLE) AS value, 1 AS delta, 1 AS place
    FROM kernels
    WHERE device IN (SELECT DISTINCT device FROM samples)
    UNION ALL
    SELECT rank, device, NULL, ts_ns + dur_ns, NULL, NULL, -1, 0
    FROM kernels
    WHERE device IN (SELECT DISTINCT device FROM samples)
    UNION ALL
    SELECT rank, device, name, ts_ns, event_id, value, 0, 2 FROM samples
),
running AS (
    SELECT *, running_sum!(delta, PARTITION BY rank, device ORDER BY ts_ns, place, name, event_id) AS kernel_count
    FROM moments
)
SELECT
    rank, device, name, count(*) AS sample_count, avg(value) AS mean, min(value) AS min, max(value) AS max,
    count_if!(kernel_count > 0) AS busy_sample_count,
    avg(CASE WHEN kernel_count > 0 THEN value END) AS busy_mean
FROM running
WHERE place = 2
GROUP BY rank, device, name
