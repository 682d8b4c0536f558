--! question = "Which ranks belong to which process group, and what does each dump know of them?"
--! row = "one rank of one process group"
--! window = "recording"
--! scope = "run"
--! needs = ["flight_dumps", "flight_records", "flight_process_groups"]
--! order = ["group_name", "group_ranks", "rank"]
--! requires = ["flight_records"]
--! when_empty = "the run has no dump of PyTorch's Flight Recorder with a collective"
--! [columns]
--! group_name = "process group, as PyTorch names it: 0 is the default group"
--! group_ranks = "its global ranks, as the dumps state them; empty if they do not"
--! group_description = "its description"
--! rank = "rank"
--! membership = "how the rank is known to belong to the group: stated (by a dump), numbering (the default group has all ranks from 0 to the highest) or records (it called a collective of the group)"
--! has_dump = "the run has a dump of this rank"
--! knows_calls = "a collective after last_seq that is not in the dump was not called; false without a dump, if records were left out, or if those of the group may have been overwritten"
--! call_count = { doc = "collectives of the group in the dump", unit = "count" }
--! first_seq = "number of the first of them"
--! last_seq = "number of the last of them"
WITH groups AS (
    SELECT
        CAST(group_name AS VARCHAR) AS group_name, coalesce(CAST(group_ranks AS VARCHAR), '') AS group_ranks,
        min(CAST(group_description AS VARCHAR)) AS group_description
    FROM (
        SELECT group_name, group_ranks, group_description FROM flight_records WHERE group_name IS NOT NULL
        UNION ALL
        SELECT group_name, group_ranks, group_description FROM flight_process_groups
        WHERE group_ranks IS NOT NULL AND group_name <> ''
    )
    GROUP BY 1, 2
),
stated AS (
    SELECT group_name, group_ranks, CAST(unnest(string_to_array(group_ranks, ',')) AS INTEGER) AS rank
    FROM groups
    WHERE group_ranks <> ''
),
world AS (
    SELECT max(rank) AS highest_rank
    FROM (
        SELECT rank FROM flight_dumps
        UNION ALL SELECT rank FROM stated
        UNION ALL SELECT CAST(member_count - 1 AS INTEGER) FROM flight_process_groups
    )
),
-- Gloo does not state members.
default_group AS (
    SELECT g.group_name, g.group_ranks, w.highest_rank
    FROM groups g
    CROSS JOIN world w
    WHERE g.group_ranks = '' AND (g.group_description = 'default_pg' OR (g.group_description IS NULL AND g.group_name = '0'))
),
numbered AS (
    SELECT group_name, group_ranks, CAST(unnest(range(0, highest_rank + 1)) AS INTEGER) AS rank FROM default_group
),
own AS (
    SELECT
        CAST(group_name AS VARCHAR) AS group_name, coalesce(CAST(group_ranks AS VARCHAR), '') AS group_ranks, rank,
        count(collective_seq) AS call_count, min(collective_seq) AS first_seq, max(collective_seq) AS last_seq
    FROM flight_records
    WHERE group_name IS NOT NULL
    GROUP BY 1, 2, 3
),
members AS (
    SELECT group_name, group_ranks, rank, min(membership) AS membership
    FROM (
        SELECT group_name, group_ranks, rank, 'stated' AS membership FROM stated
        UNION ALL SELECT group_name, group_ranks, rank, 'numbering' FROM numbered
        UNION ALL
        SELECT o.group_name, o.group_ranks, o.rank, 'records'
        FROM own o
        LEFT JOIN default_group d ON d.group_name = o.group_name AND d.group_ranks = o.group_ranks
        WHERE o.group_ranks = '' AND d.group_name IS NULL
    )
    GROUP BY group_name, group_ranks, rank
),
-- TORCH_INCLUDE_ONLY_ACTIVE leaves out what is complete.
dumps AS (
    SELECT
        rank, has_records, record_count, oldest_record_id,
        coalesce(record_count < newest_record_id - oldest_record_id + 1, false) AS has_gaps,
        max(CASE WHEN record_count < newest_record_id - oldest_record_id + 1 OR oldest_record_id > 0 THEN 1 ELSE 0 END)
            OVER () AS any_partial
    FROM flight_dumps
)
SELECT
    m.group_name, m.group_ranks, g.group_description, m.rank, m.membership,
    d.rank IS NOT NULL AS has_dump,
    CASE
        WHEN d.rank IS NULL OR NOT d.has_records OR d.has_gaps THEN false
        WHEN o.call_count > 0 THEN true
        WHEN d.record_count = 0 THEN d.any_partial = 0
        ELSE d.oldest_record_id = 0
    END AS knows_calls,
    coalesce(o.call_count, 0) AS call_count, o.first_seq, o.last_seq
FROM members m
JOIN groups g ON g.group_name = m.group_name AND g.group_ranks = m.group_ranks
LEFT JOIN own o ON o.group_name = m.group_name AND o.group_ranks = m.group_ranks AND o.rank = m.rank
LEFT JOIN dumps d ON d.rank = m.rank
