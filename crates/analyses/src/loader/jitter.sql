--! question = "Do some batches take much longer to load than others?"
--! row = "one rank: variation between its fetches of batches"
--! window = "recording"
--! scope = "run"
--! needs = ["loader_fetches", "step_phases"]
--! order = ["rank"]
--! requires = ["host_operators"]
--! when_empty = "no fetch of a batch was recorded: use torch's DataLoader with the CPU recorded (ProfilerActivity.CPU), Composer's Profiler, or Determined's timings (0.16 to 0.29)"
--! [columns]
--! rank = "rank"
--! fetch_count = { doc = "fetches recorded", unit = "count", metric = "rank" }
--! wait_median_ns = { doc = "median of a fetch", unit = "ns", metric = "rank" }
--! wait_p95_ns = { doc = "95 % of fetches are shorter", unit = "ns", metric = "rank" }
--! jitter = { doc = "wait_p95_ns over wait_median_ns", unit = "number", metric = "rank" }
--! wait_ratio = { doc = "waits over waits and batches", unit = "ratio", metric = "rank" }
--! excess_ratio = { doc = "mean time of fetches beyond the median one, as a share of waits and batches", unit = "ratio", metric = "rank" }
--! idle_excess_ratio = { doc = "that, times the share of loading during which no device runs anything", unit = "ratio", metric = "rank" }
--! pattern = "ready, even, periodic or irregular, see loader_fetches"
--! fetch_period = { doc = "every so many-th fetch is late", unit = "number", metric = "rank" }
--! worker_count = { doc = "workers of the loader, from that period", unit = "count", metric = "rank" }
SELECT
    f.rank, f.fetch_count, f.wait_median_ns, f.wait_p95_ns,
    ratio!(f.wait_p95_ns, f.wait_median_ns) AS jitter,
    f.wait_ratio,
    f.wait_ratio * greatest(1 - f.wait_median_ns / nullif(CAST(f.wait_mean_ns AS DOUBLE), 0), 0) AS excess_ratio,
    f.wait_ratio * greatest(1 - f.wait_median_ns / nullif(CAST(f.wait_mean_ns AS DOUBLE), 0), 0)
        * coalesce(p.dataloader_idle_ns / nullif(p.dataloader_ns, 0), 1) AS idle_excess_ratio,
    f.pattern, f.fetch_period, f.worker_count
FROM loader_fetches f
LEFT JOIN step_phases p ON p.rank = f.rank
