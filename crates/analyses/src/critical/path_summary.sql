--! question = "Is the run bound by the host, by kernels, by communication or by launches?"
--! row = "one bound of the critical path of one rank"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["critical_path", "critical_windows"]
--! order = ["rank", "bound_by"]
--! when_empty = "the trace holds no event"
--! [columns]
--! rank = "rank"
--! bound_by = "reason that the run waited for, as in critical_path"
--! segment_count = { doc = "stretches of the path", unit = "count" }
--! dur_ns = { doc = "time on the path; the sum over all is the window", unit = "ns" }
--! ratio = { doc = "that time over the window", unit = "ratio" }
--! after_sync_ns = { doc = "of it, between a call that waited for the device and the next launch", unit = "ns" }
SELECT
    p.rank, p.bound_by,
    count(*) AS segment_count,
    sum(p.dur_ns) AS dur_ns,
    ratio!(sum(p.dur_ns), w.dur_ns) AS ratio,
    sum(CASE WHEN p.after_sync IS NULL THEN 0 ELSE p.dur_ns END) AS after_sync_ns
FROM critical_path p
JOIN critical_windows w ON w.rank = p.rank
GROUP BY p.rank, p.bound_by, w.dur_ns
