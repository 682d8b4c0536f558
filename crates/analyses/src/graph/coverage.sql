--! question = "How much device time do graph replays take, and how much of it has no operator?"
--! row = "one rank"
--! window = "recording"
--! needs = ["ranks", "gpu_time_coverage", "graph_matches"]
--! order = ["rank"]
--! when_empty = "the trace holds no rank"
--! [columns]
--! rank = "rank"
--! graph_launch_count = { doc = "graph launches whose kernels are recorded", unit = "count", metric = "rank" }
--! unmatched_launch_count = { doc = "of these, launches without a capture that fits", unit = "count", metric = "rank" }
--! device_ns = { doc = "time of all kernels, copies and fills, overlap not merged", unit = "ns", metric = "rank" }
--! replay_ratio = { doc = "share of device_ns that graphs replay", unit = "ratio", metric = "rank" }
--! unmatched_replay_ratio = { doc = "share of device_ns that graphs replay and that has no node of a capture, so neither operator nor shapes", unit = "ratio", metric = "rank" }
WITH matches AS (
    SELECT rank, count(*) AS launches, count_if!(capture IS NULL) AS unmatched FROM graph_matches GROUP BY rank
),
coverage AS (
    SELECT rank, sum(sum_ns) AS device_ns, sum(replay_ns) AS replay_ns, sum(replay_node_ns) AS replay_node_ns
    FROM gpu_time_coverage
    GROUP BY rank
)
SELECT
    r.rank,
    coalesce(m.launches, 0) AS graph_launch_count,
    coalesce(m.unmatched, 0) AS unmatched_launch_count,
    coalesce(c.device_ns, 0) AS device_ns,
    ratio!(c.replay_ns, c.device_ns) AS replay_ratio,
    ratio!(c.replay_ns - c.replay_node_ns, c.device_ns) AS unmatched_replay_ratio
FROM ranks r
LEFT JOIN matches m ON m.rank = r.rank
LEFT JOIN coverage c ON c.rank = r.rank
