--! question = "How much device time do graph replays take, and how much of it has no operator?"
--! row = "one rank"
--! window = "recording"
--! needs = ["ranks", "gpu_time_coverage", "gpu_modules", "graph_matches", "traced_replays"]
--! order = ["rank"]
--! when_empty = "the trace holds no rank"
--! [columns]
--! rank = "rank"
--! graph_launch_count = { doc = "graph launches whose kernels are recorded", unit = "count", metric = "rank" }
--! unmatched_launch_count = { doc = "of these, launches without a capture that fits", unit = "count", metric = "rank" }
--! device_ns = { doc = "time of all kernels, copies and fills, overlap not merged", unit = "ns", metric = "rank" }
--! replay_ratio = { doc = "share of device_ns that graphs replay", unit = "ratio", metric = "rank" }
--! marked_replay_ratio = { doc = "share of device_ns that graphs replay and whose module the program marked", unit = "ratio", metric = "rank" }
--! module = "marked module that takes the most time in replays"
--! module_replay_ratio = { doc = "share of device_ns that this module takes in replays", unit = "ratio", metric = "rank" }
--! unmatched_replay_ratio = { doc = "share of device_ns that graphs replay and that has no node of a capture, so neither operator nor shapes", unit = "ratio", metric = "rank" }
--! traced_replay_count = { doc = "replays, by device, in which the profiler adds a gap after each node, see traced_replays", unit = "count", metric = "rank" }
--! traced_gap_count = { doc = "gaps that the profiler adds in these replays", unit = "count", metric = "rank" }
--! traced_gap_ns = { doc = "total length of these gaps", unit = "ns", metric = "rank" }
--! traced_gap_ratio = { doc = "traced_gap_ns over the time of these replays; 0 without any", unit = "ratio", metric = "rank" }
--! median_gap_ns = { doc = "mean over these replays of the median length of their gaps; absent without any", unit = "ns", metric = "rank" }
WITH matches AS (
    SELECT rank, count(*) AS launches, count_if!(capture IS NULL) AS unmatched FROM graph_matches GROUP BY rank
),
coverage AS (
    SELECT rank, sum(sum_ns) AS device_ns, sum(replay_ns) AS replay_ns, sum(replay_node_ns) AS replay_node_ns
    FROM gpu_time_coverage
    GROUP BY rank
),
-- A module from a Python stack is around the launch of the whole graph, so it does not describe a node.
modules AS (
    SELECT rank, module, sum(replay_ns) AS replay_ns
    FROM gpu_modules
    WHERE replay_ns > 0 AND module NOT LIKE 'nn.Module: %'
    GROUP BY rank, module
),
marked AS (
    SELECT
        rank, sum(replay_ns) AS replay_ns, max(replay_ns) AS module_ns,
        first_value(module ORDER BY replay_ns DESC, module) AS module
    FROM modules
    GROUP BY rank
),
traced AS (
    SELECT
        rank, count(*) AS replay_count, sum(dur_ns) AS dur_ns, sum(gap_count) AS gap_count, sum(gap_ns) AS gap_ns,
        CAST(avg(median_gap_ns) AS BIGINT) AS median_gap_ns
    FROM traced_replays
    GROUP BY rank
)
SELECT
    r.rank,
    coalesce(m.launches, 0) AS graph_launch_count,
    coalesce(m.unmatched, 0) AS unmatched_launch_count,
    coalesce(c.device_ns, 0) AS device_ns,
    ratio!(c.replay_ns, c.device_ns) AS replay_ratio,
    ratio!(k.replay_ns, c.device_ns) AS marked_replay_ratio,
    k.module,
    ratio!(k.module_ns, c.device_ns) AS module_replay_ratio,
    ratio!(c.replay_ns - c.replay_node_ns, c.device_ns) AS unmatched_replay_ratio,
    coalesce(t.replay_count, 0) AS traced_replay_count,
    coalesce(t.gap_count, 0) AS traced_gap_count,
    coalesce(t.gap_ns, 0) AS traced_gap_ns,
    coalesce(ratio!(t.gap_ns, t.dur_ns), 0) AS traced_gap_ratio,
    t.median_gap_ns
FROM ranks r
LEFT JOIN matches m ON m.rank = r.rank
LEFT JOIN coverage c ON c.rank = r.rank
LEFT JOIN marked k ON k.rank = r.rank
LEFT JOIN traced t ON t.rank = r.rank
