--! question = "Which operators and kernels lie on the critical path?"
--! row = "one operator, kernel, call, range or frame on the critical path of one rank"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["critical_path"]
--! order = ["rank", "position"]
--! when_empty = "the trace holds no event"
--! [columns]
--! rank = "rank"
--! position = "from 1, most time first"
--! bound_by = "reason that the run waited for, as in critical_path"
--! name = "name of the event; absent where there is none"
--! stored_in = "table that holds the event"
--! segment_count = { doc = "stretches of the path", unit = "count" }
--! dur_ns = { doc = "time on the path", unit = "ns" }
--! ratio = { doc = "that time over the window", unit = "ratio" }
-- The segments tile the window: its length is their sum.
WITH sums AS (
    SELECT rank, bound_by, name, stored_in, count(*) AS segment_count, sum(dur_ns) AS dur_ns
    FROM critical_path
    GROUP BY rank, bound_by, name, stored_in
)
SELECT
    rank,
    row_number() OVER (PARTITION BY rank ORDER BY dur_ns DESC, bound_by, name, stored_in) AS position,
    bound_by, name, stored_in, segment_count, dur_ns,
    ratio!(dur_ns, sum(dur_ns) OVER (PARTITION BY rank)) AS ratio
FROM sums
