--! question = "How does a mean step split into loading, forward, backward and optimizer?"
--! row = "one rank: its mean step"
--! window = "counted_steps"
--! scope = "run"
--! needs = ["step_phases_by_step", "host_waits", "ranks", "loader_fetches", "trainer_phases", "system_hosts"]
--! order = ["rank"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "complete steps; 0 where the whole recording stands for one", unit = "count", metric = "rank" }
--! step_ns = { doc = "mean length of a step on the host; of a trainer's steps what its marks cover: loader and batch", unit = "ns", metric = "rank" }
--! device_step_ns = { doc = "mean length of a step with the device work that it launched, see device_steps; absent in a trainer's steps", unit = "ns", metric = "rank" }
--! dataloader_ns = { doc = "on the host, inside __next__ of a DataLoader or DataPipe, a step; where there is none, in a trainer's mark of loading", unit = "ns", metric = "rank" }
--! forward_ns = { doc = "on the host, from there to the first call of the autograd engine, a step, or as the trainer marks it; absent without backward", unit = "ns", metric = "rank" }
--! backward_ns = { doc = "on the host, from the first call of the autograd engine to the last, a step, or as the trainer marks it; absent without backward", unit = "ns", metric = "rank" }
--! optimizer_ns = { doc = "on the host, inside Optimizer.step, less the model's work that it calls, a step; absent where only a trainer's marks are there", unit = "ns", metric = "rank" }
--! other_ns = { doc = "the rest of a step on the host", unit = "ns", metric = "rank" }
--! dataloader_ratio = { doc = "share of step time that the host spends loading: over step_ns or device_step_ns, whichever is longer, like all shares", unit = "ratio", metric = "rank" }
--! forward_ratio = { doc = "share of step time that the host spends in forward; device work that it only launches there is not in it, as in all shares", unit = "ratio", metric = "rank" }
--! backward_ratio = { doc = "share of step time that the host spends in backward", unit = "ratio", metric = "rank" }
--! optimizer_ratio = { doc = "share of step time that the host spends in the optimizer", unit = "ratio", metric = "rank" }
--! other_ratio = { doc = "share of step time that the host spends in none of these", unit = "ratio", metric = "rank" }
--! dataloader_idle_ns = { doc = "part of the loading time, a step, in which no device of the rank runs anything; all of it if the trace has no device activity", unit = "ns", metric = "rank" }
--! dataloader_idle_ratio = { doc = "share of step time in which loading keeps all devices waiting", unit = "ratio", metric = "rank" }
--! has_device = "the trace holds device activity; absent where only a trainer's marks are there: the device was not recorded"
--! dataloader_workers = "single-process or multi-process, from the name of the iterator or from late fetches that recur; absent if nothing is loaded or neither says"
--! fetch_count = { doc = "fetches of a batch, see loader_fetches; so are the columns up to median_wait_ratio", unit = "count" }
--! late_count = { doc = "those that were late", unit = "count" }
--! fetch_period = { doc = "every so many-th fetch is late", unit = "number" }
--! worker_count = { doc = "workers of the loader, from that period", unit = "count" }
--! worker_batch_ns = { doc = "time that one worker needs per batch", unit = "ns" }
--! delivery_ns = { doc = "time between two batches from all workers", unit = "ns" }
--! compute_ns = { doc = "median step without the wait", unit = "ns" }
--! workers_needed_count = { doc = "workers that would keep up", unit = "count" }
--! workers_more_count = { doc = "workers needed beyond the present ones", unit = "count" }
--! workers_if_single_count = { doc = "workers that would keep up, where the loader runs in the process itself", unit = "count" }
--! fetch_median_ns = { doc = "median wait for a batch", unit = "ns" }
--! median_wait_ratio = { doc = "share of the usual step: median wait over median wait and median batch", unit = "ratio" }
--! wait_without_largest_ratio = { doc = "share of waits without the step of the longest", unit = "ratio" }
--! cpu_util_ratio = { doc = "mean utilization of all cores of the machine, see system_hosts; absent if it was not sampled", unit = "ratio" }
WITH loaders AS (
    SELECT
        rank,
        CASE
            WHEN bool_or(name LIKE '%SingleProcess%') THEN 'single-process'
            WHEN bool_or(name LIKE '%MultiProcess%') THEN 'multi-process'
        END AS dataloader_workers
    FROM host_waits
    WHERE cause = 'dataloader'
    GROUP BY rank
),
sums AS (
    SELECT
        rank,
        count(*) AS row_count,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count,
        CAST(sum(step_ns) AS DOUBLE) AS step_ns,
        CAST(sum(device_step_ns) AS DOUBLE) AS device_step_ns,
        CAST(sum(dataloader_ns) AS DOUBLE) AS dataloader_ns,
        CAST(sum(forward_ns) AS DOUBLE) AS forward_ns,
        CAST(sum(backward_ns) AS DOUBLE) AS backward_ns,
        CAST(sum(optimizer_ns) AS DOUBLE) AS optimizer_ns,
        CAST(sum(other_ns) AS DOUBLE) AS other_ns,
        CAST(sum(dataloader_idle_ns) AS DOUBLE) AS dataloader_idle_ns
    FROM step_phases_by_step
    GROUP BY rank
),
-- Of Determined all timings count: those of the first and the last batch too, which are no whole steps.
timings AS (
    SELECT
        rank,
        max(CASE WHEN name = 'train_batch' THEN phase_count END) AS step_count,
        CAST(sum_if!(total_ns, is_part) AS DOUBLE) AS step_ns,
        CAST(sum_if!(total_ns, name = 'dataloader_next') AS DOUBLE) AS dataloader_ns
    FROM trainer_phases
    WHERE source = 'determined'
        AND rank IN (SELECT DISTINCT rank FROM step_phases_by_step WHERE source = 'determined')
    GROUP BY rank
),
totals AS (
    SELECT
        s.rank,
        coalesce(t.step_count, s.step_count) AS step_count,
        CASE WHEN t.step_count > 0 THEN t.step_count ELSE s.row_count END AS row_count,
        CASE WHEN t.step_count > 0 THEN t.step_ns ELSE s.step_ns END AS step_ns,
        CASE WHEN t.step_count > 0 THEN t.dataloader_ns ELSE s.dataloader_ns END AS dataloader_ns,
        -- As in the whole steps, for all of them.
        s.forward_ns * coalesce(CAST(t.step_count AS DOUBLE) / s.row_count, 1) AS forward_ns,
        s.backward_ns * coalesce(CAST(t.step_count AS DOUBLE) / s.row_count, 1) AS backward_ns,
        s.optimizer_ns * coalesce(CAST(t.step_count AS DOUBLE) / s.row_count, 1) AS optimizer_ns,
        s.other_ns, s.device_step_ns, t.step_count AS timed_count,
        CASE WHEN t.step_count > 0 THEN greatest(t.dataloader_ns - s.dataloader_ns + s.dataloader_idle_ns, 0)
            ELSE s.dataloader_idle_ns END AS dataloader_idle_ns
    FROM sums s
    LEFT JOIN timings t ON t.rank = s.rank
),
means AS (
    SELECT
        rank, step_count,
        step_ns / row_count AS step_ns,
        device_step_ns / row_count AS device_step_ns,
        greatest(step_ns, coalesce(device_step_ns, step_ns)) / row_count AS whole_ns,
        dataloader_ns / row_count AS dataloader_ns,
        forward_ns / row_count AS forward_ns,
        backward_ns / row_count AS backward_ns,
        optimizer_ns / row_count AS optimizer_ns,
        CASE
            WHEN timed_count > 0
                THEN greatest(step_ns - dataloader_ns - coalesce(forward_ns, 0) - coalesce(backward_ns, 0) - coalesce(optimizer_ns, 0), 0)
            ELSE other_ns
        END / row_count AS other_ns,
        dataloader_idle_ns / row_count AS dataloader_idle_ns
    FROM totals
)
SELECT
    s.rank, s.step_count, s.step_ns, s.device_step_ns,
    s.dataloader_ns, s.forward_ns, s.backward_ns, s.optimizer_ns, s.other_ns,
    s.dataloader_ns / nullif(s.whole_ns, 0) AS dataloader_ratio,
    s.forward_ns / nullif(s.whole_ns, 0) AS forward_ratio,
    s.backward_ns / nullif(s.whole_ns, 0) AS backward_ratio,
    s.optimizer_ns / nullif(s.whole_ns, 0) AS optimizer_ratio,
    s.other_ns / nullif(s.whole_ns, 0) AS other_ratio,
    s.dataloader_idle_ns,
    s.dataloader_idle_ns / nullif(s.whole_ns, 0) AS dataloader_idle_ratio,
    CASE WHEN r.vendor IS NOT NULL THEN r.vendor <> 'cpu' END AS has_device,
    coalesce(l.dataloader_workers, CASE WHEN f.worker_count > 1 THEN 'multi-process' END) AS dataloader_workers,
    f.fetch_count, f.late_count, f.fetch_period, f.worker_count, f.worker_batch_ns, f.delivery_ns, f.compute_ns,
    f.workers_needed_count, f.workers_more_count,
    CASE WHEN coalesce(l.dataloader_workers, 'single-process') = 'single-process' THEN f.workers_if_single_count END
        AS workers_if_single_count,
    f.wait_median_ns AS fetch_median_ns,
    f.wait_median_ratio AS median_wait_ratio,
    f.wait_without_largest_ratio,
    h.cpu_util_ratio
FROM means s
JOIN ranks r ON r.rank = s.rank
LEFT JOIN loaders l ON l.rank = s.rank
LEFT JOIN loader_fetches f ON f.rank = s.rank
LEFT JOIN (SELECT rank, max(cpu_util_ratio) AS cpu_util_ratio FROM system_hosts GROUP BY rank) h ON h.rank = s.rank
