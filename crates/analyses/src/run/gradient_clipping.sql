--! question = "How much time does gradient clipping take?"
--! row = "one rank: gradient clipping with clip_grad_norm_"
--! window = "counted_steps"
--! needs = ["ranks", "cpu_ops", "python_frames", "step_extents"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_stacks = "Python frames were recorded (with_stack=True)"
--! steps_ns = { doc = "time of complete steps, with the device work that they launched; of the recording where there are none", unit = "ns", metric = "rank" }
--! clip_count = { doc = "calls of clip_grad_norm_; absent without stacks", unit = "count", metric = "rank" }
--! clip_ns = { doc = "their time on the host; absent without stacks", unit = "ns", metric = "rank" }
--! clip_ratio = { doc = "share of steps_ns; absent without stacks", unit = "ratio", metric = "rank" }
WITH calls AS (
    SELECT f.rank, count(*) AS clip_count, sum(f.dur_ns) AS clip_ns
    FROM python_frames f
    JOIN step_extents e ON e.rank = f.rank
    WHERE f.name LIKE '%clip\_grad.py%: clip\_grad\_norm\_' AND f.ts_ns >= e.start_ns AND f.ts_ns < e.end_ns
    GROUP BY f.rank
),
ranks_with_operators AS (
    SELECT DISTINCT rank FROM cpu_ops
),
ranks_with_stacks AS (
    SELECT DISTINCT rank FROM python_frames
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    t.rank IS NOT NULL AS has_stacks,
    e.steps_ns,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(c.clip_count, 0) END AS clip_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(c.clip_ns, 0) END AS clip_ns,
    CASE WHEN t.rank IS NOT NULL THEN ratio!(coalesce(c.clip_ns, 0), e.steps_ns) END AS clip_ratio
FROM ranks r
LEFT JOIN step_extents e ON e.rank = r.rank
LEFT JOIN calls c ON c.rank = r.rank
LEFT JOIN ranks_with_operators h ON h.rank = r.rank
LEFT JOIN ranks_with_stacks t ON t.rank = r.rank
WHERE r.vendor IS NOT NULL
