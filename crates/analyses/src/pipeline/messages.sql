--! question = "Which messages does each rank exchange with a single other rank?"
--! row = "one event of a message on one rank: a call on the host, or a kernel"
--! window = "recording"
--! needs = ["host_collectives", "collectives", "cpu_ops", "kernel_runs"]
--! order = ["rank", "host_ts_ns", "event_id"]
--! when_empty = "the trace holds no message between two ranks: neither calls of send and recv, nor a kernel that such a call launches"
--! [columns]
--! rank = "rank"
--! event_id = "the event"
--! name = "name as written: c10d::send, record_param_comms, gloo:recv, a kernel"
--! direction = "send, recv, or both (a kernel for a batch of sends and receives)"
--! peer = "the other rank, as record_param_comms says (Src Rank, Dst Rank); absent elsewhere"
--! group_peer = "the other rank as c10d::send and c10d::recv_ name it, a rank within the group; needs record_shapes=True"
--! group_name = "process group; absent where the trace does not name it"
--! group_description = "what the group is for"
--! group_ranks = "ranks of the group, as written"
--! step = "step of the call"
--! host_ts_ns = { doc = "start of the call on the host; of a kernel, of its launch", unit = "ns" }
--! is_timed = "ts_ns and dur_ns cover the transfer and the wait for the other rank: a kernel, or a range of a library that works on the host (gloo, MPI)"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
WITH calls AS (
    SELECT
        h.rank, h.event_id, h.name, h.step, h.ts_ns, h.dur_ns,
        CASE
            WHEN h.name LIKE 'c10d::send%' OR h.name LIKE '%:send' THEN 'send'
            WHEN h.name LIKE 'c10d::recv%' OR h.name LIKE '%:recv' THEN 'recv'
            WHEN h.name = 'record_param_comms' AND m.name IN ('send', 'recv') THEN CAST(m.name AS VARCHAR)
        END AS direction,
        m.group_name, m.group_description, m.group_ranks,
        h.name LIKE 'gloo:%' OR h.name LIKE 'mpi:%' AS is_timed
    FROM host_collectives h
    LEFT JOIN collectives m ON m.rank = h.rank AND m.event_id = h.event_id
),
messages AS (
    SELECT
        c.*,
        o.args
    FROM calls c
    LEFT JOIN cpu_ops o ON o.rank = c.rank AND o.event_id = c.event_id
    WHERE c.direction IS NOT NULL
),
message_kernels AS (
    SELECT
        k.rank, k.event_id, k.name, k.step, k.ts_ns, k.dur_ns, k.launch_ts_ns,
        CASE
            WHEN m.name IN ('send', 'recv') THEN CAST(m.name AS VARCHAR)
            WHEN k.op_name LIKE '%:send' THEN 'send'
            WHEN k.op_name LIKE '%:recv' THEN 'recv'
            WHEN k.op_name IS NULL OR k.op_name LIKE '%coalesced%' OR k.op_name IN ('record_param_comms', 'nccl:send_recv') THEN 'unknown'
        END AS direction,
        m.group_name, m.group_description, m.group_ranks
    FROM kernel_runs k
    LEFT JOIN collectives m ON m.rank = k.rank AND m.event_id = k.event_id
    WHERE k.kind = 'communication' AND k.name LIKE '%SendRecv%' AND k.launch_ts_ns IS NOT NULL
        AND coalesce(m.name NOT LIKE '%all%', true)
),
-- The calls of a batch (batch_isend_irecv) come before the launch of its kernel.
launches AS (
    SELECT
        rank, event_id, at_ns, is_kernel,
        running_sum!(sends, PARTITION BY rank ORDER BY at_ns, is_kernel, event_id) AS sends,
        running_sum!(receives, PARTITION BY rank ORDER BY at_ns, is_kernel, event_id) AS receives
    FROM (
        SELECT
            rank, event_id, ts_ns AS at_ns, 0 AS is_kernel,
            CASE WHEN direction = 'send' THEN 1 ELSE 0 END AS sends,
            CASE WHEN direction = 'recv' THEN 1 ELSE 0 END AS receives
        FROM messages
        WHERE rank IN (SELECT DISTINCT rank FROM message_kernels)
        UNION ALL
        SELECT rank, event_id, launch_ts_ns, 1, 0, 0 FROM message_kernels WHERE direction IS NOT NULL
    )
),
contents AS (
    SELECT
        rank, event_id,
        sends - coalesce(lag(sends) OVER w, 0) AS sends,
        receives - coalesce(lag(receives) OVER w, 0) AS receives
    FROM launches
    WHERE is_kernel = 1
    WINDOW w AS (PARTITION BY rank ORDER BY at_ns, event_id)
)
SELECT
    rank, event_id, CAST(name AS VARCHAR) AS name, direction,
    TRY_CAST(regexp_match(args, '"(?:Src|Dst) Rank": ?"?([0-9]+)')[1] AS BIGINT) AS peer,
    TRY_CAST(regexp_match(args, '"Concrete Inputs": ?\["[^"]*", ?"[^"]*", ?"([0-9]+)"')[1] AS BIGINT) AS group_peer,
    CAST(group_name AS VARCHAR) AS group_name,
    CAST(group_description AS VARCHAR) AS group_description,
    CAST(group_ranks AS VARCHAR) AS group_ranks,
    step, ts_ns AS host_ts_ns, is_timed, ts_ns, dur_ns
FROM messages
UNION ALL
SELECT
    k.rank, k.event_id, CAST(k.name AS VARCHAR),
    CASE
        WHEN k.direction <> 'unknown' THEN k.direction
        WHEN c.sends > 0 AND c.receives > 0 THEN 'both'
        WHEN c.sends > 0 THEN 'send'
        ELSE 'recv'
    END,
    NULL, NULL,
    CAST(k.group_name AS VARCHAR), CAST(k.group_description AS VARCHAR), CAST(k.group_ranks AS VARCHAR),
    k.step, k.launch_ts_ns, true, k.ts_ns, k.dur_ns
FROM message_kernels k
JOIN contents c ON c.rank = k.rank AND c.event_id = k.event_id
WHERE k.direction <> 'unknown' OR c.sends + c.receives > 0
