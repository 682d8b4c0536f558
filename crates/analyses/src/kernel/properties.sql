--! question = "With which grid, block and registers do the longest kernels run?"
--! row = "one kernel as launched by one operator with one grid, block, number of registers and size of shared memory, on one rank"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["kernel_runs", "matmul_calls", "device_properties", "ranks"]
--! order = ["rank", "name", "op_name", "grid", "block", "registers", "shared_memory_bytes"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! name = "kernel name"
--! kind = "computation, communication or memory"
--! op_name = "operator that launched it: the innermost one around the launch; absent where the trace does not say"
--! grid = "grid in x, y and z: in blocks; in threads where hipExtModuleLaunchKernel launched it"
--! block = "threads of a block in x, y and z"
--! registers = { doc = "registers a thread uses", unit = "number" }
--! shared_memory_bytes = { doc = "shared memory a block uses", unit = "bytes" }
--! tensor_cores = "by name: yes, no or unknown: whether it multiplies on tensor cores"
--! op_eligible = "yes, no or unknown: whether the operator multiplies what the device can multiply on tensor cores, as it is or cast to 16 bit; unknown without an operator, and for operators of other libraries and compiled regions"
--! call_count = { doc = "executions", unit = "count" }
--! sum_ns = { doc = "time of all executions, overlap not merged", unit = "ns" }
--! mean_ns = { doc = "mean duration", unit = "ns" }
--! max_ns = { doc = "longest", unit = "ns" }
--! min_ns = { doc = "shortest", unit = "ns" }
--! mean_blocks_per_sm = { doc = "blocks over SMs, weighted by duration, over executions that have it", unit = "number" }
--! mean_occupancy_ratio = { doc = "estimated achieved occupancy, weighted by duration, over executions that have it", unit = "ratio" }
WITH runs AS (
    SELECT
        k.rank, k.name, k.kind, k.op_name, k.grid, k.block, k.registers, k.shared_memory_bytes, k.tensor_cores,
        CASE
            WHEN NOT d.has_tensor_cores THEN 'no'
            WHEN p.op IS NULL THEN
                CASE WHEN k.op_name LIKE 'aten::%' OR k.op_name LIKE '%Backward_' THEN 'no' ELSE 'unknown' END
            WHEN p.input_type = 'integer' OR (p.input_type = 'fp64' AND NOT coalesce(d.has_fp64, false)) THEN 'no'
            ELSE 'yes'
        END AS op_eligible,
        k.dur_ns, k.blocks_per_sm, k.occupancy_ratio
    FROM kernel_runs k
    JOIN ranks r ON r.rank = k.rank
    LEFT JOIN device_properties d ON d.rank = k.rank AND d.device = k.device
    LEFT JOIN matmul_calls p ON p.rank = k.rank AND p.op = k.op
    WHERE r.cut_ns IS NULL
        OR k.launch_ts_ns < r.cut_ns
        OR ($include_last_step AND k.launch_ts_ns <= r.steps_end_ns)
)
SELECT
    rank, name, kind, op_name, grid, block, CAST(registers AS BIGINT) AS registers, shared_memory_bytes,
    tensor_cores, op_eligible,
    count(*) AS call_count,
    sum(dur_ns) AS sum_ns,
    avg(CAST(dur_ns AS DOUBLE)) AS mean_ns,
    max(dur_ns) AS max_ns,
    min(dur_ns) AS min_ns,
    weighted_mean!(blocks_per_sm, dur_ns) AS mean_blocks_per_sm,
    weighted_mean!(occupancy_ratio, dur_ns) AS mean_occupancy_ratio
FROM runs
GROUP BY rank, name, kind, op_name, grid, block, registers, shared_memory_bytes, tensor_cores, op_eligible
