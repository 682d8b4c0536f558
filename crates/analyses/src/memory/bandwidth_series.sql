--! question = "How does the bandwidth of copies change over time?"
--! row = "one moment at which the bandwidth of one kind of copy changes on one device"
--! window = "before_last_step"
--! needs = ["device_activities", "memcpys", "memsets"]
--! order = ["rank", "device", "kind", "ts_ns"]
--! when_empty = "the trace holds no copies or fills, or neither their bandwidth nor their bytes"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! kind = "direction of the copies: HtoD, DtoH, DtoD, HtoH, PtoP or unknown; or memset"
--! ts_ns = { doc = "when", unit = "ns" }
--! dur_ns = { doc = "until the next change; absent at the last", unit = "ns" }
--! running_count = { doc = "copies of this kind that run from here on", unit = "count" }
--! bandwidth_gb_per_s = { doc = "their bandwidths added up, exactly: 0 where none runs", unit = "gb_per_s" }
-- Bandwidths are added and taken off as decimals: a sum of doubles would leave a residue of 1e-14 where
-- nothing runs. What takes less than a tick of a clock of microseconds counts as one, as in HTA.
WITH bandwidths AS (
    SELECT rank, event_id, kind, bandwidth_gb_per_s FROM memcpys
    UNION ALL
    SELECT rank, event_id, arrow_cast('memset', 'Dictionary(Int32, Utf8)'), bandwidth_gb_per_s FROM memsets
),
copies AS (
    SELECT
        a.rank, a.device, b.kind, a.ts_ns,
        CASE WHEN a.dur_ns = 0 THEN a.ts_ns + 1000 ELSE a.end_ns END AS end_ns,
        CAST(coalesce(b.bandwidth_gb_per_s, ratio!(a.bytes, a.dur_ns)) AS DECIMAL(38, 15)) AS bandwidth
    FROM device_activities a
    JOIN bandwidths b ON b.rank = a.rank AND b.event_id = a.event_id
    WHERE a.category <> 'kernel'
),
boundaries AS (
    SELECT rank, device, kind, ts_ns, 1 AS delta, bandwidth FROM copies WHERE bandwidth IS NOT NULL
    UNION ALL
    SELECT rank, device, kind, end_ns, -1, -bandwidth FROM copies WHERE bandwidth IS NOT NULL
),
moments AS (
    SELECT rank, device, kind, ts_ns, sum(delta) AS delta, sum(bandwidth) AS bandwidth
    FROM boundaries
    GROUP BY rank, device, kind, ts_ns
)
SELECT
    rank, device, kind, ts_ns,
    lead(ts_ns) OVER w - ts_ns AS dur_ns,
    sum(delta) OVER w AS running_count,
    CAST(sum(bandwidth) OVER w AS DOUBLE) AS bandwidth_gb_per_s
FROM moments
WINDOW w AS running!(PARTITION BY rank, device, kind ORDER BY ts_ns)
