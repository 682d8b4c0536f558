--! question = "How busy was each GPU by its sampled utilization?"
--! row = "one GPU of one machine: sampled utilization and memory"
--! window = "samples"
--! needs = ["system_metrics"]
--! order = ["rank", "agent", "device"]
--! requires = ["machine_metrics"]
--! when_empty = "no GPU was sampled: Determined's profiling does (on machines with NVML), and Composer's SystemProfiler of the memory (sys_prof_memory)"
--! [columns]
--! rank = "rank whose agent sampled it"
--! agent = "machine, as Determined calls it"
--! device = "GPU by UUID; absent where Composer sampled the rank's own"
--! sample_count = { doc = "samples of its utilization", unit = "count", metric = "agent" }
--! gpu_util_ratio = { doc = "mean utilization: share of time in which any kernel ran", unit = "ratio", metric = "agent" }
--! idle_ratio = { doc = "the rest of the time", unit = "ratio", metric = "agent" }
--! p95_util_ratio = { doc = "95 % of the samples are lower", unit = "ratio", metric = "agent" }
--! machine_util_ratio = { doc = "mean over the GPUs of the machine", unit = "ratio", metric = "agent" }
--! max_util_ratio = { doc = "mean of the busiest GPU of the machine", unit = "ratio", metric = "agent" }
--! below_busiest_ratio = { doc = "shortfall of utilization from the busiest GPU of the machine, relative to that one; absent where it is the only one", unit = "ratio", metric = "agent" }
--! gpu_count = { doc = "GPUs of the machine whose utilization was sampled", unit = "count", metric = "agent" }
--! most_free_memory_bytes = { doc = "most memory that was free", unit = "bytes", metric = "agent" }
--! least_free_memory_bytes = { doc = "least memory that was free: what a larger batch may take", unit = "bytes", metric = "agent" }
--! memory_swing_bytes = { doc = "difference of the two: what the job takes and gives back", unit = "bytes", metric = "agent" }
--! peak_reserved_bytes = { doc = "most that the process had reserved, where Composer sampled it", unit = "bytes", metric = "agent" }
--! peak_allocated_bytes = { doc = "most that it had allocated", unit = "bytes", metric = "agent" }
--! alloc_retry_count = { doc = "allocations that had to be retried, with all caches given back", unit = "count", metric = "agent" }
WITH gpus AS (
    SELECT
        rank, agent, device,
        count_if!(metric = 'gpu_util') AS sample_count,
        avg(CASE WHEN metric = 'gpu_util' THEN value END) / 100 AS gpu_util_ratio,
        percentile_cont(CASE WHEN metric = 'gpu_util' THEN value END, 0.95) / 100 AS p95_util_ratio,
        max(CASE WHEN metric = 'gpu_memory_free' THEN value END) AS most_free,
        min(CASE WHEN metric = 'gpu_memory_free' THEN value END) AS least_free,
        max(CASE WHEN metric IN ('gpu_memory_peak_reserved', 'gpu_memory_current_reserved') THEN value END) AS reserved,
        max(CASE WHEN metric IN ('gpu_memory_peak_allocated', 'gpu_memory_current_allocated') THEN value END) AS allocated,
        max(CASE WHEN metric = 'gpu_alloc_retries' THEN recorded_value END) AS retries
    FROM system_metrics
    WHERE metric LIKE 'gpu\_%' AND NOT is_flawed AND recorded_value IS NOT NULL
    GROUP BY rank, agent, device
),
machines AS (
    SELECT
        *,
        avg(gpu_util_ratio) OVER w AS machine_util_ratio,
        max(gpu_util_ratio) OVER w AS max_util_ratio,
        count(gpu_util_ratio) OVER w AS gpu_count
    FROM gpus
    WINDOW w AS (PARTITION BY rank, agent)
)
SELECT
    rank, agent, device, sample_count, gpu_util_ratio, 1 - gpu_util_ratio AS idle_ratio, p95_util_ratio,
    machine_util_ratio, max_util_ratio,
    CASE WHEN gpu_count > 1 THEN (max_util_ratio - gpu_util_ratio) / nullif(max_util_ratio, 0) END AS below_busiest_ratio,
    gpu_count,
    TRY_CAST(round(most_free) AS BIGINT) AS most_free_memory_bytes,
    TRY_CAST(round(least_free) AS BIGINT) AS least_free_memory_bytes,
    TRY_CAST(round(most_free - least_free) AS BIGINT) AS memory_swing_bytes,
    TRY_CAST(round(reserved) AS BIGINT) AS peak_reserved_bytes,
    TRY_CAST(round(allocated) AS BIGINT) AS peak_allocated_bytes,
    TRY_CAST(round(retries) AS BIGINT) AS alloc_retry_count
FROM machines
