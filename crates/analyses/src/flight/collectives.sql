--! question = "Did all ranks of a process group call the same collective, and did it complete?"
--! row = "one collective of one process group"
--! window = "recording"
--! scope = "run"
--! needs = ["flight_collective_calls", "flight_members"]
--! order = ["group_name", "group_ranks", "seq"]
--! requires = ["flight_records"]
--! when_empty = "the run has no dump of PyTorch's Flight Recorder with a collective"
--! [columns]
--! group_name = "process group, as PyTorch names it: 0 is the default group"
--! group_description = "its description"
--! group_ranks = "its global ranks, as the dumps state them; empty if they do not"
--! seq = "number of the collective in the group"
--! operation = "operation that most ranks called"
--! call = "the same with sizes and types"
--! source = "line of the program that called it on the lowest of these ranks"
--! verdict = "complete; missing: a rank did not call it; mismatch: ranks called different collectives; unknown: it did not complete, and not all ranks have a dump that tells; unfinished: all ranks called it, and it did not complete"
--! member_count = { doc = "ranks in the group", unit = "count" }
--! scheduled_count = { doc = "ranks that called it, and on which it has not started", unit = "count" }
--! started_count = { doc = "ranks on which it runs", unit = "count" }
--! completed_count = { doc = "ranks on which it completed", unit = "count" }
--! failed_count = { doc = "ranks on which it timed out or failed", unit = "count" }
--! missing_count = { doc = "ranks that did not call it by the time of their dump", unit = "count" }
--! missing_ranks = "these ranks"
--! no_dump_count = { doc = "ranks without a dump", unit = "count" }
--! no_dump_ranks = "these ranks"
--! unknown_count = { doc = "ranks whose dump does not tell: the record was overwritten or left out", unit = "count" }
--! mismatch = "operation, size or dtype if ranks disagree; absent if they agree"
--! disagreeing_ranks = "ranks that did not call what most ranks called"
--! calls = "what each rank called, if they disagree"
--! ts_ns = { doc = "first call", unit = "ns" }
--! last_ts_ns = { doc = "last call", unit = "ns" }
WITH calls AS (
    SELECT * FROM flight_collective_calls
),
numbers AS (
    SELECT DISTINCT group_name, group_ranks, seq FROM calls
),
states AS (
    SELECT
        m.group_name, m.group_ranks, m.group_description, n.seq, m.rank, c.operation, c.call, c.progress, c.signature, c.size_key,
        c.dtype_key, c.source, c.ts_ns, c.input_element_count, c.output_element_count,
        CASE
            WHEN c.rank IS NOT NULL THEN 'called'
            WHEN NOT m.has_dump THEN 'no_dump'
            WHEN NOT m.knows_calls OR m.last_seq >= n.seq THEN 'unknown'
            ELSE 'missing'
        END AS status
    FROM numbers n
    JOIN flight_members m ON m.group_name = n.group_name AND m.group_ranks = n.group_ranks
    LEFT JOIN calls c ON c.group_name = m.group_name AND c.group_ranks = m.group_ranks AND c.seq = n.seq AND c.rank = m.rank
),
signatures AS (
    SELECT
        group_name, group_ranks, seq, signature, min(operation) AS operation, min(call) AS call,
        first_value(source ORDER BY rank) AS source, count(*) AS rank_count, min(rank) AS first_rank,
        string_agg(CAST(rank AS VARCHAR), ', ' ORDER BY rank) AS ranks
    FROM states
    WHERE status = 'called'
    GROUP BY group_name, group_ranks, seq, signature
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY group_name, group_ranks, seq ORDER BY rank_count DESC, first_rank) AS place
    FROM signatures
),
agreement AS (
    SELECT
        group_name, group_ranks, seq, count(*) AS signature_count,
        min(CASE WHEN place = 1 THEN operation END) AS operation,
        min(CASE WHEN place = 1 THEN call END) AS call,
        min(CASE WHEN place = 1 THEN source END) AS source,
        string_agg(CASE WHEN place > 1 THEN ranks END, ', ' ORDER BY place) AS disagreeing_ranks,
        string_agg(
            CASE WHEN rank_count = 1 THEN 'rank ' ELSE 'ranks ' END || ranks || ': ' || call || coalesce(' (' || source || ')', ''),
            '; ' ORDER BY place
        ) AS calls
    FROM ranked
    GROUP BY group_name, group_ranks, seq
),
totals AS (
    SELECT
        group_name, group_ranks, seq, min(group_description) AS group_description,
        count(*) AS member_count,
        count_if!(progress = 'scheduled') AS scheduled_count,
        count_if!(progress = 'started') AS started_count,
        count_if!(progress = 'completed') AS completed_count,
        count_if!(progress = 'failed') AS failed_count,
        count_if!(status = 'missing') AS missing_count,
        count_if!(status = 'no_dump') AS no_dump_count,
        count_if!(status = 'unknown') AS unknown_count,
        string_agg(CASE WHEN status = 'missing' THEN CAST(rank AS VARCHAR) END, ', ' ORDER BY rank) AS missing_ranks,
        string_agg(CASE WHEN status = 'no_dump' THEN CAST(rank AS VARCHAR) END, ', ' ORDER BY rank) AS no_dump_ranks,
        CASE
            WHEN count(DISTINCT operation) > 1 THEN 'operation'
            WHEN count(DISTINCT size_key) > 1 THEN 'size'
            -- Of an exchange of uneven parts, all that is sent must be received.
            WHEN min(operation) IN ('all_to_all', 'all_to_all_single') AND count(operation) = count(*)
                AND sum(input_element_count) <> sum(output_element_count) THEN 'size'
            WHEN count(DISTINCT dtype_key) > 1 THEN 'dtype'
        END AS mismatch,
        min(ts_ns) AS ts_ns, max(ts_ns) AS last_ts_ns
    FROM states
    GROUP BY group_name, group_ranks, seq
)
SELECT
    t.group_name, t.group_description, t.group_ranks, t.seq, a.operation, a.call, a.source,
    CASE
        WHEN t.mismatch IS NOT NULL THEN 'mismatch'
        WHEN t.missing_count > 0 THEN 'missing'
        WHEN t.scheduled_count + t.started_count + t.failed_count = 0 THEN 'complete'
        WHEN t.no_dump_count + t.unknown_count > 0 THEN 'unknown'
        ELSE 'unfinished'
    END AS verdict,
    t.member_count, t.scheduled_count, t.started_count, t.completed_count, t.failed_count,
    t.missing_count, t.missing_ranks, t.no_dump_count, t.no_dump_ranks, t.unknown_count,
    t.mismatch,
    CASE WHEN t.mismatch IS NOT NULL THEN a.disagreeing_ranks END AS disagreeing_ranks,
    CASE WHEN t.mismatch IS NOT NULL THEN a.calls END AS calls,
    t.ts_ns, t.last_ts_ns
FROM totals t
JOIN agreement a ON a.group_name = t.group_name AND a.group_ranks = t.group_ranks AND a.seq = t.seq
