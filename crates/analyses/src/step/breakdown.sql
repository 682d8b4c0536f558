--! question = "What is a mean step made of: kernels, copies, communication, loading, CPU?"
--! row = "one rank: breakdown of its mean step"
--! window = "counted_steps"
--! needs = ["step_breakdown_by_step"]
--! order = ["rank"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "steps that count, see step_time.is_counted; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! step_ns = { doc = "mean length of a step, until host and device are done with it: the sum of the parts below, each of which counts only where none before it goes on", unit = "ns", metric = "rank" }
--! kernel_ns = { doc = "a kernel that computes runs, on any device, a step", unit = "ns", metric = "rank" }
--! memcpy_ns = { doc = "a copy runs, a step", unit = "ns", metric = "rank" }
--! memset_ns = { doc = "a fill runs, a step", unit = "ns", metric = "rank" }
--! communication_ns = { doc = "a kernel that communicates runs, or the host is in a collective, a step", unit = "ns", metric = "rank" }
--! runtime_ns = { doc = "a call into the device runtime or driver, on any thread, a step", unit = "ns", metric = "rank" }
--! dataloader_ns = { doc = "inside __next__ of a DataLoader or DataPipe, on any thread, a step; where there is none, in a trainer's mark of loading", unit = "ns", metric = "rank" }
--! cpu_exec_ns = { doc = "an operator or annotation other than step marks, on any thread, a step", unit = "ns", metric = "rank" }
--! other_ns = { doc = "none of these, a step: Python between operators, or waiting", unit = "ns", metric = "rank" }
--! kernel_ratio = { doc = "kernel_ns over step_ns", unit = "ratio", metric = "rank" }
--! memcpy_ratio = { doc = "memcpy_ns over step_ns", unit = "ratio", metric = "rank" }
--! memset_ratio = { doc = "memset_ns over step_ns", unit = "ratio", metric = "rank" }
--! communication_ratio = { doc = "communication_ns over step_ns: what no computing kernel, copy or fill hides", unit = "ratio", metric = "rank" }
--! runtime_ratio = { doc = "runtime_ns over step_ns", unit = "ratio", metric = "rank" }
--! dataloader_ratio = { doc = "dataloader_ns over step_ns", unit = "ratio", metric = "rank" }
--! cpu_exec_ratio = { doc = "cpu_exec_ns over step_ns", unit = "ratio", metric = "rank" }
--! other_ratio = { doc = "other_ns over step_ns", unit = "ratio", metric = "rank" }
WITH means AS (
    SELECT
        rank,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        avg(CAST(step_ns AS DOUBLE)) AS step_ns,
        avg(CAST(kernel_ns AS DOUBLE)) AS kernel_ns,
        avg(CAST(memcpy_ns AS DOUBLE)) AS memcpy_ns,
        avg(CAST(memset_ns AS DOUBLE)) AS memset_ns,
        avg(CAST(communication_ns AS DOUBLE)) AS communication_ns,
        avg(CAST(runtime_ns AS DOUBLE)) AS runtime_ns,
        avg(CAST(dataloader_ns AS DOUBLE)) AS dataloader_ns,
        avg(CAST(cpu_exec_ns AS DOUBLE)) AS cpu_exec_ns,
        avg(CAST(other_ns AS DOUBLE)) AS other_ns
    FROM step_breakdown_by_step
    WHERE is_counted
    GROUP BY rank
)
SELECT
    *,
    kernel_ns / nullif(step_ns, 0) AS kernel_ratio,
    memcpy_ns / nullif(step_ns, 0) AS memcpy_ratio,
    memset_ns / nullif(step_ns, 0) AS memset_ratio,
    communication_ns / nullif(step_ns, 0) AS communication_ratio,
    runtime_ns / nullif(step_ns, 0) AS runtime_ratio,
    dataloader_ns / nullif(step_ns, 0) AS dataloader_ratio,
    cpu_exec_ns / nullif(step_ns, 0) AS cpu_exec_ratio,
    other_ns / nullif(step_ns, 0) AS other_ratio
FROM means
