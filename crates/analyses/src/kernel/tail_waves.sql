--! question = "Which kernels waste SMs in their last wave of blocks?"
--! row = "one kernel with one grid that needs more than one wave of blocks on one device"
--! window = "counted_steps"
--! sort = ["kernel_ns"]
--! needs = ["kernel_runs", "device_windows", "device_properties"]
--! order = ["rank", "device", "kernel_ns", "name", "grid"]
--! requires = ["device_activity", "kernel_occupancy"]
--! when_empty = "the trace does not say what kernels need of a multiprocessor (registers, threads, shared memory), as on AMD, or every kernel fits in one wave"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "the kernel with its grid: what a row is about"
--! kernel_name = "kernel"
--! grid = "grid in x, y and z"
--! block = "threads of a block in x, y and z"
--! call_count = { doc = "executions", unit = "count", metric = "kernel" }
--! kernel_ns = { doc = "its time", unit = "ns", metric = "kernel" }
--! window_ratio = { doc = "that over the analyzed window", unit = "ratio", metric = "kernel" }
--! block_count = { doc = "blocks", unit = "count", metric = "kernel" }
--! resident_count = { doc = "blocks that a multiprocessor can hold at once, by threads, registers and shared memory", unit = "count", metric = "kernel" }
--! waves = { doc = "blocks over what the device can hold at once", metric = "kernel" }
--! tail_efficiency_ratio = { doc = "waves over waves rounded up: what would be left of the device's time if all blocks took equally long", unit = "ratio", metric = "kernel" }
--! tail_ratio = { doc = "kernel_ns times the rest, over the analyzed window", unit = "ratio", metric = "kernel" }
-- NVIDIA's limits of a multiprocessor by compute capability: 65,536 registers in units of 256 a warp, blocks, shared
-- memory of which each block reserves 1 KiB from 8.0 on (CUDA C++ Programming Guide, technical specifications).
WITH limits AS (
    SELECT
        rank, device, sm_count, warp_slots,
        CASE
            WHEN compute_major = 7 AND compute_minor = 5 THEN 16
            WHEN compute_major = 8 AND compute_minor IN (6, 7) THEN 16
            WHEN compute_major = 8 AND compute_minor = 9 THEN 24
            WHEN compute_major >= 12 THEN 24
            ELSE 32
        END AS max_blocks,
        1024 * CASE
            WHEN compute_major = 7 AND compute_minor = 5 THEN 64
            WHEN compute_major = 7 THEN 96
            WHEN compute_major = 8 AND compute_minor = 0 THEN 164
            WHEN compute_major = 8 AND compute_minor = 7 THEN 164
            WHEN compute_major = 8 THEN 100
            WHEN compute_major IN (9, 10) THEN 228
            ELSE 100
        END AS shared_bytes,
        CASE WHEN compute_major >= 8 THEN 1024 ELSE 0 END AS reserved_bytes
    FROM device_properties
    WHERE vendor = 'nvidia' AND compute_major >= 7 AND sm_count > 0 AND warp_slots > 0
),
groups AS (
    SELECT
        k.rank, k.device, k.name, k.grid, k.block, k.registers, k.shared_memory_bytes,
        CAST(round(max(k.blocks_per_sm * l.sm_count)) AS BIGINT) AS block_count,
        count(*) AS call_count, sum(k.dur_ns) AS kernel_ns,
        min(w.window_ns) AS window_ns, min(l.sm_count) AS sm_count, min(l.warp_slots) AS warp_slots,
        min(l.max_blocks) AS max_blocks, min(l.shared_bytes) AS shared_bytes, min(l.reserved_bytes) AS reserved_bytes
    FROM kernel_runs k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    JOIN limits l ON l.rank = k.rank AND l.device = k.device
    WHERE k.kind = 'computation' AND k.registers > 0 AND k.block IS NOT NULL
        AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
    GROUP BY k.rank, k.device, k.name, k.grid, k.block, k.registers, k.shared_memory_bytes
),
-- Shapes of blocks repeat: evaluate each one once per rank.
blocks AS (
    SELECT
        rank, block,
        ceil(coalesce(CAST(shape[1] AS DOUBLE), 0) * coalesce(CAST(shape[2] AS DOUBLE),
            0) * coalesce(CAST(shape[3] AS DOUBLE), 0) / 32) AS warps
    FROM (
        SELECT rank, block, regexp_match(CAST(block AS VARCHAR), '(\d+)\D+(\d+)\D+(\d+)') AS shape
        FROM (SELECT DISTINCT rank, block FROM groups)
    )
),
threads AS (
    SELECT g.*, b.warps
    FROM groups g
    JOIN blocks b ON b.rank = g.rank AND b.block = g.block
),
resident AS (
    SELECT
        *,
        least(
            max_blocks,
            floor(warp_slots / nullif(warps, 0)),
            floor(65536 / nullif(warps * ceil(registers * 32.0 / 256) * 256, 0)),
            CASE
                WHEN coalesce(shared_memory_bytes, 0) + reserved_bytes = 0 THEN max_blocks
                ELSE floor(shared_bytes / (coalesce(shared_memory_bytes, 0) + reserved_bytes))
            END
        ) AS resident_count
    FROM threads
    WHERE warps > 0
),
waves AS (
    SELECT *, block_count / nullif(sm_count * resident_count, 0) AS waves
    FROM resident
)
SELECT
    rank, device, concat(name, ', grid ', grid) AS name, name AS kernel_name, grid, block, call_count, kernel_ns,
    ratio!(kernel_ns, window_ns) AS window_ratio,
    block_count, CAST(resident_count AS BIGINT) AS resident_count, waves,
    waves / ceil(waves) AS tail_efficiency_ratio,
    ratio!(kernel_ns, window_ns) * (1 - waves / ceil(waves)) AS tail_ratio
FROM waves
WHERE waves > 1
