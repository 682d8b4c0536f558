--! question = "Which ranks never arrived at a collective, and what did they do last?"
--! row = "one rank that did not call the first collective which its process group lacks it at, or that has no dump while the group did not finish"
--! window = "recording"
--! scope = "run"
--! needs = ["flight_collectives", "flight_members", "flight_calls"]
--! order = ["group_name", "group_ranks", "rank"]
--! when_empty = "no rank is missing at a collective, or the run has no dump of PyTorch's Flight Recorder"
--! [columns]
--! group_name = "process group, as PyTorch names it: 0 is the default group"
--! group_description = "its description"
--! group_ranks = "its global ranks, as the dumps state them; empty if they do not"
--! seq = "number of the collective in the group"
--! rank = "rank that is missing"
--! kind = "never called: its dump ends before the collective; no dump: whether it called is unknown"
--! call = "collective that the other ranks called, with sizes and types"
--! source = "line of the program that called it on the lowest of these ranks"
--! waiting_count = { doc = "ranks that called it and on which it did not complete", unit = "count" }
--! waited_ns = { doc = "from the first call of it to the last time in any dump: they waited at least this long", unit = "ns" }
--! follows_mismatch = "ranks of the group disagreed on an earlier collective: look at that one first"
--! last_call = "last collective, send or receive in the dump of the missing rank, of any group"
--! last_group_name = "process group of it"
--! last_seq = "number of it in the group"
--! last_progress = "its progress: if it is not completed, the rank itself waits there"
--! last_source = "line of the program that called it"
--! last_function = "its function"
--! last_ts_ns = { doc = "time of that call", unit = "ns" }
WITH firsts AS (
    SELECT
        group_name, group_ranks,
        min(CASE WHEN missing_count > 0 THEN seq END) AS missing_seq,
        min(CASE WHEN mismatch IS NOT NULL THEN seq END) AS mismatch_seq,
        min(CASE WHEN verdict <> 'complete' AND no_dump_count > 0 THEN seq END) AS no_dump_seq
    FROM flight_collectives
    GROUP BY group_name, group_ranks
),
rows AS (
    SELECT
        m.group_name, m.group_ranks, m.rank, 'never called' AS kind, f.missing_seq AS seq,
        coalesce(f.mismatch_seq <= f.missing_seq, false) AS follows_mismatch
    FROM flight_members m
    JOIN firsts f ON f.group_name = m.group_name AND f.group_ranks = m.group_ranks
    WHERE m.knows_calls AND coalesce(m.last_seq, -1) < f.missing_seq
    UNION ALL
    SELECT
        m.group_name, m.group_ranks, m.rank, 'no dump', f.no_dump_seq, coalesce(f.mismatch_seq <= f.no_dump_seq, false)
    FROM flight_members m
    JOIN firsts f ON f.group_name = m.group_name AND f.group_ranks = m.group_ranks
    WHERE NOT m.has_dump AND f.no_dump_seq IS NOT NULL
),
last_calls AS (
    SELECT rank, group_name, seq, call, progress, source, function, ts_ns
    FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY record_id DESC) AS place FROM flight_calls)
    WHERE place = 1
),
ends AS (
    SELECT max(ts_ns) AS end_ns FROM flight_calls
)
SELECT
    r.group_name, c.group_description, r.group_ranks, r.seq, r.rank, r.kind, c.call, c.source,
    c.scheduled_count + c.started_count + c.failed_count AS waiting_count,
    e.end_ns - c.ts_ns AS waited_ns,
    r.follows_mismatch,
    l.call AS last_call, l.group_name AS last_group_name, l.seq AS last_seq, l.progress AS last_progress,
    l.source AS last_source, l.function AS last_function, l.ts_ns AS last_ts_ns
FROM rows r
JOIN flight_collectives c ON c.group_name = r.group_name AND c.group_ranks = r.group_ranks AND c.seq = r.seq
CROSS JOIN ends e
LEFT JOIN last_calls l ON l.rank = r.rank
