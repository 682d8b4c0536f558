--! question = "How busy is each GPU?"
--! row = "one device of one rank"
--! window = "counted_steps"
--! needs = ["device_load", "device_windows", "device_work", "graph_launches", "idle_gap_causes"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last, see device_windows", unit = "ns", metric = "device" }
--! kernel_busy_ns = { doc = "a kernel runs", unit = "ns", metric = "device" }
--! kernel_busy_ratio = { doc = "share of the window in which a kernel runs", unit = "ratio", metric = "device" }
--! computation_ratio = { doc = "share of the window in which a kernel runs that does not communicate", unit = "ratio", metric = "device" }
--! exposed_communication_ratio = { doc = "share of the window in which kernels communicate and none computes", unit = "ratio", metric = "device" }
--! exposed_copy_ratio = { doc = "share of the window in which copies or fills run and no kernel: these three and idle_ratio add up to 1", unit = "ratio", metric = "device" }
--! busy_ns = { doc = "a kernel, copy or fill runs", unit = "ns", metric = "device" }
--! busy_ratio = { doc = "share of the window in which anything runs", unit = "ratio", metric = "device" }
--! idle_ns = { doc = "nothing runs", unit = "ns", metric = "device" }
--! idle_ratio = { doc = "share of the window in which nothing runs; gpu_temporal_breakdown.idle_ratio is that from the first GPU activity to the last", unit = "ratio", metric = "device" }
--! unattributed_ratio = { doc = "share of the window that is idle and that no fix returns: its cause in idle_gap_causes cannot be told (side unknown) or does not recur (side warmup)", unit = "ratio", metric = "device" }
--! unattributed_cause = "cause of most of that, see idle_gap_causes"
--! sm_efficiency_ratio = { doc = "blocks over SMs, added up over running kernels, at most 1, averaged over the window; absent if kernels with a tenth of their time do not say", unit = "ratio", metric = "device" }
--! occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over kernels that have it", unit = "ratio", metric = "device" }
--! mean_blocks_per_sm = { doc = "blocks over SMs, weighted by duration, over kernels that have it; absent if kernels with a tenth of the time do not", unit = "number", metric = "device" }
--! activity_count = { doc = "kernels, copies and fills in the window", unit = "count", metric = "device" }
--! step_count = { doc = "complete steps in the window; 0 where the whole recording stands for one", unit = "count", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
--! unlinked_ratio = { doc = "share of kernel time whose launching call the trace does not hold", unit = "ratio", metric = "device" }
WITH load AS (
    SELECT
        l.rank, l.device,
        sum(l.dur_ns) AS window_ns,
        sum_if!(l.dur_ns, l.kernel_count > 0) AS kernel_busy_ns,
        sum_if!(l.dur_ns, l.kernel_count > l.communication_count) AS computation_ns,
        sum_if!(l.dur_ns, l.activity_count > 0) AS busy_ns,
        exact_sum!(least(greatest(l.blocks_per_sm, 0), 1) * l.dur_ns) AS sm_busy_ns
    FROM device_load l
    JOIN device_windows w ON w.rank = l.rank AND w.device = l.device
    WHERE l.ts_ns >= w.start_ns AND l.ts_ns < w.end_ns
    GROUP BY l.rank, l.device
),
clipped AS (
    SELECT
        k.rank, k.device, k.launch, k.occupancy_ratio,
        CASE WHEN k.blocks_per_sm > 0 THEN k.blocks_per_sm END AS blocks_per_sm,
        least(k.end_ns, w.end_ns) - greatest(k.ts_ns, w.start_ns) AS dur_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
),
activities AS (
    SELECT k.rank, k.device, count(*) AS activity_count
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
    GROUP BY k.rank, k.device
),
means AS (
    SELECT
        rank, device,
        weighted_mean!(occupancy_ratio, dur_ns) AS occupancy_ratio,
        weighted_mean!(blocks_per_sm, dur_ns) AS mean_blocks_per_sm,
        ratio!(sum(CASE WHEN blocks_per_sm > 0 THEN dur_ns END), sum(dur_ns)) AS known_ratio,
        ratio!(sum_if!(dur_ns, launch IS NULL), sum(dur_ns)) AS unlinked_ratio
    FROM clipped
    GROUP BY rank, device
),
unattributed_causes AS (
    SELECT rank, device, cause, sum(dur_ns) AS dur_ns
    FROM idle_gap_causes
    WHERE side IN ('unknown', 'warmup')
    GROUP BY rank, device, cause
),
unattributed AS (
    SELECT
        rank, device, sum(dur_ns) AS unattributed_ns,
        first_value(cause ORDER BY dur_ns DESC, cause) AS unattributed_cause
    FROM unattributed_causes
    GROUP BY rank, device
)
SELECT
    l.rank, l.device, l.window_ns,
    l.kernel_busy_ns,
    CAST(l.kernel_busy_ns AS DOUBLE) / l.window_ns AS kernel_busy_ratio,
    CAST(l.computation_ns AS DOUBLE) / l.window_ns AS computation_ratio,
    CAST(l.kernel_busy_ns - l.computation_ns AS DOUBLE) / l.window_ns AS exposed_communication_ratio,
    CAST(l.busy_ns - l.kernel_busy_ns AS DOUBLE) / l.window_ns AS exposed_copy_ratio,
    l.busy_ns,
    CAST(l.busy_ns AS DOUBLE) / l.window_ns AS busy_ratio,
    l.window_ns - l.busy_ns AS idle_ns,
    CAST(l.window_ns - l.busy_ns AS DOUBLE) / l.window_ns AS idle_ratio,
    CAST(coalesce(u.unattributed_ns, 0) AS DOUBLE) / l.window_ns AS unattributed_ratio,
    u.unattributed_cause,
    CASE WHEN m.known_ratio >= 0.9 THEN l.sm_busy_ns / l.window_ns END AS sm_efficiency_ratio,
    m.occupancy_ratio,
    CASE WHEN m.known_ratio >= 0.9 THEN m.mean_blocks_per_sm END AS mean_blocks_per_sm,
    coalesce(a.activity_count, 0) AS activity_count,
    w.step_count,
    g.graph_launch_count,
    m.unlinked_ratio
FROM load l
JOIN device_windows w ON w.rank = l.rank AND w.device = l.device
LEFT JOIN activities a ON a.rank = l.rank AND a.device = l.device
LEFT JOIN means m ON m.rank = l.rank AND m.device = l.device
LEFT JOIN unattributed u ON u.rank = l.rank AND u.device = l.device
JOIN graph_launches g ON g.rank = l.rank
