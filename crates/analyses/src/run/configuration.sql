--! question = "How was the job configured and recorded?"
--! row = "one rank: configuration of the job and of the recording"
--! window = "recording"
--! scope = "run"
--! needs = ["ranks", "device_properties", "kernels", "annotations", "cpu_ops", "event_counts", "devices", "collectives"]
--! order = ["rank"]
--! when_empty = "the run holds no trace of the PyTorch Profiler, only what other tools recorded"
--! [columns]
--! rank = "rank"
--! file = "file the rank was read from"
--! host = "host name; absent where the trace does not say"
--! rank_count = { doc = "ranks that were read", unit = "count", metric = "rank" }
--! world_size = { doc = "ranks in the job; absent where the trace does not say", unit = "number", metric = "rank" }
--! device_type = "GPU, or CPU where the trace holds no device activity"
--! vendor = "dialect of the trace: nvidia, amd, mtia, cpu or unknown"
--! device_count = { doc = "devices on which the rank ran anything", unit = "count", metric = "rank" }
--! device_names = "their product names, each once"
--! backend = "communication backend: as the trace says, else by the names of collectives; absent without any"
--! parallelism = "wrappers whose forward was seen: DataParallel, DistributedDataParallel, FullyShardedDataParallel; absent without any"
--! data_parallel_count = { doc = "calls of DataParallel.forward; absent where the host was not recorded", unit = "count", metric = "rank" }
--! collective_count = { doc = "collectives on the host: nccl:, gloo:, mpi: and so on", unit = "count", metric = "rank" }
--! gpu_collective_count = { doc = "of them, those of libraries that run on devices (nccl, rccl, hccl, xccl), and communicating kernels", unit = "count", metric = "rank" }
--! slow_collective_count = { doc = "of them, those that run on the host: gloo: and mpi:; absent where the host was not recorded", unit = "count", metric = "rank" }
--! step_count = { doc = "steps the profiler marked: prof.step() was called", unit = "count", metric = "rank" }
--! has_host = "operators were recorded (ProfilerActivity.CPU)"
--! has_device = "device activity was recorded (ProfilerActivity.CUDA, XPU, MTIA)"
--! has_shapes = "operators carry input shapes (record_shapes=True)"
--! has_stacks = "Python frames or call stacks are present (with_stack=True)"
--! has_modules = "nn.Module frames or hierarchy are present (with_stack=True or with_modules=True)"
--! has_memory = "allocator events are present (profile_memory=True)"
--! missing = "data that was not recorded, with the profiler's option that records it"
--! missing_count = { doc = "number of these, including what collectives and devices lack", unit = "count", metric = "rank" }
--! has_collective_metadata = "collectives say their group and size; absent where there are none"
--! has_device_properties = "the trace describes its devices"
WITH device_lists AS (
    SELECT
        rank, count(*) AS device_count,
        nullif(string_agg(DISTINCT CAST(name AS VARCHAR), ', '), '') AS device_names
    FROM device_properties
    GROUP BY rank
),
ranges AS (
    SELECT rank, name, count(*) AS n FROM cpu_ops WHERE name LIKE '%:%' OR name LIKE '%.forward' GROUP BY rank, name
    UNION ALL
    SELECT rank, name, count(*) FROM annotations WHERE NOT on_device AND (name LIKE '%:%' OR name LIKE '%.forward') GROUP BY rank, name
),
named AS (
    SELECT
        rank,
        sum_if!(n, name = 'DataParallel.forward') AS data_parallel_count,
        sum_if!(n, name = 'DistributedDataParallel.forward') AS ddp_count,
        sum_if!(n, name LIKE 'FullyShardedDataParallel.forward%' OR name LIKE 'FSDP::%') AS fsdp_count,
        sum_if!(n, is_collective_range!(name) AND name NOT LIKE 'gloo:%' AND name NOT LIKE 'mpi:%' AND name NOT LIKE 'ucc:%') AS gpu_count,
        sum_if!(n, name LIKE 'gloo:%' OR name LIKE 'mpi:%') AS slow_count,
        sum_if!(n, name LIKE 'ucc:%') AS ucc_count,
        string_agg(DISTINCT CASE WHEN is_collective_range!(name) THEN split_part(CAST(name AS VARCHAR), ':', 1) END, ', ')
            AS libraries
    FROM ranges
    GROUP BY rank
),
communicating AS (
    SELECT rank, count(*) AS n FROM kernels WHERE kind = 'communication' GROUP BY rank
),
ranks_with_host AS (
    SELECT rank, sum(event_count) AS n FROM event_counts WHERE stored_in = 'cpu_ops' GROUP BY rank
),
described AS (
    SELECT DISTINCT rank FROM devices
),
grouped AS (
    SELECT rank, bool_or(group_size IS NOT NULL) AS has_metadata FROM collectives GROUP BY rank
),
configurations AS (
SELECT
    r.rank, r.file, r.host,
    count(*) OVER () AS rank_count,
    CAST(r.world_size AS BIGINT) AS world_size,
    CASE WHEN d.rank IS NULL THEN 'CPU' ELSE 'GPU' END AS device_type,
    r.vendor,
    coalesce(d.device_count, 0) AS device_count,
    d.device_names,
    coalesce(nullif(CAST(r.backend AS VARCHAR), ''), nullif(n.libraries, ''),
        CASE WHEN c.n > 0 THEN CASE WHEN r.vendor = 'amd' THEN 'rccl' ELSE 'nccl' END END) AS backend,
    nullif(concat_ws(
        ', ',
        CASE WHEN n.data_parallel_count > 0 THEN 'DataParallel' END,
        CASE WHEN n.ddp_count > 0 THEN 'DistributedDataParallel' END,
        CASE WHEN n.fsdp_count > 0 THEN 'FullyShardedDataParallel' END
    ), '') AS parallelism,
    CASE WHEN h.n > 0 THEN coalesce(n.data_parallel_count, 0) ELSE n.data_parallel_count END AS data_parallel_count,
    coalesce(n.gpu_count + n.slow_count + n.ucc_count, 0) AS collective_count,
    coalesce(n.gpu_count, 0) + coalesce(c.n, 0) AS gpu_collective_count,
    CASE WHEN h.n > 0 THEN coalesce(n.slow_count, 0) ELSE n.slow_count END AS slow_collective_count,
    CAST(r.step_count AS BIGINT) AS step_count,
    coalesce(h.n, 0) > 0 AS has_host,
    d.rank IS NOT NULL AS has_device,
    r.has_shapes, r.has_stacks, r.has_modules, r.has_memory,
    nullif(concat_ws(
        '; ',
        CASE WHEN coalesce(h.n, 0) = 0 THEN 'operators (ProfilerActivity.CPU)' END,
        CASE WHEN d.rank IS NULL THEN 'device activity (ProfilerActivity.CUDA)' END,
        CASE WHEN r.step_count = 0 THEN 'steps (prof.step())' END,
        CASE WHEN NOT r.has_shapes THEN 'input shapes (record_shapes=True)' END,
        CASE WHEN NOT r.has_stacks THEN 'Python stacks (with_stack=True)' END,
        CASE WHEN NOT r.has_modules THEN 'modules (with_modules=True)' END,
        CASE WHEN NOT r.has_memory THEN 'allocations (profile_memory=True)' END
    ), '') AS missing,
    CASE WHEN coalesce(c.n, 0) + coalesce(n.gpu_count + n.slow_count + n.ucc_count, 0) > 0
        THEN coalesce(g.has_metadata, false) END AS has_collective_metadata,
    p.rank IS NOT NULL AS has_device_properties
FROM ranks r
LEFT JOIN device_lists d ON d.rank = r.rank
LEFT JOIN named n ON n.rank = r.rank
LEFT JOIN communicating c ON c.rank = r.rank
LEFT JOIN ranks_with_host h ON h.rank = r.rank
LEFT JOIN described p ON p.rank = r.rank
LEFT JOIN grouped g ON g.rank = r.rank
WHERE r.vendor IS NOT NULL
)
SELECT
    rank, file, host, rank_count, world_size, device_type, vendor, device_count, device_names, backend, parallelism,
    data_parallel_count, collective_count, gpu_collective_count, slow_collective_count, step_count,
    has_host, has_device, has_shapes, has_stacks, has_modules, has_memory,
    nullif(concat_ws(
        '; ', missing,
        CASE WHEN NOT has_collective_metadata THEN 'groups and sizes of collectives (torch 2.4 and later)' END,
        CASE WHEN has_device AND NOT has_device_properties THEN 'properties of its devices' END
    ), '') AS missing,
    CASE WHEN has_host THEN 0 ELSE 1 END + CASE WHEN has_device THEN 0 ELSE 1 END + CASE WHEN step_count = 0 THEN 1 ELSE 0 END
        + CASE WHEN has_shapes THEN 0 ELSE 1 END + CASE WHEN has_stacks THEN 0 ELSE 1 END + CASE WHEN has_modules THEN 0 ELSE 1 END
        + CASE WHEN has_memory THEN 0 ELSE 1 END + CASE WHEN has_collective_metadata = false THEN 1 ELSE 0 END
        + CASE WHEN has_device AND NOT has_device_properties THEN 1 ELSE 0 END AS missing_count,
    has_collective_metadata, has_device_properties
FROM configurations
