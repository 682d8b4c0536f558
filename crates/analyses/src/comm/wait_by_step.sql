--! question = "In which steps do ranks wait for each other?"
--! row = "one step of one rank with collectives that have a time"
--! window = "all_steps"
--! scope = "run"
--! needs = ["comm_collectives", "comm_arrivals", "steps"]
--! order = ["rank", "step"]
--! when_empty = "no collective in a step has a time: there are none, or the trace holds no kernels and the backend leaves the work to a device"
--! [columns]
--! rank = "rank"
--! step = "step in which the collectives were called"
--! collective_count = { doc = "collectives with a time", unit = "count", metric = "step" }
--! matched_count = { doc = "of these, matched with those of all other ranks", unit = "count", metric = "step" }
--! comm_ns = { doc = "time in which any of them runs", unit = "ns", metric = "step" }
--! transfer_ns = { doc = "time in which data moves: the last part of each matched collective, as long as its shortest on any rank; absent if none is matched", unit = "ns", metric = "step" }
--! wait_ns = { doc = "the rest of the time in which matched collectives run: synchronizing; absent if none is matched", unit = "ns", metric = "step" }
--! wait_ratio = { doc = "share of the time of matched collectives", unit = "ratio", metric = "step" }
--! is_complete = "the end of the recording cannot have cut off any rank's part of a matched collective, see comm_arrivals; if it may have, waiting is not known"
-- Data transfer and synchronizing as in TensorBoard's plugin, from durations alone: no clock is compared.
-- Ranges may overlap, where a rank runs several collectives at once: what a range adds is what comes
-- after the latest end before it.
WITH ranges AS (
    SELECT
        c.rank, coalesce(c.step, s.step) AS step, c.collective,
        c.ts_ns,
        c.ts_ns + c.dur_ns AS end_ns,
        c.ts_ns + c.dur_ns - a.transfer_ns AS transfer_ts_ns,
        coalesce(a.is_complete, true) AS is_complete
    FROM comm_collectives c
    LEFT JOIN comm_arrivals a ON a.rank = c.rank AND a.collective = c.collective
    -- Where there are no steps the recording is one, which events do not say.
    LEFT JOIN (SELECT rank, step FROM steps WHERE source = 'trace') s ON s.rank = c.rank
    WHERE c.dur_ns IS NOT NULL AND coalesce(c.step, s.step) IS NOT NULL
),
earlier AS (
    SELECT
        *,
        max_before!(end_ns, PARTITION BY rank, step ORDER BY ts_ns, collective) AS until_ns,
        max_before!(CASE WHEN transfer_ts_ns IS NOT NULL THEN end_ns END, PARTITION BY rank, step ORDER BY ts_ns,
            collective) AS matched_until_ns,
        max_before!(CASE WHEN transfer_ts_ns IS NOT NULL THEN end_ns END, PARTITION BY rank, step ORDER BY transfer_ts_ns,
            collective) AS transfer_until_ns
    FROM ranges
),
sums AS (
    SELECT
        rank, step,
        count(*) AS collective_count,
        count(transfer_ts_ns) AS matched_count,
        bool_and(is_complete) AS is_complete,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)), 0)) AS comm_ns,
        sum(CASE WHEN transfer_ts_ns IS NOT NULL
            THEN greatest(end_ns - greatest(ts_ns, coalesce(matched_until_ns, ts_ns)), 0) END) AS matched_ns,
        sum(CASE WHEN transfer_ts_ns IS NOT NULL
            THEN greatest(end_ns - greatest(transfer_ts_ns, coalesce(transfer_until_ns, transfer_ts_ns)), 0)
        END) AS transfer_ns
    FROM earlier
    GROUP BY rank, step
)
SELECT
    rank, step, collective_count, matched_count, comm_ns, transfer_ns,
    matched_ns - transfer_ns AS wait_ns,
    ratio!(matched_ns - transfer_ns, matched_ns) AS wait_ratio,
    is_complete
FROM sums
