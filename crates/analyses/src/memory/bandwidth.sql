--! question = "What bandwidth do copies reach?"
--! row = "one kind of copy on one device"
--! window = "before_last_step"
--! needs = ["memory_bandwidth_series"]
--! order = ["rank", "device", "kind"]
--! when_empty = "the trace holds no copies or fills, or neither their bandwidth nor their bytes"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! kind = "direction of the copies: HtoD, DtoH, DtoD, HtoH, PtoP or unknown; or memset"
--! busy_ns = { doc = "time in which at least one runs", unit = "ns", metric = "device" }
--! mean_over_time_gb_per_s = { doc = "mean bandwidth while any runs, weighted by time", unit = "gb_per_s", metric = "device" }
--! sample_count = { doc = "changes that leave at least one running", unit = "count", metric = "device" }
--! mean_gb_per_s = { doc = "mean over those changes (not over time)", unit = "gb_per_s", metric = "device" }
--! std_gb_per_s = { doc = "standard deviation over those changes (sample)", unit = "gb_per_s", metric = "device" }
--! min_gb_per_s = { doc = "smallest", unit = "gb_per_s", metric = "device" }
--! p25_gb_per_s = { doc = "first quartile over those changes", unit = "gb_per_s", metric = "device" }
--! p50_gb_per_s = { doc = "median over those changes", unit = "gb_per_s", metric = "device" }
--! p75_gb_per_s = { doc = "third quartile over those changes", unit = "gb_per_s", metric = "device" }
--! max_gb_per_s = { doc = "largest", unit = "gb_per_s", metric = "device" }
SELECT
    rank, device, kind,
    sum(dur_ns) AS busy_ns,
    weighted_mean!(bandwidth_gb_per_s, dur_ns) AS mean_over_time_gb_per_s,
    count(*) AS sample_count,
    exact_sum!(bandwidth_gb_per_s) / count(*) AS mean_gb_per_s,
    stddev_samp(bandwidth_gb_per_s) AS std_gb_per_s,
    min(bandwidth_gb_per_s) AS min_gb_per_s,
    percentile_cont(bandwidth_gb_per_s, 0.25) AS p25_gb_per_s,
    percentile_cont(bandwidth_gb_per_s, 0.5) AS p50_gb_per_s,
    percentile_cont(bandwidth_gb_per_s, 0.75) AS p75_gb_per_s,
    max(bandwidth_gb_per_s) AS max_gb_per_s
FROM memory_bandwidth_series
WHERE running_count > 0
GROUP BY rank, device, kind
