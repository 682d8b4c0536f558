--! question = "Are collectives too small to be efficient, and do large ones reach the bandwidth of the link?"
--! row = "one rank: its collectives by size, and the bandwidth of the large ones"
--! window = "recording"
--! scope = "run"
--! needs = ["comm_collectives", "comm_arrivals", "comm_exposed", "device_properties", "ranks", "steps", "cpu_ops", "host_collectives", "device_steps"]
--! order = ["rank"]
--! when_empty = "the trace holds no collective: neither a kernel of a communication library, nor record_param_comms, c10d:: or nccl:/gloo: ranges (torch.profiler records them where torch.distributed communicates)"
--! [params]
--! small_message_kib = { default = 1024, doc = "a collective of less is small" }
--! large_message_mib = { default = 64, doc = "a collective of at least this is large" }
--! medium_message_mib = { default = 4, doc = "the bandwidth of a collective of at least this can be judged, if only roughly" }
--! short_call_us = { default = 50, doc = "a collective of unknown size is small if it takes less" }
--! [columns]
--! rank = "rank"
--! call_count = { doc = "collectives that carry data (neither barriers nor messages between two ranks), with a time", unit = "count", metric = "rank" }
--! sum_ns = { doc = "their durations, added up", unit = "ns", metric = "rank" }
--! sized_ratio = { doc = "share of that time in collectives whose size is known (record_shapes=True, or a torch that writes sizes of collectives)", unit = "ratio", metric = "rank" }
--! small_count = { doc = "small ones: of known size, or of unknown size and shorter than short_call_us on a device", unit = "count", metric = "rank" }
--! small_mean_bytes = { doc = "mean size of the small ones whose size is known; absent without such", unit = "bytes", metric = "rank" }
--! small_ns = { doc = "durations of the small ones, added up", unit = "ns", metric = "rank" }
--! small_ratio = { doc = "share of the time of collectives whose size is known, or whose time on a device is; absent without any", unit = "ratio", metric = "rank" }
--! small_per_step_count = { doc = "small collectives a step; absent without steps", unit = "count", metric = "rank" }
--! small_median_ns = { doc = "median duration of a small one", unit = "ns", metric = "rank" }
--! reduce_per_step_count = { doc = "all_reduce calls a step; absent without steps", unit = "count", metric = "rank" }
--! parameter_count = { doc = "gradients that autograd accumulates in a step: calls of AccumulateGrad; absent without steps or operators", unit = "count", metric = "rank" }
--! reduces_each_parameter = "there are about as many all_reduce calls in a step as gradients (0.8 to 1.5 times), 20 or more; absent if either is unknown"
--! host_ratio = { doc = "share of the counted steps, in their length on the host, in which any thread of the program calls collectives: without the ranges of gloo and MPI, which run on threads of the library, and without waits; absent if no such call was recorded", unit = "ratio", metric = "rank" }
--! mergeable_count = { doc = "calls that would be saved if small ones of the same kind, type and group within a step were merged up to small_message_kib, or 32 into one where their size is unknown", unit = "count", metric = "rank" }
--! latency_ns = { doc = "shortest small collective, on any rank where it is matched: what a call takes that moves next to nothing", unit = "ns", metric = "rank" }
--! merge_gain_ratio = { doc = "mergeable_count times latency_ns over the window, at most the exposed share of communication times small_ratio", unit = "ratio", metric = "rank" }
--! exposed_ratio = { doc = "share of the window in which communication runs and computation does not, see comm_exposed", unit = "ratio", metric = "rank" }
--! large_count = { doc = "large collectives matched with those of all ranks that were read, in groups of known size on devices", unit = "count", metric = "rank" }
--! large_transfer_ns = { doc = "time in which their data moves: the shortest duration on any rank, added up", unit = "ns", metric = "rank" }
--! bus_gb_per_s = { doc = "their bus bandwidth as nccl-tests': bytes over transfer time, times 2(n-1)/n for all_reduce and (n-1)/n for all_gather, reduce_scatter and all_to_all; absent without large ones", unit = "gb_per_s", metric = "rank" }
--! group_size = { doc = "ranks in the largest of their groups", unit = "number", metric = "rank" }
--! host_count = { doc = "hosts that the ranks name; 0 if they name none", unit = "count", metric = "rank" }
--! device_name = "product name of the rank's device"
--! link_gb_per_s = { doc = "one-way bandwidth of the links between such devices in one machine: the data sheet's NVLink or xGMI total, halved where that counts both ways; absent for other devices", unit = "gb_per_s", metric = "rank" }
--! link_ratio = { doc = "bus bandwidth over that of the links; absent without large ones, or if a group may span machines (more than 8 ranks, or several hosts)", unit = "ratio", metric = "rank" }
--! medium_count = { doc = "collectives on devices of medium_message_mib or more, in groups of known size, that are not among the large ones: smaller, or not matched with other ranks", unit = "count", metric = "rank" }
--! medium_bus_gb_per_s = { doc = "their bus bandwidth, where each counts with the shortest duration of a call of its kind and size on this rank; absent without such", unit = "gb_per_s", metric = "rank" }
--! medium_link_ratio = { doc = "that over the bandwidth of the links, or link_ratio without such; absent if a group may span machines", unit = "ratio", metric = "rank" }
--! medium_exposed_ratio = { doc = "exposed share of communication, times the share of its time in these", unit = "ratio", metric = "rank" }
--! is_matched = "large ones were matched between ranks: their time is without waiting"
--! large_exposed_ratio = { doc = "exposed share of communication, times the share of its time in large collectives", unit = "ratio", metric = "rank" }
WITH links AS (
    -- NVLink, one way: 4.0 H100/H200 450, B200 900; 3.0 A100 300, A800/H800 200; 2.0 V100 150. xGMI: MI300X 448,
    -- MI325X 448, MI250 (four links to others) 200. Devices without such links are not listed.
    SELECT column1 AS pattern, column2 AS gb_per_s
    FROM (VALUES
        ('%B200%', 900.0), ('%B300%', 900.0), ('%H100%HBM%', 450.0), ('%H100 SXM%', 450.0), ('%H200%', 450.0),
            ('%H800%', 200.0), ('%H20%', 450.0),
        ('%A100-SXM%', 300.0), ('%A100-PG509%', 300.0), ('%A800-SXM%', 200.0), ('%V100-SXM%', 150.0), ('%V100-DGXS%', 100.0),
        ('%MI300X%', 448.0), ('%MI325X%', 448.0), ('%MI355X%', 538.0), ('%MI250%', 200.0)
    )
),
models AS (
    SELECT d.rank, min(d.name) AS device_name, max(l.gb_per_s) AS gb_per_s
    FROM (SELECT rank, CAST(name AS VARCHAR) AS name FROM device_properties) d
    LEFT JOIN links l ON d.name LIKE l.pattern
    GROUP BY d.rank
),
ranks_with_host AS (
    SELECT count(DISTINCT nullif(CAST(host AS VARCHAR), '')) AS host_count FROM ranks
),
calls AS (
    SELECT
        c.rank, c.name, c.dtype, c.group_name, c.step, c.dur_ns, c.message_bytes, c.group_size, c.timed_on,
        coalesce(c.message_bytes < $small_message_kib * 1024,
            c.timed_on = 'device' AND c.dur_ns < $short_call_us * 1000, false) AS is_small,
        c.message_bytes IS NOT NULL OR c.timed_on = 'device' AS is_classified,
        coalesce(c.message_bytes >= $large_message_mib * 1048576 AND c.timed_on = 'device' AND c.group_size > 1
            AND a.transfer_ns > 0, false) AS is_large,
        coalesce(c.message_bytes >= $medium_message_mib * 1048576 AND c.timed_on = 'device' AND c.group_size > 1
            AND c.dur_ns > 0
            AND NOT (c.message_bytes >= $large_message_mib * 1048576 AND coalesce(a.transfer_ns > 0, false)), false) AS is_medium,
        a.transfer_ns,
        min(nullif(c.dur_ns, 0)) OVER (PARTITION BY c.rank, c.name, c.message_bytes, c.group_size) AS shortest_ns,
        CASE
            WHEN c.name = 'all_reduce' THEN 2.0 * (c.group_size - 1) / c.group_size
            WHEN c.name IN ('all_gather', 'reduce_scatter', 'all_to_all') THEN 1.0 * (c.group_size - 1) / c.group_size
            ELSE 1.0
        END AS link_factor
    FROM comm_collectives c
    LEFT JOIN comm_arrivals a ON a.rank = c.rank AND a.collective = c.collective
    -- A message lasts as long as its receiver waits, and stages of a pipeline cannot merge theirs.
    WHERE c.dur_ns IS NOT NULL AND c.name NOT IN ('barrier', 'send', 'recv')
),
merges AS (
    SELECT
        rank,
        sum(call_count - least(call_count, greatest(ceil(bytes / ($small_message_kib * 1024.0)) + ceil(unsized_count / 32.0), 1))) AS mergeable_count
    FROM (
        SELECT rank, name, dtype, group_name, step, CAST(count(*) AS DOUBLE) AS call_count,
            CAST(coalesce(sum(message_bytes), 0) AS DOUBLE) AS bytes, count(*) - count(message_bytes) AS unsized_count
        FROM calls
        WHERE is_small AND step IS NOT NULL
        GROUP BY rank, name, dtype, group_name, step
    )
    GROUP BY rank
),
sums AS (
    SELECT
        rank,
        count(*) AS call_count,
        sum(dur_ns) AS sum_ns,
        CAST(sum(CASE WHEN message_bytes IS NOT NULL THEN dur_ns END) AS DOUBLE) AS sized_ns,
        CAST(sum(CASE WHEN is_classified THEN dur_ns END) AS DOUBLE) AS classified_ns,
        median(CASE WHEN is_small THEN CAST(dur_ns AS DOUBLE) END) AS small_median_ns,
        count_if!(name = 'all_reduce') AS reduce_count,
        count_if!(is_small) AS small_count,
        avg(CASE WHEN is_small THEN CAST(message_bytes AS DOUBLE) END) AS small_mean_bytes,
        sum_if!(dur_ns, is_small) AS small_ns,
        min(CASE WHEN is_small THEN coalesce(nullif(transfer_ns, 0), dur_ns) END) AS latency_ns,
        count_if!(is_large) AS large_count,
        sum_if!(dur_ns, is_large) AS large_ns,
        sum_if!(transfer_ns, is_large) AS large_transfer_ns,
        sum(CASE WHEN is_large THEN message_bytes * link_factor END) / sum(CASE WHEN is_large THEN transfer_ns END) AS bus_gb_per_s,
        max(CASE WHEN is_large OR is_medium THEN group_size END) AS group_size,
        count_if!(is_medium) AS medium_count,
        sum_if!(dur_ns, is_medium) AS medium_ns,
        sum(CASE WHEN is_medium THEN message_bytes * link_factor END) / sum(CASE WHEN is_medium THEN shortest_ns END) AS medium_bus_gb_per_s
    FROM calls
    GROUP BY rank
),
steps_of AS (
    SELECT rank, count(*) AS step_count FROM steps WHERE source <> 'trace' GROUP BY rank
),
gradients AS (
    SELECT rank, count(*) AS gradient_count
    FROM cpu_ops
    WHERE name = 'autograd::engine::evaluate_function: torch::autograd::AccumulateGrad'
    GROUP BY rank
),
-- Calls nest: c10d::allreduce_, record_param_comms, nccl:all_reduce. Ranges of gloo and MPI are the collectives themselves.
host_intervals AS (
    SELECT rank, ts_ns, ts_ns + dur_ns AS end_ns, 1 AS calls, 0 AS in_step
    FROM host_collectives
    WHERE NOT (name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE '%wait%')
    UNION ALL
    SELECT rank, host_ts_ns, host_end_ns, 0, 1 FROM device_steps
),
host_times AS (
    overlap_counts!(host_intervals, (rank), (calls, in_step))
),
host_calls AS (
    SELECT rank, sum_if!(dur_ns, calls > 0) AS host_ns, sum(dur_ns) AS window_ns
    FROM host_times
    WHERE in_step > 0 AND dur_ns > 0 AND rank IN (SELECT DISTINCT rank FROM host_intervals WHERE calls > 0)
    GROUP BY rank
)
SELECT
    s.rank, s.call_count, s.sum_ns,
    coalesce(s.sized_ns, 0) / nullif(s.sum_ns, 0) AS sized_ratio,
    s.small_count, s.small_mean_bytes, s.small_ns,
    s.small_ns / nullif(s.classified_ns, 0) AS small_ratio,
    CAST(s.small_count AS DOUBLE) / t.step_count AS small_per_step_count,
    s.small_median_ns,
    ratio!(s.reduce_count, t.step_count) AS reduce_per_step_count,
    ratio!(p.gradient_count, t.step_count) AS parameter_count,
    s.reduce_count >= 20 * t.step_count AND s.reduce_count BETWEEN 0.8 * p.gradient_count AND 1.5 * p.gradient_count AS reduces_each_parameter,
    ratio!(g.host_ns, g.window_ns) AS host_ratio,
    CAST(coalesce(m.mergeable_count, 0) AS BIGINT) AS mergeable_count,
    s.latency_ns,
    least(
        coalesce(m.mergeable_count, 0) * coalesce(s.latency_ns, 0) / nullif(e.window_ns, 0),
        e.exposed_ratio * coalesce(s.small_ns / nullif(s.classified_ns, 0), 0)
    ) AS merge_gain_ratio,
    e.exposed_ratio,
    s.large_count, s.large_transfer_ns, s.bus_gb_per_s,
    CAST(s.group_size AS BIGINT) AS group_size,
    h.host_count,
    d.device_name,
    d.gb_per_s AS link_gb_per_s,
    CASE WHEN s.group_size <= 8 AND h.host_count <= 1 THEN s.bus_gb_per_s / d.gb_per_s END AS link_ratio,
    s.medium_count, s.medium_bus_gb_per_s,
    CASE
        WHEN s.group_size <= 8 AND h.host_count <= 1 THEN coalesce(s.medium_bus_gb_per_s, s.bus_gb_per_s) / d.gb_per_s
    END AS medium_link_ratio,
    e.exposed_ratio * s.medium_ns / nullif(s.sum_ns, 0) AS medium_exposed_ratio,
    s.large_count > 0 AS is_matched,
    e.exposed_ratio * s.large_ns / nullif(s.sum_ns, 0) AS large_exposed_ratio
FROM sums s
CROSS JOIN ranks_with_host h
LEFT JOIN comm_exposed e ON e.rank = s.rank
LEFT JOIN merges m ON m.rank = s.rank
LEFT JOIN steps_of t ON t.rank = s.rank
LEFT JOIN models d ON d.rank = s.rank
LEFT JOIN gradients p ON p.rank = s.rank
LEFT JOIN host_calls g ON g.rank = s.rank
