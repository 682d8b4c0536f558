--! question = "How many kernels are shorter than their launch, or start late?"
--! row = "one rank"
--! window = "before_last_step"
--! needs = ["kernel_launch_stats"]
--! order = ["rank"]
--! requires = ["device_activity", "launch_links"]
--! when_empty = "no device activity has its launching call in the trace: record the host too (activities=[ProfilerActivity.CPU, ...])"
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
    count_if!(is_short) AS short_count,
    count_if!(is_runtime_outlier) AS runtime_outlier_count,
    count_if!(is_delay_outlier) AS delay_outlier_count,
    median(CAST(launch_delay_ns AS DOUBLE)) AS median_delay_ns
FROM kernel_launch_stats
GROUP BY rank
