--! row = "one reason for the idle time of one stream"
--! needs = ["device_activities"]
--! order = ["rank", "device", "stream", "idle_category"]
--! when_empty = "no stream of the trace runs two activities with a gap between them"
--! [params]
--! consecutive_kernel_delay_us = { default = 30, doc = "a shorter gap between activities already launched is the ordinary cost of starting the next one" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! idle_category = "host_wait (the next activity was launched after the gap began), kernel_wait (launched before, and the gap is short) or other (launched before, yet the gap is long; or the launch is not in the trace)"
--! idle_ns = { doc = "idle time for this reason", unit = "ns", metric = "stream" }
--! idle_ratio = { doc = "share of the idle time of the stream", unit = "ratio", metric = "stream" }
--! gap_count = { doc = "gaps for this reason", unit = "count", metric = "stream" }
WITH runs AS (
    SELECT
        rank, device, stream, ts_ns, launch, launch_ts_ns,
        max(end_ns) OVER (
            PARTITION BY rank, device, stream ORDER BY ts_ns, event_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns
    FROM device_activities
),
gaps AS (
    SELECT
        rank, device, stream,
        CASE
            WHEN launch_ts_ns > busy_until_ns THEN 'host_wait'
            WHEN ts_ns - busy_until_ns < $consecutive_kernel_delay_us * 1000 THEN 'kernel_wait'
            ELSE 'other'
        END AS idle_category,
        ts_ns - busy_until_ns AS gap_ns
    FROM runs
    WHERE ts_ns > busy_until_ns
),
sums AS (
    SELECT rank, device, stream, idle_category, sum(gap_ns) AS idle_ns, count(*) AS gap_count
    FROM gaps
    GROUP BY rank, device, stream, idle_category
)
SELECT
    rank, device, stream, idle_category, idle_ns,
    CAST(idle_ns AS DOUBLE) / sum(idle_ns) OVER (PARTITION BY rank, device, stream) AS idle_ratio,
    gap_count
FROM sums
