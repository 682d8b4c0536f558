--! question = "How much time would torch.compile save between and within kernels?"
--! row = "one device of one rank: the idle and kernel time that compiling the model would reduce"
--! window = "counted_steps"
--! needs = ["gpu_idle_causes", "idle_gap_causes", "kernel_families", "run_warmup", "serving_marks", "cpu_ops"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last, see device_windows", unit = "ns", metric = "device" }
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! kernel_count = { doc = "kernels in complete steps", unit = "count", metric = "device" }
--! host_ratio = { doc = "share of the window in which the device is idle because the next launch had not returned, or never came, see gpu_idle_causes; without operators that compute on the CPU and stretches of Python of 1 ms or more, which are not between the operators of a model", unit = "ratio", metric = "device" }
--! chain_ratio = { doc = "share of the window in element-wise and reducing kernels directly after another one, see kernel_families", unit = "ratio", metric = "device" }
--! eager_ratio = { doc = "both together", unit = "ratio", metric = "device" }
--! larger_ratio = { doc = "the larger of both", unit = "ratio", metric = "device" }
--! compiled_count = { doc = "signs of compiling: kernels of Triton, regions of torch.compile, launches of captured graphs", unit = "count", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
--! stream_capture_ratio = { doc = "share of the window in which the device is idle while a graph is captured, see gpu_idle_causes", unit = "ratio", metric = "device" }
--! decode_count = { doc = "steps of generation that an inference server marks, see serving_marks", unit = "count", metric = "device" }
WITH decodes AS (
    SELECT rank, count(*) AS decode_count
    FROM serving_marks
    WHERE decode_request_count > 0
    GROUP BY rank
),
ranks_with_host AS (
    SELECT DISTINCT rank FROM cpu_ops
),
-- The preparation of inputs, logging, garbage collection: no compiler of models makes them faster.
other_python AS (
    SELECT rank, device, sum(dur_ns) AS dur_ns
    FROM idle_gap_causes
    WHERE cause = 'python' AND dur_ns >= 1000000
    GROUP BY rank, device
),
host AS (
    SELECT
        g.rank, g.device, g.window_ns, g.stream_capture_ratio,
        greatest(g.host_ratio - g.cpu_compute_ratio - coalesce(ratio!(p.dur_ns, g.window_ns), 0), 0) AS host_ratio
    FROM gpu_idle_causes g
    LEFT JOIN other_python p ON p.rank = g.rank AND p.device = g.device
)
SELECT
    g.rank, g.device, g.window_ns,
    h.rank IS NOT NULL AS has_host,
    coalesce(f.kernel_count, 0) AS kernel_count,
    g.host_ratio,
    coalesce(f.chain_window_ratio, 0) AS chain_ratio,
    g.host_ratio + coalesce(f.chain_window_ratio, 0) AS eager_ratio,
    greatest(g.host_ratio, coalesce(f.chain_window_ratio, 0)) AS larger_ratio,
    coalesce(f.compiled_count, 0) + w.region_count + w.graph_launch_count AS compiled_count,
    w.graph_launch_count,
    g.stream_capture_ratio,
    coalesce(d.decode_count, 0) AS decode_count
FROM host g
JOIN run_warmup w ON w.rank = g.rank
LEFT JOIN kernel_families f ON f.rank = g.rank AND f.device = g.device
LEFT JOIN decodes d ON d.rank = g.rank
LEFT JOIN ranks_with_host h ON h.rank = g.rank
