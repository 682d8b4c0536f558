--! row = "one rank: habits of the program that cost time without computing anything"
--! needs = ["ranks", "cpu_ops", "annotations", "python_frames", "device_steps", "device_gaps", "device_windows", "kernels"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_stacks = "Python frames were recorded (with_stack=True)"
--! steps_ns = { doc = "time of complete steps on the host; of the recording where there are none", unit = "ns", metric = "rank" }
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! ungraded_count = { doc = "complete steps, or the recording, in which operators recorded a graph for autograd (10 or more sequence numbers) and nothing went backward", unit = "count", metric = "rank" }
--! ungraded_ratio = { doc = "share of the time of complete steps", unit = "ratio", metric = "rank" }
--! print_count = { doc = "calls of print; absent without stacks", unit = "count", metric = "rank" }
--! print_ns = { doc = "their time; absent without stacks", unit = "ns", metric = "rank" }
--! print_ratio = { doc = "share of steps_ns; absent without stacks", unit = "ratio", metric = "rank" }
--! debug_count = { doc = "functions of autograd's engine that search gradients for NaN and read the answer (anomaly mode)", unit = "count", metric = "rank" }
--! debug_ns = { doc = "kernels that these searches launch, and idle from where the device drained under their reads to its next start", unit = "ns", metric = "rank" }
--! debug_ratio = { doc = "over the analysed window of the device; without a device 0", unit = "ratio", metric = "rank" }
--! clip_count = { doc = "calls of clip_grad_norm_; absent without stacks", unit = "count", metric = "rank" }
--! clip_ns = { doc = "their time on the host; absent without stacks", unit = "ns", metric = "rank" }
--! clip_ratio = { doc = "share of steps_ns; absent without stacks", unit = "ratio", metric = "rank" }
--! restart_count = { doc = "iterators of a DataLoader made, after the first step; absent without stacks", unit = "count", metric = "rank" }
--! restart_ns = { doc = "their time; absent without stacks", unit = "ns", metric = "rank" }
--! restart_ratio = { doc = "share of steps_ns; absent without stacks", unit = "ratio", metric = "rank" }
--! unused_count = { doc = "searches of DistributedDataParallel for parameters without a gradient (find_unused_parameters=True)", unit = "count", metric = "rank" }
--! unused_ns = { doc = "their time", unit = "ns", metric = "rank" }
--! unused_ratio = { doc = "share of steps_ns", unit = "ratio", metric = "rank" }
--! scaler_count = { doc = "checks of a gradient scaler for infinities", unit = "count", metric = "rank" }
--! scaler_bubble_ns = { doc = "idle from where the device drained under the read of such a check to its next start", unit = "ns", metric = "rank" }
--! scaler_bubble_ratio = { doc = "over the analysed window of the device; absent without a device", unit = "ratio", metric = "rank" }
WITH windows AS (
    SELECT
        rank, min(host_ts_ns) AS start_ns, max(host_end_ns) AS end_ns, sum(host_end_ns - host_ts_ns) AS steps_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        min(host_end_ns) AS first_end_ns
    FROM device_steps
    GROUP BY rank
),
names AS (
    SELECT
        rank, name,
        plain LIKE 'autograd::engine%' OR plain LIKE '%Backward' OR plain LIKE '%Backward_' OR plain LIKE 'torch::autograd::%' AS is_backward
    FROM (SELECT rank, name, CAST(name AS VARCHAR) AS plain FROM (SELECT DISTINCT rank, name FROM cpu_ops))
),
graphs AS (
    SELECT
        o.rank,
        CASE WHEN w.step_count = 0 THEN 0 ELSE o.step END AS step,
        count(DISTINCT o.sequence) AS recorded_count,
        count_if!(n.is_backward) AS backward_count
    FROM cpu_ops o
    JOIN names n ON n.rank = o.rank AND n.name = o.name
    JOIN windows w ON w.rank = o.rank
    GROUP BY o.rank, CASE WHEN w.step_count = 0 THEN 0 ELSE o.step END
),
ungraded AS (
    SELECT g.rank, count(*) AS ungraded_count, sum(s.host_end_ns - s.host_ts_ns) AS ungraded_ns
    FROM graphs g
    JOIN device_steps s ON s.rank = g.rank AND (s.step = g.step OR s.source = 'trace')
    WHERE g.recorded_count >= 10 AND g.backward_count = 0
    GROUP BY g.rank
),
frame_kinds AS (
    SELECT
        rank, name,
        CASE
            WHEN plain = '<built-in function print>' THEN 'print'
            WHEN plain LIKE '%clip\_grad.py%: clip\_grad\_norm\_' THEN 'clip'
            WHEN plain LIKE 'torch/utils/data/dataloader.py(%: \_get\_iterator' THEN 'restart'
        END AS kind
    FROM (SELECT rank, name, CAST(name AS VARCHAR) AS plain FROM (SELECT DISTINCT rank, name FROM python_frames))
),
frames AS (
    SELECT
        f.rank,
        count_if!(k.kind = 'print') AS print_count,
        sum_if!(f.dur_ns, k.kind = 'print') AS print_ns,
        count_if!(k.kind = 'clip') AS clip_count,
        sum_if!(f.dur_ns, k.kind = 'clip') AS clip_ns,
        count_if!(k.kind = 'restart' AND f.ts_ns >= w.first_end_ns) AS restart_count,
        sum_if!(f.dur_ns, k.kind = 'restart' AND f.ts_ns >= w.first_end_ns) AS restart_ns
    FROM python_frames f
    JOIN frame_kinds k ON k.rank = f.rank AND k.name = f.name
    JOIN windows w ON w.rank = f.rank
    WHERE k.kind IS NOT NULL AND f.ts_ns >= w.start_ns AND f.ts_ns < w.end_ns
    GROUP BY f.rank
),
searches AS (
    SELECT s.rank, count(*) AS unused_count, sum(s.dur_ns) AS unused_ns
    FROM (
        SELECT rank, name, ts_ns, dur_ns FROM cpu_ops
        UNION ALL
        SELECT rank, name, ts_ns, dur_ns FROM annotations WHERE NOT on_device
    ) s
    JOIN windows w ON w.rank = s.rank
    WHERE s.name LIKE '%reducer::search\_unused\_parameters%' AND s.ts_ns >= w.start_ns AND s.ts_ns < w.end_ns
    GROUP BY s.rank
),
-- A hook of the program may ask for NaN in the same place, but does not read the answer.
engine_calls AS (
    SELECT o.rank, o.thread, o.parent, min(o.ts_ns) AS start_ns, max(o.ts_ns + o.dur_ns) AS end_ns
    FROM cpu_ops o
    JOIN windows w ON w.rank = o.rank
    WHERE o.name IN ('aten::isnan', 'aten::_is_any_true', 'aten::any', 'aten::item', 'aten::is_nonzero')
        AND o.parent IS NOT NULL AND o.ts_ns >= w.start_ns AND o.ts_ns < w.end_ns
    GROUP BY o.rank, o.thread, o.parent
    HAVING bool_or(o.name = 'aten::isnan') AND bool_or(o.name IN ('aten::item', 'aten::is_nonzero'))
),
searching AS (
    SELECT c.rank, c.thread, c.start_ns, c.end_ns
    FROM engine_calls c
    JOIN cpu_ops p ON p.rank = c.rank AND p.event_id = c.parent
    WHERE p.name LIKE 'autograd::engine::evaluate\_function%'
),
searching_ranks AS (
    SELECT rank, count(*) AS debug_count FROM searching GROUP BY rank
),
search_points AS (
    SELECT rank, thread, start_ns AS ts_ns, 0 AS turn, 1 AS delta, 0 AS lost_ns FROM searching
    UNION ALL
    SELECT rank, thread, end_ns, 2, -1, 0 FROM searching
    UNION ALL
    SELECT k.rank, k.launch_thread, k.launch_ts_ns, 1, 0, k.dur_ns
    FROM kernels k
    JOIN searching_ranks s ON s.rank = k.rank
    WHERE k.launch_ts_ns IS NOT NULL
),
search_open AS (
    SELECT
        rank, lost_ns,
        running_sum!(delta, PARTITION BY rank, thread ORDER BY ts_ns, turn) AS searching
    FROM search_points
),
search_kernels AS (
    SELECT rank, sum_if!(lost_ns, searching > 0) AS kernel_ns FROM search_open GROUP BY rank
),
checks AS (
    SELECT
        rank, thread, name, ts_ns, ts_ns + dur_ns AS end_ns,
        lag(name) OVER (PARTITION BY rank, thread ORDER BY ts_ns) AS before_name
    FROM cpu_ops
    WHERE name IN ('aten::_amp_foreach_non_finite_check_and_unscale_', 'aten::item')
),
reads AS (
    SELECT rank, ts_ns, end_ns FROM checks WHERE name = 'aten::item' AND before_name = 'aten::_amp_foreach_non_finite_check_and_unscale_'
),
asked AS (
    SELECT rank, ts_ns, end_ns, 1 AS scaler, 0 AS search FROM reads
    UNION ALL
    SELECT rank, start_ns, end_ns, 0, 1 FROM searching
),
points AS (
    SELECT rank, ts_ns, 0 AS turn, scaler, search, 0 AS sync_ns FROM asked
    UNION ALL
    SELECT rank, end_ns, 2, -scaler, -search, 0 FROM asked
    UNION ALL
    SELECT rank, ts_ns, 1, 0, 0, sync_ns FROM device_gaps WHERE sync_ns > 0
),
open AS (
    SELECT rank, sync_ns, sum(scaler) OVER w AS scalers, sum(search) OVER w AS searches
    FROM points
    WINDOW w AS running!(PARTITION BY rank ORDER BY ts_ns, turn)
),
bubbles AS (
    SELECT
        rank,
        sum_if!(sync_ns, scalers > 0) AS scaler_bubble_ns,
        sum_if!(sync_ns, searches > 0) AS search_bubble_ns
    FROM open
    GROUP BY rank
),
nan_searches AS (
    SELECT s.rank, s.debug_count, coalesce(k.kernel_ns, 0) + coalesce(b.search_bubble_ns, 0) AS debug_ns
    FROM searching_ranks s
    LEFT JOIN search_kernels k ON k.rank = s.rank
    LEFT JOIN bubbles b ON b.rank = s.rank
),
scalers AS (
    SELECT rank, count(*) AS scaler_count FROM checks WHERE name <> 'aten::item' GROUP BY rank
),
devices_of AS (
    SELECT rank, max(window_ns) AS window_ns FROM device_windows GROUP BY rank
),
hosts AS (
    SELECT DISTINCT rank FROM cpu_ops
),
stacked AS (
    SELECT DISTINCT rank FROM python_frames
)
SELECT
    r.rank,
    h.rank IS NOT NULL AS has_host,
    t.rank IS NOT NULL AS has_stacks,
    w.steps_ns,
    coalesce(w.step_count, 0) AS step_count,
    coalesce(u.ungraded_count, 0) AS ungraded_count,
    ratio!(coalesce(u.ungraded_ns, 0), w.steps_ns) AS ungraded_ratio,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.print_count, 0) END AS print_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.print_ns, 0) END AS print_ns,
    CASE WHEN t.rank IS NOT NULL THEN ratio!(coalesce(f.print_ns, 0), w.steps_ns) END AS print_ratio,
    coalesce(n.debug_count, 0) AS debug_count,
    coalesce(n.debug_ns, 0) AS debug_ns,
    coalesce(ratio!(n.debug_ns, d.window_ns), 0) AS debug_ratio,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.clip_count, 0) END AS clip_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.clip_ns, 0) END AS clip_ns,
    CASE WHEN t.rank IS NOT NULL THEN ratio!(coalesce(f.clip_ns, 0), w.steps_ns) END AS clip_ratio,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.restart_count, 0) END AS restart_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(f.restart_ns, 0) END AS restart_ns,
    CASE WHEN t.rank IS NOT NULL THEN ratio!(coalesce(f.restart_ns, 0), w.steps_ns) END AS restart_ratio,
    coalesce(s.unused_count, 0) AS unused_count,
    coalesce(s.unused_ns, 0) AS unused_ns,
    ratio!(coalesce(s.unused_ns, 0), w.steps_ns) AS unused_ratio,
    coalesce(c.scaler_count, 0) AS scaler_count,
    coalesce(b.scaler_bubble_ns, 0) AS scaler_bubble_ns,
    CASE WHEN d.rank IS NOT NULL THEN ratio!(coalesce(b.scaler_bubble_ns, 0), d.window_ns) END AS scaler_bubble_ratio
FROM ranks r
LEFT JOIN windows w ON w.rank = r.rank
LEFT JOIN ungraded u ON u.rank = r.rank
LEFT JOIN frames f ON f.rank = r.rank
LEFT JOIN searches s ON s.rank = r.rank
LEFT JOIN nan_searches n ON n.rank = r.rank
LEFT JOIN scalers c ON c.rank = r.rank
LEFT JOIN bubbles b ON b.rank = r.rank
LEFT JOIN devices_of d ON d.rank = r.rank
LEFT JOIN hosts h ON h.rank = r.rank
LEFT JOIN stacked t ON t.rank = r.rank
WHERE r.vendor IS NOT NULL
