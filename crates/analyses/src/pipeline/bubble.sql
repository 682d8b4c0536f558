--! question = "How much of each step does a stage of a pipeline not compute, and why?"
--! row = "one complete step on one rank of a pipeline"
--! window = "counted_steps"
--! scope = "run"
--! needs = ["pipeline_microbatches", "pipeline_messages", "pipeline_stages", "device_steps", "device_work"]
--! order = ["rank", "step"]
--! when_empty = "the trace shows no pipeline: no rank that exchanges messages with a single other rank computes microbatches between them"
--! [columns]
--! rank = "rank"
--! pipeline = "number of the pipeline: its lowest rank"
--! stage = "first stage of the rank"
--! step = "step number"
--! step_ns = { doc = "length of the step, with the device work that it launches", unit = "ns", metric = "step" }
--! compute_ns = { doc = "passes of microbatches compute", unit = "ns", metric = "step" }
--! receive_ns = { doc = "no pass computes, and the rank waits for a message from another stage", unit = "ns", metric = "step" }
--! send_ns = { doc = "no pass computes, no message is awaited, and the rank waits until its own is taken", unit = "ns", metric = "step" }
--! idle_ns = { doc = "the rest between its first and its last pass or message: no pass, no message, no other device work", unit = "ns", metric = "step" }
--! other_ns = { doc = "the rest of the step: before the first and after the last pass or message (loading, optimizer), and other device work outside of passes; step_ns is the sum of these five", unit = "ns", metric = "step" }
--! bubble_ns = { doc = "receive_ns, send_ns and idle_ns", unit = "ns", metric = "step" }
--! bubble_ratio = { doc = "bubble_ns over step_ns", unit = "ratio", metric = "step" }
--! warmup_ns = { doc = "part of the bubble before the first backward pass of the rank begins", unit = "ns", metric = "step" }
--! steady_ns = { doc = "part of the bubble from there to the end of its last forward pass", unit = "ns", metric = "step" }
--! drain_ns = { doc = "the rest of the bubble, after the last forward pass; bubble_ns is the sum of these three", unit = "ns", metric = "step" }
--! schedule = "schedule by the order of passes: gpipe (every rank runs all forwards before its first backward), 1f1b (backwards begin before the last forward), interleaved (several stages on each rank), zero bubble (weight passes of their own), overlapped (a forward and a backward in one range), forward only, or one microbatch (gpipe and 1f1b are the same)"
--! rank_count = { doc = "ranks of the pipeline: p", unit = "count" }
--! microbatch_count = { doc = "forward passes of a stage in the step: m", unit = "count" }
--! chunk_count = { doc = "stages on a rank: v", unit = "count" }
--! ideal_ratio = { doc = "bubble of this schedule with equal stages and free messages, over the time of passes and bubble: (p-1)/(vm+p-1), and (p-1)(F+B-W)/(m(F+B+W)+(p-1)(F+B-W)) with weight passes and one stage a rank, 0 with several; absent for overlapped passes", unit = "ratio", metric = "step" }
--! ideal_ns = { doc = "that bubble with the mean computing time of the ranks that were read: compute_ns of the mean rank times (p-1)/(vm)", unit = "ns", metric = "step" }
--! imbalance_ns = { doc = "what unequal stages add: the mean rank's compute_ns less that of this rank, and for each microbatch but one what the slowest rank takes longer than the mean; negative on a rank that computes longer than the mean", unit = "ns", metric = "step" }
--! rest_ns = { doc = "bubble_ns less ideal_ns and imbalance_ns: transfers, late launches, other delays, and warm-up that a previous step hides; may be negative", unit = "ns", metric = "step" }
-- Bubbles of schedules: GPipe (Huang et al. 2019, section 2.3), 1F1B and interleaved 1F1B (Narayanan et al. 2021,
-- "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2), zero bubble (Qi et al.
-- 2023, "Zero Bubble Pipeline Parallelism", table 2: ZB-H1, and ZB-V for several stages a rank). With unequal stages a
-- flow of m microbatches takes the sum over stages and m-1 times the slowest.
WITH members AS (
    SELECT rank, min(pipeline) AS pipeline, min(stage) AS stage, max(chunk_count) AS chunk_count,
        max(rank_count) AS rank_count
    FROM pipeline_stages
    GROUP BY rank
),
passes AS (
    SELECT p.*, p.ts_ns + p.dur_ns AS end_ns
    FROM pipeline_microbatches p
    JOIN members m ON m.rank = p.rank
    WHERE p.ts_ns IS NOT NULL
),
messages AS (
    SELECT g.rank, g.step, g.direction, g.ts_ns, g.ts_ns + g.dur_ns AS end_ns
    FROM pipeline_messages g
    JOIN members m ON m.rank = g.rank
    WHERE g.is_timed
),
stage_steps AS (
    SELECT s.rank, s.step, s.ts_ns, s.end_ns, row_number() OVER (PARTITION BY s.rank ORDER BY s.ts_ns) AS place
    FROM device_steps s
    JOIN (SELECT DISTINCT rank, step FROM passes) p ON p.rank = s.rank AND p.step = s.step
),
extents AS (
    SELECT e.rank, e.step, min(e.ts_ns) AS first_ns, max(e.end_ns) AS last_ns
    FROM (
        SELECT rank, step, ts_ns, end_ns FROM passes
        UNION ALL
        SELECT rank, step, ts_ns, end_ns FROM messages WHERE step IS NOT NULL
    ) e
    GROUP BY e.rank, e.step
),
orders AS (
    SELECT
        rank, step,
        min(CASE WHEN kind <> 'forward' THEN ts_ns END) AS first_backward_ns,
        min(CASE WHEN kind = 'forward' THEN ts_ns END) AS first_forward_ns,
        max(CASE WHEN kind = 'forward' THEN end_ns END) AS last_forward_ns,
        count_if!(kind = 'forward') AS forward_count,
        count_if!(kind = 'backward') AS backward_count,
        count_if!(kind = 'weight') AS weight_count,
        count_if!(kind = 'overlapped') AS overlapped_count,
        sum_if!(dur_ns, kind = 'weight') AS weight_ns
    FROM passes
    GROUP BY rank, step
),
phases AS (
    SELECT
        s.rank, s.step, s.place, s.ts_ns, s.end_ns,
        least(greatest(coalesce(o.first_backward_ns, o.first_forward_ns), s.ts_ns), s.end_ns) AS steady_from_ns,
        least(greatest(coalesce(o.last_forward_ns, s.ts_ns), coalesce(o.first_backward_ns, o.first_forward_ns), s.ts_ns), s.end_ns) AS drain_from_ns
    FROM stage_steps s
    JOIN orders o ON o.rank = s.rank AND o.step = s.step
),
intervals AS (
    SELECT rank, ts_ns, end_ns, 1 AS computes, 0 AS receives, 0 AS sends, 0 AS works, 0 AS in_extent, CAST(0 AS BIGINT) AS step_place, 0 AS phase
    FROM passes
    UNION ALL
    SELECT rank, ts_ns, end_ns, 0, CASE WHEN direction = 'send' THEN 0 ELSE 1 END, CASE WHEN direction = 'recv' THEN 0 ELSE 1 END, 0, 0, 0, 0
    FROM messages
    UNION ALL
    SELECT w.rank, w.ts_ns, w.end_ns, 0, 0, 0, 1, 0, 0, 0
    FROM device_work w
    JOIN members m ON m.rank = w.rank
    WHERE w.name NOT LIKE '%SendRecv%'
    UNION ALL
    SELECT rank, first_ns, last_ns, 0, 0, 0, 0, 1, 0, 0 FROM extents
    UNION ALL
    SELECT rank, ts_ns, steady_from_ns, 0, 0, 0, 0, 0, place, 1 FROM phases
    UNION ALL
    SELECT rank, steady_from_ns, drain_from_ns, 0, 0, 0, 0, 0, place, 2 FROM phases
    UNION ALL
    SELECT rank, drain_from_ns, end_ns, 0, 0, 0, 0, 0, place, 3 FROM phases
),
moments AS (
    overlap_counts!(intervals, (rank), (computes, receives, sends, works, in_extent, step_place, phase))
),
kinds AS (
    SELECT
        rank, step_place, phase, dur_ns,
        CASE
            WHEN computes > 0 THEN 'compute'
            WHEN works > 0 OR in_extent = 0 THEN 'other'
            WHEN receives > 0 THEN 'receive'
            WHEN sends > 0 THEN 'send'
            ELSE 'idle'
        END AS kind
    FROM moments
    WHERE dur_ns > 0 AND step_place > 0
),
sums AS (
    SELECT
        rank, step_place,
        sum(dur_ns) AS step_ns,
        sum_if!(dur_ns, kind = 'compute') AS compute_ns,
        sum_if!(dur_ns, kind = 'receive') AS receive_ns,
        sum_if!(dur_ns, kind = 'send') AS send_ns,
        sum_if!(dur_ns, kind = 'idle') AS idle_ns,
        sum_if!(dur_ns, kind = 'other') AS other_ns,
        sum_if!(dur_ns, kind IN ('receive', 'send', 'idle') AND phase = 1) AS warmup_ns,
        sum_if!(dur_ns, kind IN ('receive', 'send', 'idle') AND phase = 2) AS steady_ns,
        sum_if!(dur_ns, kind IN ('receive', 'send', 'idle') AND phase = 3) AS drain_ns
    FROM kinds
    GROUP BY rank, step_place
),
joined AS (
    SELECT
        m.pipeline, m.stage, m.rank_count, m.chunk_count, s.step, t.*,
        o.forward_count, o.backward_count, o.weight_count, o.overlapped_count, o.weight_ns,
        o.last_forward_ns > o.first_backward_ns AS alternates
    FROM sums t
    JOIN stage_steps s ON s.rank = t.rank AND s.place = t.step_place
    JOIN orders o ON o.rank = s.rank AND o.step = s.step
    JOIN members m ON m.rank = t.rank
),
pipelines AS (
    SELECT
        pipeline, step,
        max(rank_count) AS rank_count,
        max(chunk_count) AS chunk_count,
        CAST(max(forward_count) / max(chunk_count) AS BIGINT) AS microbatch_count,
        sum(compute_ns) / count(*) AS mean_compute_ns,
        max(compute_ns) AS max_compute_ns,
        sum(weight_ns) / count(*) AS mean_weight_ns,
        CASE
            WHEN max(overlapped_count) > 0 THEN 'overlapped'
            WHEN max(weight_count) > 0 THEN 'zero bubble'
            WHEN max(backward_count) = 0 THEN 'forward only'
            WHEN max(chunk_count) > 1 THEN 'interleaved'
            WHEN max(forward_count) <= 1 THEN 'one microbatch'
            WHEN bool_or(alternates) THEN '1f1b'
            ELSE 'gpipe'
        END AS schedule
    FROM joined
    GROUP BY pipeline, step
),
-- The bubble of the schedule with the mean computing time.
ideals AS (
    SELECT
        *,
        CASE
            WHEN schedule = 'overlapped' OR microbatch_count = 0 THEN NULL
            WHEN schedule = 'zero bubble' AND chunk_count > 1 THEN 0
            WHEN schedule = 'zero bubble' THEN (rank_count - 1) * greatest(mean_compute_ns - 2 * mean_weight_ns, 0) / microbatch_count
            ELSE (rank_count - 1) * mean_compute_ns / (chunk_count * microbatch_count)
        END AS ideal_ns
    FROM pipelines
),
parts AS (
    SELECT
        j.rank, j.pipeline, j.stage, j.step, j.step_ns, j.compute_ns, j.receive_ns, j.send_ns, j.idle_ns, j.other_ns,
        j.warmup_ns, j.steady_ns, j.drain_ns,
        i.schedule, i.rank_count, i.microbatch_count, i.chunk_count, i.mean_compute_ns, i.ideal_ns,
        j.receive_ns + j.send_ns + j.idle_ns AS bubble_ns,
        i.mean_compute_ns - j.compute_ns
            + (i.max_compute_ns - i.mean_compute_ns) * (i.chunk_count * i.microbatch_count - 1) / nullif(i.chunk_count * i.microbatch_count, 0)
            AS imbalance_ns
    FROM joined j
    JOIN ideals i ON i.pipeline = j.pipeline AND i.step = j.step
)
SELECT
    rank, pipeline, stage, step, step_ns, compute_ns, receive_ns, send_ns, idle_ns, other_ns, bubble_ns,
    ratio!(bubble_ns, step_ns) AS bubble_ratio,
    warmup_ns, steady_ns, drain_ns,
    schedule, rank_count, microbatch_count, chunk_count,
    ratio!(ideal_ns, mean_compute_ns + ideal_ns) AS ideal_ratio,
    ideal_ns, imbalance_ns,
    bubble_ns - ideal_ns - imbalance_ns AS rest_ns
FROM parts
