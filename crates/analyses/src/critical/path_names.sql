--! question = "Which operators and kernels lie on the critical path?"
--! row = "one operator, kernel, call, range or frame on the critical path of one rank"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["critical_path", "critical_windows"]
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
WITH sums AS (
    SELECT rank, bound_by, name, stored_in, count(*) AS segment_count, sum(dur_ns) AS dur_ns
    FROM critical_path
    GROUP BY rank, bound_by, name, stored_in
)
SELECT
    s.rank,
    row_number() OVER (
        PARTITION BY s.rank ORDER BY s.dur_ns DESC, s.bound_by, s.name, s.stored_in
    ) AS position,
    s.bound_by, s.name, s.stored_in, s.segment_count, s.dur_ns,
    ratio!(s.dur_ns, w.dur_ns) AS ratio
FROM sums s
JOIN critical_windows w ON w.rank = s.rank
