--! question = "How long are the gaps between the activities of a stream, by reason?"
--! row = "the intervals between activities of one stream that have one reason"
--! window = "before_last_step"
--! needs = ["stream_idle_gaps"]
--! order = ["rank", "device", "stream", "idle_category"]
--! when_empty = "no stream of the trace runs two activities one after the other"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! idle_category = "reason, see stream_idle_gaps: host_wait, kernel_wait (shorter than consecutive_kernel_delay_us) or other"
--! interval_count = { doc = "intervals, those of length 0 included", unit = "count", metric = "stream" }
--! mean_ns = { doc = "mean length", unit = "ns", metric = "stream" }
--! std_ns = { doc = "standard deviation (sample); absent for a single one", unit = "ns", metric = "stream" }
--! min_ns = { doc = "shortest", unit = "ns", metric = "stream" }
--! p25_ns = { doc = "first quartile", unit = "ns", metric = "stream" }
--! p50_ns = { doc = "median", unit = "ns", metric = "stream" }
--! p75_ns = { doc = "third quartile", unit = "ns", metric = "stream" }
--! max_ns = { doc = "longest", unit = "ns", metric = "stream" }
WITH intervals AS (
    SELECT rank, device, stream, idle_category, CAST(dur_ns AS DOUBLE) AS dur_ns FROM stream_idle_gaps
)
SELECT
    rank, device, stream, idle_category,
    count(*) AS interval_count,
    avg(dur_ns) AS mean_ns,
    stddev_samp(dur_ns) AS std_ns,
    min(dur_ns) AS min_ns,
    percentile_cont(dur_ns, 0.25) AS p25_ns,
    percentile_cont(dur_ns, 0.5) AS p50_ns,
    percentile_cont(dur_ns, 0.75) AS p75_ns,
    max(dur_ns) AS max_ns
FROM intervals
GROUP BY rank, device, stream, idle_category
