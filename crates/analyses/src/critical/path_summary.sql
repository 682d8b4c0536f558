--! question = "Is the run bound by the host, by kernels, by communication or by launches?"
--! row = "one bound of the critical path of one rank"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["critical_path"]
--! order = ["rank", "bound_by"]
--! when_empty = "the trace holds no event"
--! [columns]
--! rank = "rank"
--! bound_by = "reason that the run waited for, as in critical_path"
--! segment_count = { doc = "stretches of the path", unit = "count" }
--! dur_ns = { doc = "time on the path; the sum over all is the window", unit = "ns" }
--! ratio = { doc = "that time over the window", unit = "ratio" }
--! after_sync_ns = { doc = "of it, between a call that waited for the device and the next launch", unit = "ns" }
-- The segments tile the window: its length is their sum.
SELECT
    rank, bound_by,
    count(*) AS segment_count,
    sum(dur_ns) AS dur_ns,
    ratio!(sum(dur_ns), sum(sum(dur_ns)) OVER (PARTITION BY rank)) AS ratio,
    sum(CASE WHEN after_sync IS NULL THEN 0 ELSE dur_ns END) AS after_sync_ns
FROM critical_path
GROUP BY rank, bound_by
