--! question = "Which synchronizations (item(), copies, synchronize calls) leave the GPU idle?"
--! row = "one device of one rank: idle time caused by waits for the device, by kind of wait"
--! window = "counted_steps"
--! needs = ["idle_gap_causes", "idle_waits", "device_windows", "host_waits", "memcpys", "device_work", "gpu_idle_causes"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "the analyzed window", unit = "ns", metric = "device" }
--! idle_ratio = { doc = "idle share of the window", unit = "ratio", metric = "device" }
--! step_count = { doc = "complete steps in the window; 0 where the whole recording stands for one", unit = "count", metric = "device" }
--! read_count = { doc = "gaps begun by reading a value or a size back: aten::item, nonzero, tolist and the like", unit = "count", metric = "device" }
--! reads_per_step = { doc = "these, for each step; over the whole recording where there are none", unit = "number", metric = "device" }
--! read_ns = { doc = "idle time of these", unit = "ns", metric = "device" }
--! read_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! read_op_name = "the operator with most of it"
--! read_source = "line of the program with most of it"
--! copy_count = { doc = "gaps begun by a copy that blocks its caller, outside such reads", unit = "count", metric = "device" }
--! copy_ns = { doc = "idle time of these", unit = "ns", metric = "device" }
--! copy_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! copy_source = "line of the program with most of it"
--! call_count = { doc = "gaps begun by another wait: a synchronization of device, stream or event", unit = "count", metric = "device" }
--! call_ns = { doc = "idle time of these", unit = "ns", metric = "device" }
--! call_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! call_source = "line of the program with most of it"
--! scaler_ns = { doc = "that part of all idle time in which a gradient scaler looks for infinities (_amp_foreach_non_finite_check, GradScaler)", unit = "ns", metric = "device" }
--! wait_count = { doc = "calls of the rank that wait for the device", unit = "count", metric = "device" }
--! launch_count = { doc = "kernels, copies and fills launched on the device", unit = "count", metric = "device" }
--! waits_per_launch = { doc = "one over the other", unit = "number", metric = "device" }
--! known_count = { doc = "kernels whose launching call is known and launches nothing else (no replayed graph)", unit = "count", metric = "device" }
--! blocked_ratio = { doc = "of these, those whose call returned only when they had ended (CUDA_LAUNCH_BLOCKING=1)", unit = "ratio", metric = "device" }
--! host_idle_ratio = { doc = "share of the window in which the device is idle because the host launches, runs Python or waits, see gpu_idle_causes", unit = "ratio", metric = "device" }
--! d2h_count = { doc = "copies from the device to the host in the window", unit = "count", metric = "device" }
--! d2h_per_step = { doc = "these, for each step; over the whole recording where there are none", unit = "number", metric = "device" }
WITH sums AS (
    SELECT
        rank, device,
        count(DISTINCT CASE WHEN kind = 'read' THEN gap_ts_ns END) AS read_count,
        sum_if!(dur_ns, kind = 'read') AS read_ns,
        count(DISTINCT CASE WHEN kind = 'copy' THEN gap_ts_ns END) AS copy_count,
        sum_if!(dur_ns, kind = 'copy') AS copy_ns,
        count(DISTINCT CASE WHEN kind = 'call' THEN gap_ts_ns END) AS call_count,
        sum_if!(dur_ns, kind = 'call') AS call_ns
    FROM idle_waits
    GROUP BY rank, device
),
places AS (
    SELECT rank, device, kind, op_name, source, sum(dur_ns) AS dur_ns
    FROM idle_waits
    GROUP BY rank, device, kind, op_name, source
),
top_names AS (
    SELECT
        rank, device,
        first_value(op_name ORDER BY dur_ns DESC, op_name) FILTER (WHERE kind = 'read') AS read_op_name,
        first_value(source ORDER BY dur_ns DESC, source) FILTER (WHERE kind = 'read') AS read_source,
        first_value(source ORDER BY dur_ns DESC, source) FILTER (WHERE kind = 'copy') AS copy_source,
        first_value(source ORDER BY dur_ns DESC, source) FILTER (WHERE kind = 'call') AS call_source
    FROM places
    GROUP BY rank, device
),
idle AS (
    SELECT
        rank, device, sum(dur_ns) AS idle_ns,
        sum_if!(dur_ns, op_name LIKE '%amp_foreach_non_finite%' OR range_name LIKE '%GradScaler%') AS scaler_ns
    FROM idle_gap_causes
    GROUP BY rank, device
),
waits AS (
    SELECT rank, count(*) AS wait_count FROM host_waits WHERE cause = 'sync' GROUP BY rank
),
work AS (
    SELECT
        k.rank, k.device, count(*) AS launch_count,
        count_if!(k.category = 'kernel' AND k.launch_name NOT LIKE '%GraphLaunch%') AS known_count,
        count_if!(k.category = 'kernel' AND k.launch_name NOT LIKE '%GraphLaunch%' AND k.launch_end_ns >= k.end_ns) AS blocked_count
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
    GROUP BY k.rank, k.device
),
copies AS (
    SELECT m.rank, coalesce(m.device, CAST(-1 AS INT)) AS device, count(*) AS d2h_count
    FROM memcpys m
    JOIN device_windows w ON w.rank = m.rank AND w.device = coalesce(m.device, CAST(-1 AS INT))
    WHERE m.kind = 'DtoH' AND m.ts_ns < w.end_ns AND m.ts_ns + m.dur_ns > w.start_ns
    GROUP BY 1, 2
)
SELECT
    w.rank, w.device, w.window_ns,
    ratio!(coalesce(i.idle_ns, 0), w.window_ns) AS idle_ratio,
    w.step_count,
    coalesce(s.read_count, 0) AS read_count,
    CAST(coalesce(s.read_count, 0) AS DOUBLE) / greatest(w.step_count, 1) AS reads_per_step,
    coalesce(s.read_ns, 0) AS read_ns,
    ratio!(coalesce(s.read_ns, 0), w.window_ns) AS read_ratio,
    t.read_op_name, t.read_source,
    coalesce(s.copy_count, 0) AS copy_count,
    coalesce(s.copy_ns, 0) AS copy_ns,
    ratio!(coalesce(s.copy_ns, 0), w.window_ns) AS copy_ratio,
    t.copy_source,
    coalesce(s.call_count, 0) AS call_count,
    coalesce(s.call_ns, 0) AS call_ns,
    ratio!(coalesce(s.call_ns, 0), w.window_ns) AS call_ratio,
    t.call_source,
    coalesce(i.scaler_ns, 0) AS scaler_ns,
    coalesce(h.wait_count, 0) AS wait_count,
    k.launch_count,
    ratio!(coalesce(h.wait_count, 0), k.launch_count) AS waits_per_launch,
    k.known_count,
    ratio!(k.blocked_count, k.known_count) AS blocked_ratio,
    g.host_ratio + g.sync_ratio AS host_idle_ratio,
    coalesce(c.d2h_count, 0) AS d2h_count,
    CAST(coalesce(c.d2h_count, 0) AS DOUBLE) / greatest(w.step_count, 1) AS d2h_per_step
FROM device_windows w
JOIN work k ON k.rank = w.rank AND k.device = w.device
LEFT JOIN sums s ON s.rank = w.rank AND s.device = w.device
LEFT JOIN top_names t ON t.rank = w.rank AND t.device = w.device
LEFT JOIN idle i ON i.rank = w.rank AND i.device = w.device
LEFT JOIN waits h ON h.rank = w.rank
LEFT JOIN gpu_idle_causes g ON g.rank = w.rank AND g.device = w.device
LEFT JOIN copies c ON c.rank = w.rank AND c.device = w.device
