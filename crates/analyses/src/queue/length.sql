--! question = "How many kernels wait on each stream?"
--! row = "one stream"
--! window = "before_last_step"
--! needs = ["queue_length_series"]
--! order = ["rank", "device", "stream"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no device activity has its launching call in the trace: record the host too (activities=[ProfilerActivity.CPU, ...])"
--! [params]
--! max_queue_length = { default = 1024, doc = "activities that fit in the launch queue: launching blocks from here on" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! stream = "stream on the device"
--! sample_count = { doc = "changes of the queue length", unit = "count", metric = "stream" }
--! mean_length = { doc = "mean over the changes (not over time)", unit = "number", metric = "stream" }
--! std_length = { doc = "standard deviation over the changes (sample)", unit = "number", metric = "stream" }
--! min_length = { doc = "smallest", unit = "number", metric = "stream" }
--! p25_length = { doc = "first quartile over the changes", unit = "number", metric = "stream" }
--! p50_length = { doc = "median over the changes", unit = "number", metric = "stream" }
--! p75_length = { doc = "third quartile over the changes", unit = "number", metric = "stream" }
--! max_length = { doc = "largest", unit = "number", metric = "stream" }
--! full_ns = { doc = "time in which the queue is full", unit = "ns", metric = "stream" }
--! full_ratio = { doc = "share of the time from the first change on any stream of the rank to the last", unit = "ratio", metric = "stream" }
WITH changes AS (
    SELECT rank, device, stream, ts_ns, CAST(queue_length AS DOUBLE) AS length, dur_ns
    FROM queue_length_series
),
streams AS (
    SELECT
        rank, device, stream,
        count(*) AS sample_count,
        avg(length) AS mean_length,
        stddev_samp(length) AS std_length,
        min(length) AS min_length,
        percentile_cont(length, 0.25) AS p25_length,
        percentile_cont(length, 0.5) AS p50_length,
        percentile_cont(length, 0.75) AS p75_length,
        max(length) AS max_length,
        sum_if!(coalesce(dur_ns, 0), length >= $max_queue_length) AS full_ns,
        min(ts_ns) AS start_ns,
        max(ts_ns) AS end_ns
    FROM changes
    GROUP BY rank, device, stream
)
SELECT
    rank, device, stream, sample_count,
    mean_length, std_length, min_length, p25_length, p50_length, p75_length, max_length,
    full_ns,
    CAST(full_ns AS DOUBLE)
        / nullif(max(end_ns) OVER (PARTITION BY rank) - min(start_ns) OVER (PARTITION BY rank), 0) AS full_ratio
FROM streams
