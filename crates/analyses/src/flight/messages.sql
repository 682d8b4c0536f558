--! question = "Which sends wait for a receive, and which receives for a send?"
--! row = "one pair of ranks of a process group with a send or receive that did not complete"
--! window = "recording"
--! scope = "run"
--! needs = ["flight_calls", "flight_dumps"]
--! order = ["group_name", "group_ranks", "source_rank", "target_rank"]
--! when_empty = "every send and receive completed, or the run has no dump of PyTorch's Flight Recorder with one (gloo does not record them)"
--! [columns]
--! group_name = "process group, as PyTorch names it: 0 is the default group"
--! group_ranks = "its global ranks, as the dumps state them; empty if they do not"
--! source_rank = "rank that sends"
--! target_rank = "rank that receives"
--! pending_send_count = { doc = "sends that did not complete", unit = "count" }
--! pending_receive_count = { doc = "receives that did not complete", unit = "count" }
--! missing = "send or recv: which of the two the other rank did not call; absent if there are as many sends as receives"
--! missing_rank = "rank that did not call it"
--! missing_has_dump = "the run has a dump of that rank; otherwise it is unknown whether it called"
--! waiting_rank = "rank that waits for it"
--! call = "its first call that waits, with sizes and types"
--! source = "line of the program that called it"
--! p2p_seq = "number of it in the group on its rank"
--! ts_ns = { doc = "time of it", unit = "ns" }
-- Numbers of messages count on each rank on its own, so they do not tell which send belongs to which receive. NCCL completes both or
-- none, so what did not complete can be counted. Messages that are no longer watched are not counted: backends that report no end
-- retire them at once.
WITH pending AS (
    SELECT
        group_name, group_ranks, source_rank, target_rank, operation, rank, call, source, p2p_seq, ts_ns,
        row_number() OVER (PARTITION BY group_name, group_ranks, source_rank, target_rank, operation ORDER BY record_id) AS place
    FROM flight_calls
    WHERE operation IN ('send', 'recv') AND progress IN ('scheduled', 'started')
        AND source_rank IS NOT NULL AND target_rank IS NOT NULL
),
pairs AS (
    SELECT
        group_name, group_ranks, source_rank, target_rank,
        count_if!(operation = 'send') AS pending_send_count,
        count_if!(operation = 'recv') AS pending_receive_count
    FROM pending
    GROUP BY group_name, group_ranks, source_rank, target_rank
),
judged AS (
    SELECT
        *,
        CASE
            WHEN pending_send_count > pending_receive_count THEN 'recv'
            WHEN pending_send_count < pending_receive_count THEN 'send'
        END AS missing,
        CASE
            WHEN pending_send_count > pending_receive_count THEN target_rank
            WHEN pending_send_count < pending_receive_count THEN source_rank
        END AS missing_rank,
        CASE WHEN pending_send_count > pending_receive_count THEN 'send' ELSE 'recv' END AS waiting
    FROM pairs
)
SELECT
    j.group_name, j.group_ranks, j.source_rank, j.target_rank, j.pending_send_count, j.pending_receive_count,
    j.missing, j.missing_rank,
    CASE WHEN j.missing IS NOT NULL THEN d.rank IS NOT NULL END AS missing_has_dump,
    p.rank AS waiting_rank, p.call, p.source, p.p2p_seq, p.ts_ns
FROM judged j
JOIN pending p ON p.group_name = j.group_name AND p.group_ranks = j.group_ranks AND p.source_rank = j.source_rank
    AND p.target_rank = j.target_rank AND p.operation = j.waiting
    -- The calls before this one have a partner that waits, too.
    AND p.place = least(j.pending_send_count, j.pending_receive_count) + CASE WHEN j.missing IS NULL THEN 0 ELSE 1 END
LEFT JOIN (SELECT DISTINCT rank FROM flight_dumps) d ON d.rank = j.missing_rank
