--! question = "How many kernels run at each moment of a device?"
--! row = "one interval of one device in which the same activities run and the step is the same"
--! window = "recording"
--! needs = ["device_work", "device_steps"]
--! order = ["rank", "device", "ts_ns"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "duration, never 0", unit = "ns" }
--! step = "complete step the stretch lies in"
--! kernel_count = { doc = "kernels that run", unit = "count" }
--! communication_count = { doc = "of these, kernels that communicate", unit = "count" }
--! activity_count = { doc = "kernels, copies and fills that run", unit = "count" }
--! blocks_per_sm = { doc = "blocks over SMs, added up over the kernels that run", unit = "number" }
-- The whole recording, unlike device_activities: as in TensorBoard's plugin, its windows come from
-- the complete steps. Steps do not overlap, so that a running sum of step numbers is the step. Blocks are
-- floats: what happens at one moment is added in one order.
WITH work AS (
    SELECT
        rank, device, ts_ns, end_ns,
        CASE WHEN category = 'kernel' THEN 1 ELSE 0 END AS kernels,
        CASE WHEN kind = 'communication' THEN 1 ELSE 0 END AS communications,
        CASE WHEN blocks_per_sm > 0 THEN blocks_per_sm ELSE 0 END AS blocks_per_sm
    FROM device_work
),
marks AS (
    SELECT d.rank, d.device, s.ts_ns, s.end_ns, s.step + 1 AS step
    FROM (SELECT DISTINCT rank, device FROM device_work) d
    JOIN device_steps s ON s.rank = d.rank
),
boundaries AS (
    SELECT rank, device, ts_ns, kernels, communications, 1 AS activities, blocks_per_sm, 0 AS step FROM work
    UNION ALL
    SELECT rank, device, end_ns, -kernels, -communications, -1, -blocks_per_sm, 0 FROM work
    UNION ALL
    SELECT rank, device, ts_ns, 0, 0, 0, 0, step FROM marks
    UNION ALL
    SELECT rank, device, end_ns, 0, 0, 0, 0, -step FROM marks
),
running AS (
    SELECT
        rank, device, ts_ns,
        lead(ts_ns) OVER w - ts_ns AS dur_ns,
        sum(step) OVER w - 1 AS step,
        sum(kernels) OVER w AS kernel_count,
        sum(communications) OVER w AS communication_count,
        sum(activities) OVER w AS activity_count,
        sum(blocks_per_sm) OVER w AS blocks_per_sm
    FROM boundaries
    WINDOW w AS running!(PARTITION BY rank, device ORDER BY ts_ns, activities, kernels, blocks_per_sm)
)
SELECT
    rank, device, ts_ns, dur_ns,
    CASE WHEN step >= 0 THEN step END AS step,
    kernel_count, communication_count, activity_count, blocks_per_sm
FROM running
WHERE dur_ns > 0
