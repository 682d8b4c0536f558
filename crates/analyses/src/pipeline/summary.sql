--! question = "How large is the bubble of a pipeline, and what of it is the schedule, unequal stages, the rest?"
--! row = "one rank: the mean step of its pipeline"
--! window = "counted_steps"
--! scope = "run"
--! needs = ["pipeline_bubble", "pipeline_messages", "pipeline_stages", "pipeline_microbatches", "ranks", "active_ranks"]
--! order = ["rank"]
--! when_empty = "the run has no rank"
--! [columns]
--! rank = "rank"
--! has_timeline = "the rank has operators or kernels, which would show what the view is about"
--! has_messages = "the rank exchanges messages with a single other rank in its steps"
--! is_pipeline = "it computes microbatches between them, as one stage or several of a pipeline; what follows is absent otherwise, and the ratios 0 without messages"
--! pipeline = "number of the pipeline: its lowest rank"
--! stage = "first stage of the rank"
--! stage_from = "evidence for the number of the stage, see pipeline_stages"
--! named_by = "evidence for the passes, see pipeline_microbatches"
--! schedule = "schedule, see pipeline_bubble; mixed if steps differ"
--! rank_count = { doc = "ranks of the pipeline: p", unit = "count", metric = "rank" }
--! read_count = { doc = "of these, ranks that were read", unit = "count", metric = "rank" }
--! microbatch_count = { doc = "microbatches of a step: m", unit = "count", metric = "rank" }
--! chunk_count = { doc = "stages on a rank: v", unit = "count", metric = "rank" }
--! step_count = { doc = "steps", unit = "count", metric = "rank" }
--! step_ns = { doc = "mean step of the pipeline's ranks", unit = "ns", metric = "rank" }
--! compute_ns = { doc = "time of this rank's passes in its mean step", unit = "ns", metric = "rank" }
--! mean_compute_ns = { doc = "the same, mean of the pipeline's ranks", unit = "ns", metric = "rank" }
--! own_bubble_ratio = { doc = "bubble of this rank over its steps", unit = "ratio", metric = "rank" }
--! bubble_ratio = { doc = "bubble over steps, of all ranks of the pipeline: the sum of the three parts that follow", unit = "ratio", metric = "rank" }
--! schedule_ratio = { doc = "part that the schedule has with equal stages and free messages (pipeline_bubble.ideal_ns)", unit = "ratio", metric = "rank" }
--! imbalance_ratio = { doc = "part that unequal stages add: what the slowest rank computes longer than the mean, for each microbatch but one", unit = "ratio", metric = "rank" }
--! rest_ratio = { doc = "the rest: transfers, late launches, delays; negative where the bubble is smaller than these predict", unit = "ratio", metric = "rank" }
--! is_slowest = "this rank computes longest"
--! slow_factor = { doc = "compute_ns over that of the mean rank", unit = "number", metric = "rank" }
--! receive_ratio = { doc = "part of the steps in which the pipeline's ranks compute nothing and wait for a message", unit = "ratio", metric = "rank" }
--! send_ratio = { doc = "likewise, wait until a message of theirs is taken", unit = "ratio", metric = "rank" }
--! idle_ratio = { doc = "likewise, neither: late launches", unit = "ratio", metric = "rank" }
--! pass_slowdown = { doc = "time of the passes of all ranks in the mean step over that in the step where it is least", unit = "number", metric = "rank" }
--! ideal_ratio = { doc = "bubble of the schedule over the time of passes and bubble, see pipeline_bubble", unit = "ratio", metric = "rank" }
--! doubled_ratio = { doc = "the same with twice as many microbatches: (p-1)/(2vm+p-1); absent with weight passes", unit = "ratio", metric = "rank" }
--! interleaved_ratio = { doc = "the same with one stage more on each rank: (p-1)/((v+1)m+p-1); absent with weight passes", unit = "ratio", metric = "rank" }
WITH users AS (
    SELECT DISTINCT rank FROM pipeline_messages WHERE step IS NOT NULL
),
by_rank AS (
    SELECT
        rank, min(pipeline) AS pipeline, min(stage) AS stage, count(*) AS step_count,
        CASE WHEN min(schedule) = max(schedule) THEN min(schedule) ELSE 'mixed' END AS schedule,
        max(rank_count) AS rank_count, max(microbatch_count) AS microbatch_count, max(chunk_count) AS chunk_count,
        sum(step_ns) / count(*) AS step_ns,
        sum(compute_ns) / count(*) AS compute_ns,
        sum(bubble_ns) / count(*) AS bubble_ns,
        sum(receive_ns) / count(*) AS receive_ns,
        sum(send_ns) / count(*) AS send_ns,
        sum(idle_ns) / count(*) AS idle_ns,
        CASE WHEN count(ideal_ns) = count(*) THEN sum(ideal_ns) / count(*) END AS ideal_ns,
        avg(ideal_ratio) AS ideal_ratio
    FROM pipeline_bubble
    GROUP BY rank
),
by_pipeline AS (
    SELECT
        pipeline, count(*) AS read_count,
        sum(step_ns) / count(*) AS step_ns,
        sum(compute_ns) / count(*) AS mean_compute_ns,
        max(compute_ns) AS max_compute_ns,
        sum(bubble_ns) / count(*) AS bubble_ns,
        sum(receive_ns) / count(*) AS receive_ns,
        sum(send_ns) / count(*) AS send_ns,
        sum(idle_ns) / count(*) AS idle_ns,
        sum(ideal_ns) / count(*) AS ideal_ns
    FROM by_rank
    GROUP BY pipeline
),
slowdowns AS (
    SELECT pipeline, avg(compute_ns) / nullif(min(compute_ns), 0) AS pass_slowdown
    FROM (SELECT pipeline, step, CAST(sum(compute_ns) AS DOUBLE) AS compute_ns FROM pipeline_bubble GROUP BY pipeline, step)
    GROUP BY pipeline
),
sources AS (
    SELECT rank, min(stage_from) AS stage_from FROM pipeline_stages GROUP BY rank
),
names AS (
    SELECT rank, min(named_by) AS named_by FROM pipeline_microbatches GROUP BY rank
),
parts AS (
    SELECT
        b.rank, b.pipeline, b.stage, b.step_count, b.schedule, b.rank_count, b.microbatch_count, b.chunk_count, b.step_ns, b.compute_ns,
        b.bubble_ns, b.ideal_ratio, d.pass_slowdown,
        ratio!(t.receive_ns, t.step_ns) AS receive_ratio, ratio!(t.send_ns, t.step_ns) AS send_ratio,
        ratio!(t.idle_ns, t.step_ns) AS idle_ratio,
        t.read_count, t.step_ns AS mean_step_ns, t.mean_compute_ns, t.bubble_ns AS mean_bubble_ns, t.ideal_ns AS mean_ideal_ns,
        (t.max_compute_ns - t.mean_compute_ns) * (b.chunk_count * b.microbatch_count - 1) / nullif(b.chunk_count * b.microbatch_count, 0) AS imbalance_ns,
        b.compute_ns = t.max_compute_ns AS is_slowest
    FROM by_rank b
    JOIN by_pipeline t ON t.pipeline = b.pipeline
    JOIN slowdowns d ON d.pipeline = b.pipeline
)
SELECT
    r.rank,
    t.rank IS NOT NULL AS has_timeline,
    u.rank IS NOT NULL AS has_messages,
    p.rank IS NOT NULL AS is_pipeline,
    p.pipeline, p.stage, s.stage_from, n.named_by, p.schedule, p.rank_count, p.read_count, p.microbatch_count, p.chunk_count,
    p.step_count, p.mean_step_ns AS step_ns, p.compute_ns, p.mean_compute_ns,
    CASE WHEN u.rank IS NULL THEN 0.0 ELSE ratio!(p.bubble_ns, p.step_ns) END AS own_bubble_ratio,
    CASE WHEN u.rank IS NULL THEN 0.0 ELSE ratio!(p.mean_bubble_ns, p.mean_step_ns) END AS bubble_ratio,
    CASE WHEN u.rank IS NULL THEN 0.0 ELSE ratio!(p.mean_ideal_ns, p.mean_step_ns) END AS schedule_ratio,
    CASE WHEN u.rank IS NULL THEN 0.0 ELSE ratio!(p.imbalance_ns, p.mean_step_ns) END AS imbalance_ratio,
    CASE WHEN u.rank IS NULL THEN 0.0 ELSE ratio!(p.mean_bubble_ns - p.mean_ideal_ns - p.imbalance_ns, p.mean_step_ns) END AS rest_ratio,
    coalesce(p.is_slowest, false) AS is_slowest,
    ratio!(p.compute_ns, p.mean_compute_ns) AS slow_factor,
    p.receive_ratio, p.send_ratio, p.idle_ratio, p.pass_slowdown,
    p.ideal_ratio,
    CASE WHEN p.schedule NOT IN ('zero bubble', 'overlapped') THEN ratio!(p.rank_count - 1, 2 * p.chunk_count * p.microbatch_count + p.rank_count - 1) END AS doubled_ratio,
    CASE WHEN p.schedule NOT IN ('zero bubble', 'overlapped') THEN ratio!(p.rank_count - 1, (p.chunk_count + 1) * p.microbatch_count + p.rank_count - 1) END AS interleaved_ratio
FROM ranks r
LEFT JOIN active_ranks t ON t.rank = r.rank
LEFT JOIN users u ON u.rank = r.rank
LEFT JOIN parts p ON p.rank = r.rank
LEFT JOIN sources s ON s.rank = r.rank
LEFT JOIN names n ON n.rank = r.rank
