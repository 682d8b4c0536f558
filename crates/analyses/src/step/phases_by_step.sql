--! question = "How long is each phase of each step?"
--! row = "one complete step of one rank"
--! window = "counted_steps"
--! needs = ["device_steps", "host_phases", "device_work", "trainer_steps"]
--! order = ["rank", "step"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: profiler_step, composer, determined, engine, optimizer or trace"
--! step_ns = { doc = "length of the step on the host; of a trainer's step what its marks cover, see trainer_steps.step_ns", unit = "ns", metric = "step" }
--! device_step_ns = { doc = "length of the step with the device work that it launched, see device_steps; absent in a trainer's step", unit = "ns", metric = "step" }
--! dataloader_ns = { doc = "on the host, inside __next__ of a DataLoader or DataPipe, on any thread; where there is none, in a trainer's mark of loading", unit = "ns", metric = "step" }
--! forward_ns = { doc = "on the host, from there to the first call of the autograd engine, or as the trainer marks it; absent in a step without backward", unit = "ns", metric = "step" }
--! backward_ns = { doc = "on the host, from the first call of the autograd engine to the last, or as the trainer marks it; absent in a step without backward", unit = "ns", metric = "step" }
--! optimizer_ns = { doc = "on the host, inside Optimizer.step, less the model's work that it calls; absent in a trainer's step, of which torch recorded nothing", unit = "ns", metric = "step" }
--! other_ns = { doc = "the rest of the step on the host", unit = "ns", metric = "step" }
--! dataloader_ratio = { doc = "share of the step that the host spends loading: over step_ns or device_step_ns, whichever is longer, like all shares", unit = "ratio", metric = "step" }
--! forward_ratio = { doc = "share of the step that the host spends in forward; device work that it only launches there is not in it, as in all shares", unit = "ratio", metric = "step" }
--! backward_ratio = { doc = "share of the step that the host spends in backward", unit = "ratio", metric = "step" }
--! optimizer_ratio = { doc = "share of the step that the host spends in the optimizer", unit = "ratio", metric = "step" }
--! other_ratio = { doc = "share of the step that the host spends in none of these", unit = "ratio", metric = "step" }
--! dataloader_idle_ns = { doc = "part of the loading time in which no device of the rank runs anything; all of it if the trace has no device activity", unit = "ns", metric = "step" }
--! dataloader_idle_ratio = { doc = "share of the step in which loading keeps all devices waiting", unit = "ratio", metric = "step" }
WITH phases AS (
    SELECT
        rank, step,
        sum_if!(dur_ns, phase = 'dataloader') AS dataloader_ns,
        sum(CASE WHEN phase = 'forward' THEN dur_ns END) AS forward_ns,
        sum(CASE WHEN phase = 'backward' THEN dur_ns END) AS backward_ns,
        sum(CASE WHEN phase = 'optimizer' THEN dur_ns END) AS optimizer_ns,
        sum_if!(dur_ns, phase = 'other') AS other_ns,
        sum(dur_ns) AS dur_ns
    FROM host_phases
    GROUP BY rank, step
),
loads AS (
    SELECT rank, step, ts_ns, ts_ns + dur_ns AS end_ns FROM host_phases WHERE phase = 'dataloader'
),
-- Busy time up to the start and up to the end of each loading interval, by the running
-- maximum of ends: what has started by now adds up to `run_ns`, less what still lies ahead.
boundaries AS (
    SELECT rank, ts_ns, end_ns, CAST(NULL AS BIGINT) AS step, 0 AS sign
    FROM device_work
    WHERE rank IN (SELECT DISTINCT rank FROM loads)
    UNION ALL
    SELECT rank, ts_ns AS at_ns, NULL, step, -1 FROM loads
    UNION ALL
    SELECT rank, end_ns AS at_ns, NULL, step, 1 FROM loads
),
runs AS (
    SELECT
        rank, ts_ns, end_ns, step, sign,
        max_before!(end_ns, PARTITION BY rank ORDER BY ts_ns) AS busy_until_ns
    FROM boundaries
),
totals AS (
    SELECT
        rank, ts_ns, step, sign, busy_until_ns,
        running_sum!(greatest(end_ns - greatest(ts_ns, coalesce(busy_until_ns, ts_ns)), 0), PARTITION BY rank ORDER BY ts_ns) AS run_ns
    FROM runs
),
overlaps AS (
    SELECT
        rank, step,
        sum(sign * (coalesce(run_ns, 0) - greatest(coalesce(busy_until_ns, ts_ns) - ts_ns, 0))) AS busy_ns
    FROM totals
    WHERE sign <> 0
    GROUP BY rank, step
),
-- A step without backward has no forward either: where it ends is not known. A trainer's marks say when
-- there is an optimizer only where torch recorded too. Determined's times are rounded, its durations are not.
steps AS (
    SELECT
        s.rank, s.step, s.source,
        CASE
            WHEN t.step_ns IS NOT NULL THEN t.step_ns
            WHEN s.source = 'composer' AND p.dur_ns IS NOT NULL THEN p.dur_ns
            ELSE s.host_end_ns - s.host_ts_ns
        END AS step_ns,
        CASE WHEN s.source NOT IN ('composer', 'determined') THEN s.dur_ns END AS device_step_ns,
        coalesce(t.loader_ns, p.dataloader_ns, 0) AS dataloader_ns,
        CASE WHEN p.backward_ns IS NOT NULL THEN coalesce(t.forward_ns, p.forward_ns, 0) END AS forward_ns,
        coalesce(t.backward_ns, p.backward_ns) AS backward_ns,
        CASE WHEN s.source IN ('composer', 'determined') THEN p.optimizer_ns ELSE coalesce(p.optimizer_ns, 0) END AS optimizer_ns,
        CASE
            WHEN t.step_ns IS NOT NULL
                THEN t.step_ns - t.loader_ns - coalesce(t.forward_ns, 0) - coalesce(t.backward_ns, 0) - coalesce(p.optimizer_ns, 0)
            ELSE coalesce(p.other_ns, 0)
        END AS other_ns,
        coalesce(t.loader_ns, p.dataloader_ns, 0) - coalesce(o.busy_ns, 0) AS dataloader_idle_ns
    FROM device_steps s
    LEFT JOIN phases p ON p.rank = s.rank AND p.step = s.step
    LEFT JOIN overlaps o ON o.rank = s.rank AND o.step = s.step
    LEFT JOIN trainer_steps t
        ON t.rank = s.rank AND t.ts_ns = s.host_ts_ns
        AND t.source = 'determined' AND s.source = 'determined'
)
SELECT
    rank, step, source, step_ns, device_step_ns,
    dataloader_ns, forward_ns, backward_ns, optimizer_ns, other_ns,
    ratio!(dataloader_ns, whole_ns) AS dataloader_ratio,
    ratio!(forward_ns, whole_ns) AS forward_ratio,
    ratio!(backward_ns, whole_ns) AS backward_ratio,
    ratio!(optimizer_ns, whole_ns) AS optimizer_ratio,
    ratio!(other_ns, whole_ns) AS other_ratio,
    dataloader_idle_ns,
    ratio!(dataloader_idle_ns, whole_ns) AS dataloader_idle_ratio
-- A host that does not wait for the device marks steps that end before their work. Shares are over the longer of the two
-- lengths.
FROM (SELECT *, greatest(step_ns, coalesce(device_step_ns, step_ns)) AS whole_ns FROM steps)
