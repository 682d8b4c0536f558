--! question = "How much communication runs at the same time as computation?"
--! row = "one rank with device activity"
--! window = "activity_span"
--! needs = ["activity_segments", "device_activities"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! comm_ns = { doc = "a communicating kernel runs", unit = "ns", metric = "rank" }
--! overlap_ns = { doc = "a communicating and a computing kernel run", unit = "ns", metric = "rank" }
--! exposed_ns = { doc = "a communicating kernel runs and no computing one does", unit = "ns", metric = "rank" }
--! overlap_ratio = { doc = "share of communication that runs under computation; absent without communication", unit = "ratio", metric = "rank" }
--! exposed_ratio = { doc = "share of the window in which communication runs and computation does not", unit = "ratio", metric = "rank" }
--! window_ns = { doc = "from the first device activity of the rank to the end of the last", unit = "ns", metric = "rank" }
WITH sums AS (
    SELECT
        rank,
        sum_if!(dur_ns, communication_count > 0) AS comm_ns,
        sum_if!(dur_ns, communication_count > 0 AND computation_count > 0) AS overlap_ns
    FROM activity_segments
    GROUP BY rank
),
windows AS (
    SELECT rank, max(end_ns) - min(ts_ns) AS window_ns FROM device_activities GROUP BY rank
)
SELECT
    s.rank, s.comm_ns, s.overlap_ns,
    s.comm_ns - s.overlap_ns AS exposed_ns,
    ratio!(s.overlap_ns, s.comm_ns) AS overlap_ratio,
    ratio!(s.comm_ns - s.overlap_ns, w.window_ns) AS exposed_ratio,
    w.window_ns
FROM sums s
JOIN windows w ON w.rank = s.rank
