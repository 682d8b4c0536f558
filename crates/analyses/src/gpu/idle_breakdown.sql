--! question = "Why are streams idle by HTA's definition: host, kernel or other wait?"
--! row = "one reason for the idle time of one stream"
--! window = "before_last_step"
--! sort = ["idle_ns"]
--! needs = ["stream_idle_gaps"]
--! order = ["rank", "device", "stream", "idle_category"]
--! when_empty = "no stream of the trace runs two activities with a gap between them"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! idle_category = "reason, see stream_idle_gaps: host_wait, kernel_wait (shorter than consecutive_kernel_delay_us) or other"
--! idle_ns = { doc = "idle time for this reason", unit = "ns", metric = "stream" }
--! idle_ratio = { doc = "share of the idle time of the stream", unit = "ratio", metric = "stream" }
--! gap_count = { doc = "gaps for this reason", unit = "count", metric = "stream" }
WITH sums AS (
    SELECT rank, device, stream, idle_category, sum(dur_ns) AS idle_ns, count(*) AS gap_count
    FROM stream_idle_gaps
    WHERE dur_ns > 0
    GROUP BY rank, device, stream, idle_category
)
SELECT
    rank, device, stream, idle_category, idle_ns,
    CAST(idle_ns AS DOUBLE) / sum(idle_ns) OVER (PARTITION BY rank, device, stream) AS idle_ratio,
    gap_count
FROM sums
