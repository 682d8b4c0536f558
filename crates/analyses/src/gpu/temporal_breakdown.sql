--! question = "How does GPU time split into idle, computing and other, by HTA's definition?"
--! row = "one rank: its device time, split by what runs"
--! window = "activity_span"
--! needs = ["activity_segments"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device timeline: nothing ran on a device, or the range profiler (CUPTI) measured kernels and serialized them"
--! [columns]
--! rank = "rank"
--! kernel_time_ns = { doc = "from the start of the first device activity to the end of the last", unit = "ns", metric = "rank" }
--! idle_ns = { doc = "no device of the rank runs anything", unit = "ns", metric = "rank" }
--! compute_ns = { doc = "a computing kernel runs", unit = "ns", metric = "rank" }
--! non_compute_ns = { doc = "communication, copies or fills run and no computing kernel does", unit = "ns", metric = "rank" }
--! idle_ratio = { doc = "idle share of kernel_time_ns, as in HTA; gpu_utilization.idle_ratio is the share of complete steps", unit = "ratio", metric = "rank" }
--! compute_ratio = { doc = "computing share of kernel_time_ns", unit = "ratio", metric = "rank" }
--! non_compute_ratio = { doc = "non-computing share of kernel_time_ns", unit = "ratio", metric = "rank" }
WITH sums AS (
    SELECT
        rank,
        sum(dur_ns) AS kernel_time_ns,
        sum_if!(dur_ns, computation_count + communication_count + memory_count = 0) AS idle_ns,
        sum_if!(dur_ns, computation_count > 0) AS compute_ns
    FROM activity_segments
    GROUP BY rank
)
SELECT
    rank, kernel_time_ns, idle_ns, compute_ns,
    kernel_time_ns - idle_ns - compute_ns AS non_compute_ns,
    CAST(idle_ns AS DOUBLE) / kernel_time_ns AS idle_ratio,
    CAST(compute_ns AS DOUBLE) / kernel_time_ns AS compute_ratio,
    CAST(kernel_time_ns - idle_ns - compute_ns AS DOUBLE) / kernel_time_ns AS non_compute_ratio
FROM sums
