--! question = "In which replays of a graph does the profiler add a gap after each node?"
--! row = "one replay on one device in which the profiler adds gaps"
--! window = "recording"
--! needs = ["device_work"]
--! order = ["rank", "device", "launch"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! launch = "call that launched the graph"
--! dur_ns = { doc = "from the start of its first node to the end of the last one", unit = "ns" }
--! gap_count = { doc = "gaps between its nodes, in which none of them runs", unit = "count" }
--! gap_ns = { doc = "total length of these gaps", unit = "ns" }
--! median_gap_ns = { doc = "median length of these gaps", unit = "ns" }
-- A profiler that traces the nodes of a graph adds about the same time to each node. Gaps count if a replay has 20 or more,
-- their median is between 2 and 50 us, and four in five are within 25 % of the median. Waits for data or for other streams have
-- different lengths. Without a profiler, a graph needs up to 2 us from one node to the next; in the one reported case, the
-- profiler's gaps are 5.6 us long.
WITH nodes AS (
    SELECT
        rank, device, launch, ts_ns, end_ns,
        max_before!(end_ns, PARTITION BY rank, device, launch ORDER BY ts_ns, event_id) AS until_ns
    FROM device_work
    WHERE launch_name LIKE '%GraphLaunch%'
),
replays AS (
    SELECT
        rank, device, launch, max(end_ns) - min(ts_ns) AS dur_ns,
        count_if!(ts_ns > until_ns) AS gap_count,
        sum_if!(ts_ns - until_ns, ts_ns > until_ns) AS gap_ns,
        median(CASE WHEN ts_ns > until_ns THEN CAST(ts_ns - until_ns AS DOUBLE) END) AS median_ns
    FROM nodes
    GROUP BY rank, device, launch
    HAVING count_if!(ts_ns > until_ns) >= 20
),
near AS (
    SELECT r.rank, r.device, r.launch, count(*) AS near_count
    FROM replays r
    JOIN nodes n ON n.rank = r.rank AND n.device = r.device AND n.launch = r.launch
    WHERE n.ts_ns - n.until_ns BETWEEN 0.75 * r.median_ns AND 1.25 * r.median_ns
    GROUP BY r.rank, r.device, r.launch
)
SELECT r.rank, r.device, r.launch, r.dur_ns, r.gap_count, r.gap_ns, CAST(r.median_ns AS BIGINT) AS median_gap_ns
FROM replays r
JOIN near n ON n.rank = r.rank AND n.device = r.device AND n.launch = r.launch
WHERE r.median_ns BETWEEN 2000 AND 50000 AND n.near_count >= 0.8 * r.gap_count
