--! question = "Which GPUs did the run use, and what are their properties?"
--! row = "one device that a rank used, with its properties in the trace"
--! window = "not_timed"
--! needs = ["kernels", "memcpys", "memsets", "devices", "ranks"]
--! order = ["rank", "device"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal; -1 where the trace does not say"
--! name = "product name"
--! vendor = "nvidia, amd, mtia or unknown"
--! total_memory_bytes = { doc = "memory on the device", unit = "bytes" }
--! compute_major = "major compute capability (gfx generation on AMD)"
--! compute_minor = "minor compute capability"
--! sm_count = { doc = "streaming multiprocessors (compute units on AMD)", unit = "count" }
--! warp_slots = { doc = "warps (wavefronts on AMD) that an SM can hold", unit = "number" }
--! has_tensor_cores = "NVIDIA from compute capability 7.0 on, except chips of 7.5 without them (GTX 16, MX, T400 to T1200); AMD Instinct from MI100 and gfx11 on; absent where the trace does not say"
--! has_tf32 = "tensor cores take 32-bit floats, rounded to TF32: NVIDIA from 8.0 on"
--! has_bf16 = "multiplies bfloat16 in hardware: NVIDIA from 8.0 on, AMD as has_tensor_cores; absent where the trace does not say"
--! family = "generation of NVIDIA GPUs (Pascal, Volta, Turing, Ampere, Ada, Hopper, Blackwell), by compute capability; of others the vendor: AMD, MTIA; absent where the trace does not say"
--! has_fp64 = "tensor cores take 64-bit floats: NVIDIA 8.0, 9.0 and 10.0, and the matrix cores of AMD Instinct from MI200 on; absent where the trace does not say"
-- Tracers count the devices of the machine, properties often those that the process sees: where all that are
-- described are alike, that is what each is.
WITH used AS (
    SELECT rank, coalesce(device, CAST(-1 AS INT)) AS device FROM kernels
    UNION
    SELECT rank, coalesce(device, CAST(-1 AS INT)) FROM memcpys
    UNION
    SELECT rank, coalesce(device, CAST(-1 AS INT)) FROM memsets
),
shared_properties AS (
    SELECT
        rank, min(name) AS name, min(total_memory_bytes) AS total_memory_bytes,
        min(compute_major) AS compute_major, min(compute_minor) AS compute_minor, min(sm_count) AS sm_count,
        min(warp_size) AS warp_size, min(max_threads_per_sm) AS max_threads_per_sm
    FROM devices
    GROUP BY rank
    HAVING min(name) = max(name) AND min(total_memory_bytes) = max(total_memory_bytes)
        AND min(sm_count) = max(sm_count)
),
described AS (
    SELECT
        u.rank, u.device, r.vendor,
        coalesce(d.name, a.name) AS name,
        coalesce(d.total_memory_bytes, a.total_memory_bytes) AS total_memory_bytes,
        coalesce(d.compute_major, a.compute_major) AS compute_major,
        coalesce(d.compute_minor, a.compute_minor) AS compute_minor,
        coalesce(d.sm_count, a.sm_count) AS sm_count,
        CAST(coalesce(d.max_threads_per_sm, a.max_threads_per_sm) AS DOUBLE)
            / nullif(coalesce(d.warp_size, a.warp_size), 0) AS warp_slots
    FROM used u
    JOIN ranks r ON r.rank = u.rank
    LEFT JOIN devices d ON d.rank = u.rank AND d.device = u.device
    LEFT JOIN shared_properties a ON a.rank = u.rank
),
-- Cards of compute capability 7.5 in the GTX 16 series, their mobile versions and small workstation cards have no tensor
-- cores.
with_tensor_cores AS (
    SELECT
        *,
        CASE
            WHEN vendor = 'nvidia' AND compute_major = 7 AND compute_minor = 5 AND coalesce(name, '') = '' THEN NULL
            WHEN vendor = 'nvidia' THEN compute_major >= 7
                AND NOT regexp_like(coalesce(CAST(name AS VARCHAR), ''), 'GTX 16|\bMX[0-9]|\bT(4|5|6|10|12)00\b')
            WHEN vendor = 'amd' AND name LIKE '%Instinct MI%' THEN name NOT LIKE '%MI25%' AND name NOT LIKE '%MI50%' AND name NOT LIKE '%MI60%'
            WHEN vendor = 'amd' AND (compute_major >= 11 OR (compute_major = 9 AND compute_minor >= 4)) THEN true
            WHEN vendor = 'amd' AND compute_major <> 9 THEN false
        END AS has_tensor_cores
    FROM described
)
SELECT
    rank, device, CASE WHEN name <> '' THEN name END AS name, vendor, total_memory_bytes,
    compute_major, compute_minor, sm_count, warp_slots, has_tensor_cores,
    CASE WHEN vendor = 'nvidia' THEN compute_major >= 8 WHEN vendor = 'amd' THEN false END AS has_tf32,
    CASE WHEN vendor = 'nvidia' THEN compute_major >= 8 WHEN vendor = 'amd' THEN has_tensor_cores END AS has_bf16,
    CASE
        WHEN vendor = 'nvidia' AND compute_major = 6 THEN 'Pascal'
        WHEN vendor = 'nvidia' AND compute_major = 7 AND compute_minor < 5 THEN 'Volta'
        WHEN vendor = 'nvidia' AND compute_major = 7 THEN 'Turing'
        WHEN vendor = 'nvidia' AND compute_major = 8 AND compute_minor < 9 THEN 'Ampere'
        WHEN vendor = 'nvidia' AND compute_major = 8 THEN 'Ada'
        WHEN vendor = 'nvidia' AND compute_major = 9 THEN 'Hopper'
        WHEN vendor = 'nvidia' AND compute_major IN (10, 11, 12) THEN 'Blackwell'
        WHEN vendor IN ('amd', 'mtia') THEN upper(vendor)
    END AS family,
    CASE
        WHEN vendor = 'nvidia' THEN compute_major >= 8 AND compute_minor = 0 AND compute_major <= 10
        WHEN vendor = 'amd' AND name LIKE '%Instinct MI%' THEN name LIKE '%MI2%' OR name LIKE '%MI3%'
        WHEN vendor = 'amd' AND compute_major = 9 AND compute_minor >= 4 THEN true
    END AS has_fp64
FROM with_tensor_cores
