--! question = "How much of the communication time of a mean step is waiting for other ranks?"
--! row = "one rank with collectives that have a time: its mean step"
--! window = "all_steps"
--! scope = "run"
--! needs = ["comm_wait_by_step"]
--! order = ["rank"]
--! when_empty = "no collective in a step has a time: there are none, or the trace holds no kernels and the backend leaves the work to a device"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps with collectives that have a time", unit = "count", metric = "rank" }
--! collective_count = { doc = "collectives with a time", unit = "count", metric = "rank" }
--! matched_count = { doc = "of these, matched with those of all other ranks", unit = "count", metric = "rank" }
--! comm_ns = { doc = "time in which any of them runs, a step", unit = "ns", metric = "rank" }
--! transfer_ns = { doc = "time in which data moves, a complete step with matched collectives; absent if there is none", unit = "ns", metric = "rank" }
--! wait_ns = { doc = "time spent waiting for other ranks (synchronizing), a complete step with matched collectives; absent if there is none", unit = "ns", metric = "rank" }
--! wait_ratio = { doc = "share of the time of matched collectives in complete steps", unit = "ratio", metric = "rank" }
-- Part of the last step may be missing. Ranks may then only seem to wait, so this view leaves the step out, as comm_stragglers does.
SELECT
    rank,
    count(*) AS step_count,
    sum(collective_count) AS collective_count,
    sum(matched_count) AS matched_count,
    avg(comm_ns) AS comm_ns,
    avg(CASE WHEN is_complete THEN transfer_ns END) AS transfer_ns,
    avg(CASE WHEN is_complete THEN wait_ns END) AS wait_ns,
    ratio!(sum(CASE WHEN is_complete THEN wait_ns END), sum(CASE WHEN is_complete THEN wait_ns + transfer_ns END)) AS wait_ratio
FROM comm_wait_by_step
GROUP BY rank
