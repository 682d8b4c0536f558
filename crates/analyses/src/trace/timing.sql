--! question = "Are the recorded times plausible?"
--! row = "one rank: implausible times"
--! window = "recording"
--! needs = ["device_work", "kernel_variation"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! work_count = { doc = "kernels, copies and fills", unit = "count", metric = "rank" }
--! work_ns = { doc = "their durations, added up", unit = "ns", metric = "rank" }
--! early_count = { doc = "of these, work that starts before the call that launched it", unit = "count", metric = "rank" }
--! early_ratio = { doc = "share of the work whose launch is known", unit = "ratio", metric = "rank" }
--! max_early_ns = { doc = "largest time by which work starts before its launch; 0 if none", unit = "ns", metric = "rank" }
--! overlap_count = { doc = "kernels that start before the one ahead of them on the same stream has ended", unit = "count", metric = "rank" }
--! overlap_ns = { doc = "for how long, added up", unit = "ns", metric = "rank" }
--! overlap_ratio = { doc = "share of work_ns", unit = "ratio", metric = "rank" }
--! erratic_count = { doc = "kernels with the same name and grid whose executions differ more than they last (standard deviation over mean above 1, more than 10 executions, 5 % of kernel time or more)", unit = "count", metric = "rank" }
--! impossible_ratio = { doc = "the larger of early_ratio and overlap_ratio", unit = "ratio", metric = "rank" }
-- A stream runs one thing after the other. With programmatic dependent launch (Hopper and later) the start of a
-- kernel may lie a few microseconds before the end of the one before it.
WITH queue AS (
    SELECT
        rank, category, ts_ns, end_ns, dur_ns, launch_ts_ns,
        CASE WHEN stream >= 0 THEN
            max_before!(end_ns, PARTITION BY rank, device, stream ORDER BY ts_ns, event_id)
        END AS until_ns
    FROM device_work
),
sums AS (
    SELECT
        rank,
        count(*) AS work_count,
        sum(dur_ns) AS work_ns,
        count(launch_ts_ns) AS launched_count,
        count_if!(ts_ns < launch_ts_ns) AS early_count,
        max(CASE WHEN ts_ns < launch_ts_ns THEN launch_ts_ns - ts_ns ELSE 0 END) AS max_early_ns,
        count_if!(category = 'kernel' AND ts_ns < until_ns) AS overlap_count,
        sum_if!(least(until_ns, end_ns) - ts_ns, category = 'kernel' AND ts_ns < until_ns) AS overlap_ns
    FROM queue
    GROUP BY rank
),
erratic AS (
    SELECT rank, sum(erratic_count) AS erratic_count FROM kernel_variation GROUP BY rank
)
SELECT
    s.rank, s.work_count, s.work_ns, s.early_count,
    ratio!(s.early_count, s.launched_count) AS early_ratio,
    s.max_early_ns, s.overlap_count, s.overlap_ns,
    ratio!(s.overlap_ns, s.work_ns) AS overlap_ratio,
    coalesce(e.erratic_count, 0) AS erratic_count,
    greatest(
        coalesce(ratio!(s.early_count, s.launched_count), 0),
        coalesce(ratio!(s.overlap_ns, s.work_ns), 0)
    ) AS impossible_ratio
FROM sums s
LEFT JOIN erratic e ON e.rank = s.rank
