--! question = "What do the dumps of the Flight Recorder say of a hang, in all?"
--! row = "the run"
--! window = "recording"
--! scope = "run"
--! needs = ["active_ranks", "flight_dumps", "flight_members", "flight_collectives", "flight_missing", "flight_messages"]
--! when_empty = "the run could not be read"
--! [columns]
--! has_dump = "the run has dumps of PyTorch's Flight Recorder; without, all below is 0 or absent"
--! has_timeline = "the run has operators or kernels: a program that wrote its trace did not hang while it was recorded"
--! dump_count = { doc = "ranks with a dump", unit = "count", metric = "run" }
--! rank_count = { doc = "ranks of the process groups in the dumps", unit = "count", metric = "run" }
--! no_dump_count = { doc = "ranks of them without a dump", unit = "count", metric = "run" }
--! no_dump_ranks = "these ranks"
--! collective_count = { doc = "collectives in the dumps, each once for all ranks of its group", unit = "count", metric = "run" }
--! unfinished_count = { doc = "collectives that did not complete on a rank", unit = "count", metric = "run" }
--! hidden_count = { doc = "of them, those of which dumps do not tell whether all ranks called them", unit = "count", metric = "run" }
--! missing_count = { doc = "ranks that never called a collective which others called", unit = "count", metric = "run" }
--! missing_after_mismatch = "in each such group, ranks disagreed on an earlier collective"
--! missing_ranks = "ranks that are missing at the collective described below: the one with a missing rank that does not itself wait, then the earliest"
--! missing_rank_count = { doc = "these ranks", unit = "count", metric = "run" }
--! missing_call = "the collective that they never called, with sizes and types"
--! missing_group_name = "its process group"
--! missing_group_description = "description of the group"
--! missing_seq = "its number in the group"
--! missing_source = "line of the program that called it on the others"
--! missing_waiting_count = { doc = "ranks that wait in it", unit = "count", metric = "run" }
--! missing_waited_ns = { doc = "time for which they waited, at least", unit = "ns", metric = "run" }
--! last_rank = "lowest of the missing ranks"
--! last_call = "last call of that rank in its dump"
--! last_group_name = "process group of that call"
--! last_seq = "number of that call in its group"
--! last_source = "line of the program that made it"
--! last_function = "function of it"
--! last_is_complete = "that call completed; if not, the rank itself waits there"
--! mismatch_count = { doc = "process groups whose ranks disagree on a collective", unit = "count", metric = "run" }
--! mismatch = "operation, size or dtype: how ranks disagree in the first of these collectives"
--! mismatch_group_name = "its process group"
--! mismatch_group_description = "description of the group"
--! mismatch_seq = "its number in the group"
--! mismatch_ranks = "ranks that did not call what most ranks called"
--! mismatch_calls = "what each rank called"
--! mismatch_unfinished_count = { doc = "ranks on which it did not complete", unit = "count", metric = "run" }
--! unmatched_count = { doc = "pairs of ranks with a send that no receive waits for, or the other way round, where both have a dump", unit = "count", metric = "run" }
--! unmatched_missing = "send or recv: which is missing in the first such pair"
--! unmatched_missing_rank = "rank that did not call it"
--! unmatched_waiting_rank = "rank that waits for it"
--! unmatched_call = "call that waits, with sizes and types"
--! unmatched_source = "line of the program that called it"
WITH dumps AS (
    SELECT count(DISTINCT rank) AS dump_count FROM flight_dumps
),
timelines AS (
    SELECT count(*) > 0 AS has_timeline FROM active_ranks
),
members AS (
    SELECT
        count(*) AS rank_count,
        coalesce(count_if!(NOT has_dump), 0) AS no_dump_count,
        string_agg(CASE WHEN NOT has_dump THEN CAST(rank AS VARCHAR) END, ', ' ORDER BY rank) AS no_dump_ranks
    FROM (SELECT DISTINCT rank, has_dump FROM flight_members)
),
collectives AS (
    SELECT
        count(*) AS collective_count,
        coalesce(count_if!(scheduled_count + started_count + failed_count > 0), 0) AS unfinished_count,
        coalesce(count_if!(verdict = 'unknown'), 0) AS hidden_count
    FROM flight_collectives
),
missing_groups AS (
    SELECT
        group_name, group_ranks, seq, min(group_description) AS group_description, min(call) AS call, min(source) AS source,
        max(waiting_count) AS waiting_count, max(waited_ns) AS waited_ns,
        count(*) AS rank_count, min(rank) AS first_rank,
        string_agg(CAST(rank AS VARCHAR), ', ' ORDER BY rank) AS ranks,
        min(CASE WHEN last_progress IS NULL OR last_progress = 'completed' THEN rank END) AS free_rank,
        CASE WHEN bool_or(follows_mismatch) THEN 1 ELSE 0 END AS follows_mismatch
    FROM flight_missing
    WHERE kind = 'never called'
    GROUP BY group_name, group_ranks, seq
),
missing_placed AS (
    SELECT
        *,
        coalesce(free_rank, first_rank) AS shown_rank,
        row_number() OVER (
            ORDER BY follows_mismatch, CASE WHEN free_rank IS NULL THEN 1 ELSE 0 END, waited_ns DESC NULLS LAST, group_name, group_ranks
        ) AS place
    FROM missing_groups
),
missing AS (
    SELECT p.*, m.last_call, m.last_group_name, m.last_seq, m.last_source, m.last_function, m.last_progress
    FROM missing_placed p
    JOIN flight_missing m ON m.group_name = p.group_name AND m.group_ranks = p.group_ranks AND m.rank = p.shown_rank
        AND m.kind = 'never called'
    WHERE p.place = 1
),
missing_totals AS (
    SELECT
        count(DISTINCT rank) AS missing_count, bool_and(follows_mismatch) AS follows_mismatch
    FROM flight_missing
    WHERE kind = 'never called'
),
mismatches AS (
    SELECT
        group_name, group_ranks, group_description, seq, mismatch, disagreeing_ranks, calls, ts_ns,
        scheduled_count + started_count + failed_count AS unfinished_count,
        row_number() OVER (PARTITION BY group_name, group_ranks ORDER BY seq) AS place
    FROM flight_collectives
    WHERE mismatch IS NOT NULL
),
mismatches_placed AS (
    SELECT *, row_number() OVER (ORDER BY ts_ns NULLS LAST, group_name, group_ranks) AS run_place
    FROM mismatches
    WHERE place = 1
),
mismatch_totals AS (
    SELECT count(*) AS mismatch_count FROM mismatches_placed
),
unmatched AS (
    SELECT
        missing, missing_rank, waiting_rank, call, source,
        row_number() OVER (ORDER BY ts_ns NULLS LAST, group_name, group_ranks, source_rank, target_rank) AS place
    FROM flight_messages
    WHERE missing IS NOT NULL AND missing_has_dump
),
unmatched_totals AS (
    SELECT count(*) AS unmatched_count FROM unmatched
)
SELECT
    d.dump_count > 0 AS has_dump, tl.has_timeline, d.dump_count, m.rank_count, m.no_dump_count, m.no_dump_ranks,
    c.collective_count, c.unfinished_count, c.hidden_count,
    mt.missing_count, mt.follows_mismatch AS missing_after_mismatch,
    mi.ranks AS missing_ranks, mi.rank_count AS missing_rank_count, mi.call AS missing_call, mi.group_name AS missing_group_name,
    mi.group_description AS missing_group_description, mi.seq AS missing_seq, mi.source AS missing_source,
    mi.waiting_count AS missing_waiting_count, mi.waited_ns AS missing_waited_ns,
    mi.shown_rank AS last_rank, mi.last_call, mi.last_group_name, mi.last_seq, mi.last_source, mi.last_function,
    mi.last_progress = 'completed' AS last_is_complete,
    xt.mismatch_count, x.mismatch, x.group_name AS mismatch_group_name, x.group_description AS mismatch_group_description,
    x.seq AS mismatch_seq, x.disagreeing_ranks AS mismatch_ranks, x.calls AS mismatch_calls,
    x.unfinished_count AS mismatch_unfinished_count,
    ut.unmatched_count, u.missing AS unmatched_missing, u.missing_rank AS unmatched_missing_rank,
    u.waiting_rank AS unmatched_waiting_rank, u.call AS unmatched_call, u.source AS unmatched_source
FROM dumps d
CROSS JOIN timelines tl
CROSS JOIN members m
CROSS JOIN collectives c
CROSS JOIN missing_totals mt
CROSS JOIN mismatch_totals xt
CROSS JOIN unmatched_totals ut
LEFT JOIN missing mi ON mi.place = 1
LEFT JOIN mismatches_placed x ON x.run_place = 1
LEFT JOIN unmatched u ON u.place = 1
