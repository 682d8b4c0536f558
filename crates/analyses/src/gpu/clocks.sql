--! question = "Does a GPU run below its base clock while it works?"
--! row = "one GPU: samples of its SM clock"
--! window = "recording"
--! needs = ["counters", "device_work", "roofline_devices"]
--! order = ["rank", "device"]
--! requires = ["counters"]
--! when_empty = "the trace contains no samples of the SM clock: record with CuspyConfig(enable_environment_counters=True) (PyTorch 2.15, see docs/recording.md)"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "product name, as the trace has it"
--! sample_count = { doc = "samples of the SM clock", unit = "count", metric = "device" }
--! busy_sample_count = { doc = "samples taken while a kernel, copy or fill runs", unit = "count", metric = "device" }
--! busy_mean_mhz = { doc = "mean clock in the busy samples", unit = "number", metric = "device" }
--! busy_min_mhz = { doc = "lowest clock in the busy samples", unit = "number", metric = "device" }
--! max_mhz = { doc = "highest clock in all samples", unit = "number", metric = "device" }
--! base_mhz = { doc = "base clock from the table of devices; absent if the table has none: add it with --devices FILE", unit = "number", metric = "device" }
--! below_base_ratio = { doc = "share of busy samples below the base clock; absent if the base clock is unknown or there are no busy samples", unit = "ratio", metric = "device" }
WITH samples AS (
    SELECT rank, TRY_CAST(substr(CAST(device AS VARCHAR), 5) AS INT) AS device, ts_ns, event_id, value
    FROM counters
    WHERE name = 'SM Clock (MHz)' AND value > 0 AND (device LIKE 'GPU _' OR device LIKE 'GPU __')
),
sampled AS (
    SELECT DISTINCT rank, device FROM samples
),
work AS (
    SELECT k.rank, k.device, k.ts_ns, k.end_ns
    FROM device_work k
    JOIN sampled s ON s.rank = k.rank AND s.device = k.device
),
moments AS (
    SELECT rank, device, ts_ns, CAST(NULL AS BIGINT) AS event_id, CAST(NULL AS DOUBLE) AS value, 1 AS delta, 1 AS place FROM work
    UNION ALL
    SELECT rank, device, end_ns, NULL, NULL, -1, 0 FROM work
    UNION ALL
    SELECT rank, device, ts_ns, event_id, value, 0, 2 FROM samples
),
running AS (
    SELECT *, running_sum!(delta, PARTITION BY rank, device ORDER BY ts_ns, place, event_id) AS work_count
    FROM moments
),
clocks AS (
    SELECT rank, device, value AS mhz, CASE WHEN work_count > 0 THEN value END AS busy_mhz
    FROM running
    WHERE place = 2
),
devices AS (
    SELECT rank, device, max(name) AS name, max(base_clock_mhz) AS base_mhz
    FROM roofline_devices
    GROUP BY rank, device
),
judged AS (
    SELECT c.rank, c.device, c.mhz, c.busy_mhz, d.name, d.base_mhz
    FROM clocks c
    LEFT JOIN devices d ON d.rank = c.rank AND d.device = c.device
)
SELECT
    rank, device, max(name) AS name,
    count(*) AS sample_count,
    count(busy_mhz) AS busy_sample_count,
    weighted_mean!(busy_mhz, 1) AS busy_mean_mhz,
    min(busy_mhz) AS busy_min_mhz,
    max(mhz) AS max_mhz,
    max(base_mhz) AS base_mhz,
    CASE WHEN max(base_mhz) IS NOT NULL THEN ratio!(count_if!(busy_mhz < base_mhz), count(busy_mhz)) END AS below_base_ratio
FROM judged
GROUP BY rank, device
