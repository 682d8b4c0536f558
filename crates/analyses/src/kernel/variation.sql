--! question = "Do the same kernels take different times, and why?"
--! row = "one device of one rank: variation between executions of the same kernel, and its causes"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "kernel_runs", "kernels", "cpu_ops", "graph_matches"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last, see device_windows", unit = "ns", metric = "device" }
--! step_count = { doc = "steps in the window", unit = "count", metric = "device" }
--! kernel_ns = { doc = "durations of computing kernels in the window, added up", unit = "ns", metric = "device" }
--! drift_ns = { doc = "time in kernels (same name, grid, block and shapes of the operator's inputs, or place in a replayed graph; 9 or more executions) that take at least 5 % longer in the last third of the window than in the first", unit = "ns", metric = "device" }
--! drift_ratio = { doc = "share of kernel_ns", unit = "ratio", metric = "device" }
--! drift_excess_ns = { doc = "time that their later two thirds take beyond the pace of the first", unit = "ns", metric = "device" }
--! drift_excess_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! drift_slowdown_ratio = { doc = "slowdown of the last third relative to the first, weighted by time; absent if there are none", unit = "ratio", metric = "device" }
--! varying_count = { doc = "kernels (same name, grid, block and known shapes of the operator's inputs, or place in a replayed graph) with more than 10 executions, 5 % of kernel_ns or more, and a standard deviation over mean above 0.3", unit = "count", metric = "device" }
--! varying_name = "the one that takes most time"
--! varying_cv_ratio = { doc = "its standard deviation over mean; 0 if there is none", unit = "ratio", metric = "device" }
--! varying_mean_ns = { doc = "its mean duration", unit = "ns", metric = "device" }
--! varying_p25_ns = { doc = "a quarter of its executions are shorter", unit = "ns", metric = "device" }
--! varying_share_ratio = { doc = "its share of kernel_ns", unit = "ratio", metric = "device" }
--! varying_excess_ratio = { doc = "time of the varying kernels beyond p25, over the window", unit = "ratio", metric = "device" }
--! erratic_count = { doc = "varying kernels whose standard deviation exceeds their mean", unit = "count", metric = "device" }
--! overlapped_ns = { doc = "computing kernels that start while a communicating one runs on the device, of kinds that also run alone (3 or more executions each way)", unit = "ns", metric = "device" }
--! slowed_ns = { doc = "of these, kinds that take at least 10 % longer while communication runs", unit = "ns", metric = "device" }
--! slowed_ratio = { doc = "share of kernel_ns", unit = "ratio", metric = "device" }
--! slowdown_ns = { doc = "their time beyond that of running alone", unit = "ns", metric = "device" }
--! slowdown_ratio = { doc = "over the window", unit = "ratio", metric = "device" }
--! slowed_name = "the kind that loses most"
--! shaped_ratio = { doc = "share of kernel_ns whose operators say the shapes of their inputs (record_shapes=True), or that a graph replays", unit = "ratio", metric = "device" }
-- Kernels with the same name, grid, block and input shapes do the same work, most of the time: not where the work
-- depends on the data (sorting, attention over lengths). Grids alone do not distinguish matmuls of different depth, so
-- that variation is judged only where shapes are known. The operator around the launch of a graph does not describe the
-- kernels in the graph: these do the same work if they have the same place in the same graph. Since 2026, the profiler
-- numbers the nodes of graphs. Without numbers, the place is the position on the stream, in replays of as many kernels with
-- the same grids and names in the same order. Communication is left out, as it waits for others. What starts at the moment at which
-- communication starts or ends runs alongside it.
WITH replayed AS (
    SELECT
        k.rank, k.launch, k.event_id, k.stream, k.graph_id, k.graph_node_id,
        character_length(CAST(k.name AS VARCHAR)) + least(coalesce(k.blocks, 0), 1000000) AS mark,
        row_number() OVER (PARTITION BY k.rank, k.launch, k.device, k.stream ORDER BY k.ts_ns, k.event_id) AS place
    FROM kernels k
    JOIN graph_matches m ON m.rank = k.rank AND m.launch = k.launch
),
graphs AS (
    SELECT rank, launch, concat(count(*), ' ', sum(place * mark)) AS graph FROM replayed GROUP BY rank, launch
),
places AS (
    SELECT
        r.rank, r.event_id,
        CASE
            WHEN r.graph_node_id IS NOT NULL THEN concat('node ', r.graph_id, ' ', r.graph_node_id)
            ELSE concat('place ', g.graph, ' ', r.stream, ' ', r.place)
        END AS place
    FROM replayed r
    JOIN graphs g ON g.rank = r.rank AND g.launch = r.launch
),
boundaries AS (
    SELECT rank, device, ts_ns, 0 AS turn, CASE WHEN kind = 'communication' THEN 1 ELSE 0 END AS delta,
        CASE WHEN kind = 'computation' THEN event_id END AS event_id
    FROM device_work
    WHERE category = 'kernel'
    UNION ALL
    SELECT rank, device, end_ns, 1, -1, NULL FROM device_work WHERE category = 'kernel' AND kind = 'communication'
),
overlapped_kernels AS (
    SELECT
        rank, event_id,
        running_sum!(delta, PARTITION BY rank, device ORDER BY ts_ns, turn, delta DESC) > 0 AS is_beside
    FROM boundaries
),
runs AS (
    SELECT
        k.rank, k.device, k.name, k.grid, k.block,
        coalesce(p.place, CAST(o.input_dims AS VARCHAR), '') AS work,
        CAST(k.dur_ns AS DOUBLE) AS dur_ns,
        b.is_beside,
        CAST(floor(3.0 * (k.ts_ns - w.start_ns) / (w.end_ns - w.start_ns)) AS INT) AS third
    FROM kernel_runs k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    JOIN overlapped_kernels b ON b.rank = k.rank AND b.event_id = k.event_id
    LEFT JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op
    LEFT JOIN places p ON p.rank = k.rank AND p.event_id = k.event_id
    WHERE k.kind = 'computation' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
kinds AS (
    SELECT
        rank, device, name, grid, block, work,
        count(*) AS run_count,
        sum(dur_ns) AS sum_ns,
        avg(dur_ns) AS mean_ns,
        stddev_samp(dur_ns) AS std_ns,
        approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY dur_ns) AS p25_ns,
        avg(CASE WHEN third = 0 THEN dur_ns END) AS first_ns,
        avg(CASE WHEN third = 2 THEN dur_ns END) AS last_ns,
        sum(CASE WHEN third > 0 THEN dur_ns END) AS later_ns,
        count(CASE WHEN third = 0 THEN 1 END) AS first_count,
        count(CASE WHEN third > 0 THEN 1 END) AS later_count,
        count(CASE WHEN third = 2 THEN 1 END) AS last_count,
        sum(CASE WHEN is_beside THEN dur_ns END) AS beside_ns,
        count(CASE WHEN is_beside THEN 1 END) AS beside_count,
        avg(CASE WHEN NOT is_beside THEN dur_ns END) AS alone_mean_ns,
        count(CASE WHEN NOT is_beside THEN 1 END) AS alone_count
    FROM runs
    GROUP BY rank, device, name, grid, block, work
),
classified AS (
    SELECT
        *,
        sum(sum_ns) OVER (PARTITION BY rank, device) AS kernel_ns,
        first_count >= 3 AND last_count >= 3 AND run_count >= 9 AND first_ns > 0 AND last_ns >= 1.05 * first_ns AS is_drifting,
        work <> '' AND run_count > 10 AND std_ns > 0.3 * mean_ns AND sum_ns >= 0.05 * sum(sum_ns)
            OVER (PARTITION BY rank, device) AS is_varying,
        beside_count >= 3 AND alone_count >= 3 AS is_comparable,
        beside_count >= 3 AND alone_count >= 3 AND beside_ns >= 1.1 * beside_count * alone_mean_ns AS is_slowed
    FROM kinds
),
sums AS (
    SELECT
        rank, device,
        min(kernel_ns) AS kernel_ns,
        sum_if!(sum_ns, work <> '') AS shaped_ns,
        sum_if!(sum_ns, is_drifting) AS drift_ns,
        sum_if!(greatest(later_ns - later_count * first_ns, 0), is_drifting) AS drift_excess_ns,
        sum(CASE WHEN is_drifting THEN sum_ns * (last_ns / first_ns - 1) END) / sum(CASE WHEN is_drifting
            THEN sum_ns END) AS drift_slowdown_ratio,
        count_if!(is_varying) AS varying_count,
        sum_if!(sum_ns - run_count * p25_ns, is_varying) AS varying_excess_ns,
        count_if!(is_varying AND std_ns > mean_ns) AS erratic_count,
        sum_if!(beside_ns, is_comparable) AS overlapped_ns,
        sum_if!(beside_ns, is_slowed) AS slowed_ns,
        sum_if!(beside_ns - beside_count * alone_mean_ns, is_slowed) AS slowdown_ns
    FROM classified
    GROUP BY rank, device
),
ranked AS (
    SELECT
        rank, device, name, mean_ns, p25_ns, std_ns / mean_ns AS cv_ratio, sum_ns / kernel_ns AS share_ratio,
        row_number() OVER (PARTITION BY rank, device ORDER BY sum_ns DESC, name, grid, block, work) AS place
    FROM classified
    WHERE is_varying
),
slowed AS (
    SELECT rank, device, first_value(name ORDER BY beside_ns - beside_count * alone_mean_ns DESC, name) AS slowed_name
    FROM classified
    WHERE is_slowed
    GROUP BY rank, device
)
SELECT
    s.rank, s.device, w.window_ns, w.step_count,
    CAST(s.kernel_ns AS BIGINT) AS kernel_ns,
    CAST(s.drift_ns AS BIGINT) AS drift_ns,
    s.drift_ns / nullif(s.kernel_ns, 0) AS drift_ratio,
    CAST(s.drift_excess_ns AS BIGINT) AS drift_excess_ns,
    s.drift_excess_ns / nullif(w.window_ns, 0) AS drift_excess_ratio,
    s.drift_slowdown_ratio,
    s.varying_count,
    v.name AS varying_name,
    coalesce(v.cv_ratio, 0) AS varying_cv_ratio,
    v.mean_ns AS varying_mean_ns,
    v.p25_ns AS varying_p25_ns,
    v.share_ratio AS varying_share_ratio,
    s.varying_excess_ns / nullif(w.window_ns, 0) AS varying_excess_ratio,
    s.erratic_count,
    CAST(s.overlapped_ns AS BIGINT) AS overlapped_ns,
    CAST(s.slowed_ns AS BIGINT) AS slowed_ns,
    s.slowed_ns / nullif(s.kernel_ns, 0) AS slowed_ratio,
    CAST(s.slowdown_ns AS BIGINT) AS slowdown_ns,
    s.slowdown_ns / nullif(w.window_ns, 0) AS slowdown_ratio,
    n.slowed_name,
    s.shaped_ns / nullif(s.kernel_ns, 0) AS shaped_ratio
FROM sums s
JOIN device_windows w ON w.rank = s.rank AND w.device = s.device
LEFT JOIN ranked v ON v.rank = s.rank AND v.device = s.device AND v.place = 1
LEFT JOIN slowed n ON n.rank = s.rank AND n.device = s.device
