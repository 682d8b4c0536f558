--! question = "Do collectives take as long in each process group as in the other groups of its kind?"
--! row = "one process group: the time in which its collectives move data, compared with groups that run the same collectives"
--! window = "recording"
--! sort = ["excess_ns"]
--! scope = "run"
--! needs = ["comm_matches", "comm_exposed"]
--! order = ["rank", "group_name", "group_ranks"]
--! requires = ["collective_sizes", "several_ranks"]
--! when_empty = "no collective of known size was matched between ranks: sizes are in the trace with record_shapes=True, or torch 2.4 and later"
--! [columns]
--! rank = "lowest rank of the group"
--! name = "process group, and its name, or its ranks where the trace does not name it"
--! highest_rank = "highest rank of the group"
--! group_name = "process group; absent where the trace does not name it"
--! group_description = "what the group is for"
--! group_ranks = "ranks of the group, as written"
--! group_size = { doc = "ranks in the group", unit = "number", metric = "collective" }
--! peer_group_count = { doc = "other groups with the same collectives: name, size in bytes, number of ranks, description, and distance of the lowest from the highest rank", unit = "count", metric = "collective" }
--! slow_group_count = { doc = "of these and this one, those whose slowdown is 1.5 or more", unit = "count", metric = "collective" }
--! call_count = { doc = "matched collectives of known size", unit = "count", metric = "collective" }
--! transfer_ns = { doc = "time in which data moves: for each kind of collective, the median of the shortest durations over ranks, times its calls", unit = "ns", metric = "collective" }
--! peer_transfer_ns = { doc = "the same with the median of all groups that run it", unit = "ns", metric = "collective" }
--! slowdown = { doc = "transfer_ns over peer_transfer_ns; absent if no other group runs the same collectives", unit = "number", metric = "collective" }
--! excess_ns = { doc = "transfer_ns beyond peer_transfer_ns", unit = "ns", metric = "collective" }
--! exposed_excess_ratio = { doc = "share of the window: excess_ns, at most the time of communication on the lowest rank that no computation hides; absent if that is unknown", unit = "ratio", metric = "collective" }
WITH kinds AS (
    SELECT
        group_name, group_ranks, group_description, group_size, name, message_bytes,
        coalesce(group_description, '') AS purpose,
        min(lowest_rank) AS rank,
        max(highest_rank) AS highest_rank,
        max(highest_rank) - min(lowest_rank) AS span,
        count(*) AS call_count,
        median(CAST(transfer_ns AS DOUBLE)) AS median_ns
    FROM comm_matches
    WHERE status = 'matched' AND transfer_ns > 0 AND message_bytes > 0 AND group_size IS NOT NULL
    GROUP BY group_name, group_ranks, group_description, group_size, name, message_bytes
),
peers AS (
    SELECT
        name, message_bytes, group_size, purpose, span,
        count(*) AS group_count,
        median(median_ns) AS median_ns
    FROM kinds
    GROUP BY name, message_bytes, group_size, purpose, span
),
sums AS (
    SELECT
        k.group_name, k.group_ranks, k.group_description, k.group_size, k.purpose, k.span,
        min(k.rank) AS rank,
        max(k.highest_rank) AS highest_rank,
        max(p.group_count) - 1 AS peer_group_count,
        sum(k.call_count) AS call_count,
        sum(k.call_count * k.median_ns) AS transfer_ns,
        sum(k.call_count * p.median_ns) AS peer_transfer_ns
    FROM kinds k
    JOIN peers p ON p.name = k.name AND p.message_bytes = k.message_bytes AND p.group_size = k.group_size
        AND p.purpose = k.purpose AND p.span = k.span
    GROUP BY k.group_name, k.group_ranks, k.group_description, k.group_size, k.purpose, k.span
),
compared AS (
    SELECT
        *,
        CASE WHEN peer_group_count > 0 THEN transfer_ns / nullif(peer_transfer_ns, 0) END AS slowdown,
        greatest(transfer_ns - peer_transfer_ns, 0) AS excess_ns
    FROM sums
)
SELECT
    c.rank,
    concat('process group ', coalesce(CAST(c.group_name AS VARCHAR), CAST(c.group_ranks AS VARCHAR), '')) AS name,
    c.highest_rank, c.group_name, c.group_description, c.group_ranks, c.group_size, c.peer_group_count,
    count_if!(c.slowdown >= 1.5) OVER (PARTITION BY c.group_size, c.purpose, c.span) AS slow_group_count,
    c.call_count,
    CAST(c.transfer_ns AS BIGINT) AS transfer_ns,
    CAST(c.peer_transfer_ns AS BIGINT) AS peer_transfer_ns,
    c.slowdown,
    CAST(c.excess_ns AS BIGINT) AS excess_ns,
    least(c.excess_ns, e.exposed_ns) / nullif(e.window_ns, 0) AS exposed_excess_ratio
FROM compared c
LEFT JOIN comm_exposed e ON e.rank = c.rank
