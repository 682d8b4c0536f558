--! row = "one rank"
--! needs = ["kernel_launch_stats"]
--! order = ["rank"]
--! when_empty = "no device activity has its launching call in the trace"
--! [params]
--! runtime_cutoff_us = { default = 50, doc = "a launching call longer than this is an outlier" }
--! launch_delay_cutoff_us = { default = 100, doc = "a longer delay from launch to start is an outlier" }
--! [columns]
--! rank = "rank"
--! launch_count = { doc = "activities with their launch", unit = "count", metric = "rank" }
--! short_count = { doc = "activities shorter than their launch, where that is no outlier", unit = "count", metric = "rank" }
--! runtime_outlier_count = { doc = "launching calls that are outliers", unit = "count", metric = "rank" }
--! delay_outlier_count = { doc = "delays that are outliers", unit = "count", metric = "rank" }
--! median_delay_ns = { doc = "median time from the end of the launch to the start: large where the host runs ahead", unit = "ns", metric = "rank" }
SELECT
    rank,
    count(*) AS launch_count,
    sum(CASE WHEN launch_dur_ns <= $runtime_cutoff_us * 1000 AND device_dur_ns < launch_dur_ns THEN 1 ELSE 0 END) AS short_count,
    sum(CASE WHEN launch_dur_ns > $runtime_cutoff_us * 1000 THEN 1 ELSE 0 END) AS runtime_outlier_count,
    sum(CASE WHEN launch_delay_ns > $launch_delay_cutoff_us * 1000 THEN 1 ELSE 0 END) AS delay_outlier_count,
    median(CAST(launch_delay_ns AS DOUBLE)) AS median_delay_ns
FROM kernel_launch_stats
GROUP BY rank
