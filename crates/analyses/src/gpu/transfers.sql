--! question = "How expensive are copies between host and GPU, and is the memory pinned?"
--! row = "one device of one rank: copies between host and device"
--! window = "counted_steps"
--! needs = ["memcpys", "device_work", "device_windows", "device_idle_gaps", "graph_launches"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! small_copy_kib = { default = 64, doc = "a copy of at most this is small" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last, see device_windows", unit = "ns", metric = "device" }
--! step_count = { doc = "steps in the window", unit = "count", metric = "device" }
--! h2d_count = { doc = "copies from host to device", unit = "count", metric = "device" }
--! h2d_bytes = { doc = "bytes they copy; absent where the trace does not say", unit = "bytes", metric = "device" }
--! h2d_ns = { doc = "at least one of them runs", unit = "ns", metric = "device" }
--! h2d_exposed_ns = { doc = "at least one runs and no kernel does", unit = "ns", metric = "device" }
--! h2d_exposed_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! h2d_per_step_count = { doc = "copies from host to device a step; absent without steps", unit = "count", metric = "device" }
--! h2d_mean_bytes = { doc = "bytes of such a copy", unit = "bytes", metric = "device" }
--! small_gap_ns = { doc = "idle directly before a small copy from host to device whose launch had not returned when the gap began, data loading and synchronization excluded", unit = "ns", metric = "device" }
--! small_gap_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! typed_count = { doc = "copies from host to device that say which kind of host memory they read", unit = "count", metric = "device" }
--! pageable_count = { doc = "copies from pageable memory, small ones excluded", unit = "count", metric = "device" }
--! pageable_bytes = { doc = "bytes they copy", unit = "bytes", metric = "device" }
--! pageable_exposed_ns = { doc = "at least one of them runs and no kernel does", unit = "ns", metric = "device" }
--! pageable_exposed_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! pageable_gb_per_s = { doc = "their bytes over the sum of their times", unit = "gb_per_s", metric = "device" }
--! pinned_gb_per_s = { doc = "the same of copies from pinned memory, small ones excluded; absent if there are none", unit = "gb_per_s", metric = "device" }
--! pageable_loss_ratio = { doc = "share of the window that copies from pinned memory would save: pageable_exposed_ratio times 1 less pageable over pinned bandwidth, with 12 GB/s (PCIe 3.0 x16) where no pinned copy was measured; 0 if pinned is no faster", unit = "ratio", metric = "device" }
--! d2h_count = { doc = "copies from device to host", unit = "count", metric = "device" }
--! d2h_bytes = { doc = "bytes they copy; absent where the trace does not say", unit = "bytes", metric = "device" }
--! d2h_exposed_ns = { doc = "at least one of them runs and no kernel does", unit = "ns", metric = "device" }
--! d2h_exposed_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
WITH copies AS (
    SELECT
        w.rank, w.device, m.event_id, m.bytes, m.dur_ns,
        greatest(m.ts_ns, w.start_ns) AS ts_ns,
        least(m.ts_ns + m.dur_ns, w.end_ns) AS end_ns,
        CASE WHEN m.kind = 'HtoD' THEN 1 ELSE 0 END AS h2d,
        CASE WHEN m.kind = 'DtoH' THEN 1 ELSE 0 END AS d2h,
        CASE WHEN m.kind = 'HtoD' AND m.bytes > $small_copy_kib * 1024 AND m.name LIKE '%Pageable%' THEN 1 ELSE 0 END AS pageable,
        CASE WHEN m.kind = 'HtoD' AND m.bytes > $small_copy_kib * 1024 AND m.name LIKE '%Pinned%' THEN 1 ELSE 0 END AS pinned,
        CASE WHEN m.kind = 'HtoD' AND (m.name LIKE '%Pageable%' OR m.name LIKE '%Pinned%') THEN 1 ELSE 0 END AS typed
    FROM memcpys m
    JOIN device_windows w ON w.rank = m.rank AND w.device = coalesce(m.device, CAST(-1 AS INT))
    WHERE m.kind IN ('HtoD', 'DtoH') AND m.ts_ns < w.end_ns AND m.ts_ns + m.dur_ns > w.start_ns
),
intervals AS (
    SELECT rank, device, ts_ns, end_ns, h2d, d2h, pageable, 0 AS kernels FROM copies
    UNION ALL
    SELECT rank, device, ts_ns, end_ns, 0, 0, 0, 1 FROM device_work WHERE category = 'kernel'
),
running AS (
    overlap_counts!(intervals, (rank, device), (h2d, d2h, pageable, kernels))
),
times AS (
    SELECT
        rank, device,
        sum_if!(dur_ns, h2d > 0) AS h2d_ns,
        sum_if!(dur_ns, h2d > 0 AND kernels = 0) AS h2d_exposed_ns,
        sum_if!(dur_ns, d2h > 0 AND kernels = 0) AS d2h_exposed_ns,
        sum_if!(dur_ns, pageable > 0 AND kernels = 0) AS pageable_exposed_ns
    FROM running
    GROUP BY rank, device
),
counts AS (
    SELECT
        rank, device,
        sum(h2d) AS h2d_count,
        sum(CASE WHEN h2d = 1 THEN bytes END) AS h2d_bytes,
        sum(typed) AS typed_count,
        sum(pageable) AS pageable_count,
        sum_if!(bytes, pageable = 1) AS pageable_bytes,
        ratio!(sum(CASE WHEN pageable = 1 THEN bytes END), sum(CASE WHEN pageable = 1 THEN dur_ns END)) AS pageable_gb_per_s,
        ratio!(sum(CASE WHEN pinned = 1 THEN bytes END), sum(CASE WHEN pinned = 1 THEN dur_ns END)) AS pinned_gb_per_s,
        sum(d2h) AS d2h_count,
        sum(CASE WHEN d2h = 1 THEN bytes END) AS d2h_bytes
    FROM copies
    GROUP BY rank, device
),
gaps AS (
    SELECT g.rank, g.device, sum(g.host_ns) AS small_gap_ns
    FROM device_idle_gaps g
    JOIN copies c ON c.rank = g.rank AND c.event_id = g.next_event_id
    WHERE c.h2d = 1 AND c.bytes <= $small_copy_kib * 1024
    GROUP BY g.rank, g.device
)
SELECT
    w.rank, w.device, w.window_ns, w.step_count,
    coalesce(c.h2d_count, 0) AS h2d_count,
    CASE WHEN c.h2d_count > 0 THEN c.h2d_bytes ELSE 0 END AS h2d_bytes,
    coalesce(t.h2d_ns, 0) AS h2d_ns,
    coalesce(t.h2d_exposed_ns, 0) AS h2d_exposed_ns,
    ratio!(coalesce(t.h2d_exposed_ns, 0), w.window_ns) AS h2d_exposed_ratio,
    ratio!(coalesce(c.h2d_count, 0), w.step_count) AS h2d_per_step_count,
    ratio!(c.h2d_bytes, c.h2d_count) AS h2d_mean_bytes,
    coalesce(g.small_gap_ns, 0) AS small_gap_ns,
    ratio!(coalesce(g.small_gap_ns, 0), w.window_ns) AS small_gap_ratio,
    zero_for_missing!(c, (typed_count, pageable_count, pageable_bytes)),
    coalesce(t.pageable_exposed_ns, 0) AS pageable_exposed_ns,
    ratio!(coalesce(t.pageable_exposed_ns, 0), w.window_ns) AS pageable_exposed_ratio,
    c.pageable_gb_per_s,
    c.pinned_gb_per_s,
    ratio!(coalesce(t.pageable_exposed_ns, 0), w.window_ns)
        * greatest(1 - coalesce(c.pageable_gb_per_s / coalesce(c.pinned_gb_per_s, 12.0), 0), 0) AS pageable_loss_ratio,
    coalesce(c.d2h_count, 0) AS d2h_count,
    CASE WHEN c.d2h_count > 0 THEN c.d2h_bytes ELSE 0 END AS d2h_bytes,
    coalesce(t.d2h_exposed_ns, 0) AS d2h_exposed_ns,
    ratio!(coalesce(t.d2h_exposed_ns, 0), w.window_ns) AS d2h_exposed_ratio,
    n.graph_launch_count
FROM device_windows w
LEFT JOIN counts c ON c.rank = w.rank AND c.device = w.device
LEFT JOIN times t ON t.rank = w.rank AND t.device = w.device
LEFT JOIN gaps g ON g.rank = w.rank AND g.device = w.device
JOIN graph_launches n ON n.rank = w.rank
