--! question = "How was each kernel execution launched: grid, block, registers, occupancy?"
--! row = "one kernel execution, with what its launch says of its shape"
--! window = "recording"
--! needs = ["kernels", "device_properties"]
--! [columns]
--! rank = "rank"
--! event_id = "event"
--! kind = "communication, memory or computation, see kernels"
--! name = "kernel name"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! device = "device ordinal; -1 where the trace does not say"
--! stream = "stream on the device; -1 where the trace does not say"
--! correlation = "id shared with the launching call"
--! launch = "launching call; absent if the trace does not hold it"
--! launch_name = "function that launched it"
--! launch_ts_ns = { doc = "start of the launching call", unit = "ns" }
--! launch_end_ns = { doc = "end of the launching call", unit = "ns" }
--! launch_thread = "lane of the launching call"
--! step = "step of the launching call; by time where it has none"
--! thread = "lane, see threads"
--! op = "operator that launched it"
--! op_name = "name of that operator"
--! grid = "grid in x, y and z: in blocks; in threads where hipExtModuleLaunchKernel launched it"
--! block = "threads of a block in x, y and z"
--! registers = "registers a thread uses"
--! shared_memory_bytes = { doc = "shared memory a block uses", unit = "bytes" }
--! blocks_per_sm = { doc = "blocks over SMs (compute units on AMD) of the device: as the profiler gives it, else from the grid", unit = "number" }
--! occupancy_ratio = { doc = "estimated achieved occupancy, as the profiler gives it", unit = "ratio" }
--! tensor_cores = "by name: yes, no or unknown: whether it multiplies on tensor cores"
-- On AMD, the grid of these two launching functions is in threads, that of all others in blocks.
-- Kineto writes an occupancy of 0 where its model says that not even one block fits (shared memory beyond
-- the default limit, as in most GEMMs since Hopper). The kernel ran, so that is no number; a true 0 % is
-- one of a few warps, rounded.
SELECT
    k.rank, k.event_id, k.kind, k.name, k.ts_ns, k.dur_ns,
    coalesce(k.device, CAST(-1 AS INT)) AS device,
    coalesce(k.stream, CAST(-1 AS INT)) AS stream,
    k.correlation, k.launch, k.launch_name, k.launch_ts_ns,
    k.launch_ts_ns + k.launch_dur_ns AS launch_end_ns,
    k.launch_thread, k.step, k.thread, k.op, k.op_name, k.grid, k.block, k.registers, k.shared_memory_bytes,
    coalesce(
        k.blocks_per_sm,
        CAST(k.blocks AS DOUBLE)
            / CASE
                WHEN k.launch_name IN ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel') THEN nullif(k.block_threads, 0)
                ELSE 1
            END
            / nullif(d.sm_count, 0)
    ) AS blocks_per_sm,
    CASE
        WHEN k.occupancy_ratio = 0 AND k.warps_per_sm >= 0.01 * d.warp_slots THEN NULL
        ELSE k.occupancy_ratio
    END AS occupancy_ratio,
    k.tensor_cores
FROM kernels k
LEFT JOIN device_properties d ON d.rank = k.rank AND d.device = coalesce(k.device, CAST(-1 AS INT))
