--! question = "What bounds each step on the critical path?"
--! row = "one bound of the critical path in one step of one rank"
--! window = "recording"
--! needs = ["critical_path"]
--! order = ["rank", "step", "bound_by"]
--! when_empty = "no part of the critical path lies in a step"
--! [columns]
--! rank = "rank"
--! step = "step"
--! bound_by = "reason that the run waited for, as in critical_path"
--! dur_ns = { doc = "time on the path in the step; the sum over all is the length of the step", unit = "ns" }
--! ratio = { doc = "that time over the length of the step", unit = "ratio" }
-- Segments of the path are cut at the borders of steps, so that each lies in one step or in none.
SELECT
    rank, step, bound_by,
    sum(dur_ns) AS dur_ns,
    ratio!(sum(dur_ns), sum(sum(dur_ns)) OVER (PARTITION BY rank, step)) AS ratio
FROM critical_path
WHERE step IS NOT NULL
GROUP BY rank, step, bound_by
