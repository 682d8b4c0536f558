--! question = "How busy is each GPU over time?"
--! row = "one device in one time bucket of a fixed length"
--! window = "recording"
--! scope = "run"
--! needs = ["device_load"]
--! order = ["rank", "device", "ts_ns"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! utilization_bucket_us = { default = 0.0, doc = "length of the stretches, of which there are at most a million; 0: the power of ten that makes 200 to 2,000 of them" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start: a multiple of the length, or where what is known of the device begins", unit = "ns" }
--! dur_ns = { doc = "duration; the first and the last may be shorter", unit = "ns" }
--! busy_ns = { doc = "a kernel, copy or fill runs", unit = "ns" }
--! busy_ratio = { doc = "share of the stretch in which anything runs", unit = "ratio" }
--! kernel_busy_ns = { doc = "a kernel runs", unit = "ns" }
--! sm_efficiency_ratio = { doc = "blocks over SMs, added up over running kernels, at most 1, averaged over the stretch; absent if no kernel of the device says", unit = "ratio" }
-- The load is cut where buckets begin: a cut is a boundary without values, and takes those of the boundary
-- before it says. Nothing is rounded, so that the parts add up to the whole.
WITH extents AS (
    SELECT
        rank, device, min(ts_ns) AS start_ns, max(ts_ns + dur_ns) AS end_ns,
        max(blocks_per_sm) > 0 AS has_blocks
    FROM device_load
    GROUP BY rank, device
),
lengths AS (
    SELECT
        CAST(CASE
            WHEN $utilization_bucket_us > 0 THEN greatest(round($utilization_bucket_us * 1000), ceil(all_ns / 1e6))
            ELSE greatest(power(10.0, ceil(log10(all_ns / 2000.0))), 1.0)
        END AS BIGINT) AS bucket_ns
    FROM (SELECT CAST(max(end_ns) - min(start_ns) AS DOUBLE) AS all_ns FROM extents)
),
buckets AS (
    SELECT
        e.rank, e.device, l.bucket_ns,
        unnest(range(e.start_ns / l.bucket_ns + 1, (e.end_ns - 1) / l.bucket_ns + 1)) AS bucket
    FROM extents e CROSS JOIN lengths l
),
boundaries AS (
    SELECT
        rank, device, ts_ns, 0 AS turn,
        CASE WHEN activity_count > 0 THEN 1 ELSE 0 END AS busy,
        CASE WHEN kernel_count > 0 THEN 1 ELSE 0 END AS kernel_busy,
        least(greatest(blocks_per_sm, 0), 1) AS sm
    FROM device_load
    UNION ALL
    SELECT rank, device, bucket * bucket_ns, 1, NULL, NULL, NULL FROM buckets
    UNION ALL
    SELECT rank, device, end_ns, 2, 0, 0, 0 FROM extents
),
-- Each point of the load opens a group that the cuts after it belong to: IGNORE NULLS would look through all
-- points before each.
numbered AS (
    SELECT
        *,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        count(busy) OVER w AS load_number
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, device ORDER BY ts_ns, turn)
),
cut AS (
    SELECT
        rank, device, ts_ns, dur_ns,
        max(busy) OVER w AS busy,
        max(kernel_busy) OVER w AS kernel_busy,
        max(sm) OVER w AS sm
    FROM numbered
    WINDOW w AS (PARTITION BY rank, device, load_number)
),
sums AS (
    SELECT
        c.rank, c.device, min(c.ts_ns) AS ts_ns,
        sum(c.dur_ns) AS dur_ns,
        sum(c.busy * c.dur_ns) AS busy_ns,
        sum(c.kernel_busy * c.dur_ns) AS kernel_busy_ns,
        exact_sum!(c.sm * c.dur_ns) AS sm_busy_ns
    FROM cut c CROSS JOIN lengths l
    WHERE c.dur_ns > 0
    GROUP BY c.rank, c.device, c.ts_ns / l.bucket_ns
)
SELECT
    s.rank, s.device, s.ts_ns, s.dur_ns, s.busy_ns,
    CAST(s.busy_ns AS DOUBLE) / s.dur_ns AS busy_ratio,
    s.kernel_busy_ns,
    CASE WHEN e.has_blocks THEN s.sm_busy_ns / s.dur_ns END AS sm_efficiency_ratio
FROM sums s
JOIN extents e ON e.rank = s.rank AND e.device = s.device
