--! question = "How long does each operator and kernel take in each step (input of `advisor diff`)?"
--! row = "one name at one level in one step of one rank"
--! window = "all_steps"
--! sort = ["dur_ns"]
--! needs = ["diff_host_time", "cpu_ops", "runtime_calls", "annotations", "python_frames", "kernels", "memcpys", "memsets", "device_syncs", "spans"]
--! order = ["rank", "step", "level", "name"]
--! when_empty = "the trace holds no event with a duration"
--! [columns]
--! rank = "rank"
--! step = "step number; absent outside of steps"
--! level = "on the host operator, runtime, annotation, python, module, span, none (nothing was recorded); on the device kernel, copy, fill, sync, device_annotation"
--! name = "name as written"
--! event_count = { doc = "number of events", unit = "count" }
--! dur_ns = { doc = "duration of them, what runs inside included", unit = "ns" }
--! self_ns = { doc = "duration less that of direct children; on the device the duration", unit = "ns" }
--! step_ns = { doc = "part of the step in which it is the innermost thing that the host does, see diff_host_time", unit = "ns" }
--! unlinked_count = { doc = "device activities among them whose launch is not in the trace: they belong to the step only because they run in it", unit = "count" }
--! unlinked_ns = { doc = "duration of those", unit = "ns" }
--! device_ns = { doc = "time on the device of what it launched itself; for ranges: what was launched with no other range of its kind in between", unit = "ns" }
-- Input of `advisor diff`. Includes everything but the profiler's mark of its own recording: the
-- last step counts, and work whose launch is not in the trace belongs to the step it runs in.
WITH launched AS (
    SELECT rank, step, op_name, annotation, module, python_frame, dur_ns FROM kernels
    UNION ALL
    SELECT rank, step, op_name, annotation, module, python_frame, dur_ns FROM memcpys
    UNION ALL
    SELECT rank, step, op_name, annotation, module, python_frame, dur_ns FROM memsets
),
on_device AS (
    SELECT rank, step, 'kernel' AS level, name, launch, dur_ns FROM kernels
    UNION ALL
    SELECT rank, step, 'copy', name, launch, dur_ns FROM memcpys
    UNION ALL
    SELECT rank, step, 'fill', name, launch, dur_ns FROM memsets
    UNION ALL
    SELECT rank, step, 'sync', name, launch, dur_ns FROM device_syncs
),
totals AS (
    SELECT
        rank, step, 'operator' AS level, name,
        count(*) AS event_count, sum(dur_ns) AS dur_ns, sum(self_dur_ns) AS self_ns, 0 AS step_ns, 0 AS unlinked_count,
            0 AS unlinked_ns, 0 AS device_ns
    FROM cpu_ops
    GROUP BY rank, step, name
    UNION ALL
    SELECT rank, step, 'runtime', name, count(*), sum(dur_ns) AS dur_ns, sum(self_dur_ns), 0 AS step_ns,
        0 AS unlinked_count, 0 AS unlinked_ns, 0 AS device_ns
    FROM runtime_calls
    GROUP BY rank, step, name
    UNION ALL
    SELECT
        rank, step, CASE WHEN on_device THEN 'device_annotation' ELSE 'annotation' END, name,
        count(*), sum(dur_ns) AS dur_ns, sum(self_dur_ns), 0 AS step_ns, 0 AS unlinked_count, 0 AS unlinked_ns, 0 AS device_ns
    FROM annotations
    GROUP BY rank, step, on_device, name
    UNION ALL
    SELECT
        rank, step, CASE WHEN name LIKE 'nn.Module: %' THEN 'module' ELSE 'python' END, name,
        count(*), sum(dur_ns) AS dur_ns, sum(self_dur_ns), 0 AS step_ns, 0 AS unlinked_count, 0 AS unlinked_ns, 0 AS device_ns
    FROM python_frames
    GROUP BY rank, step, name
    UNION ALL
    SELECT rank, step, 'span', name, count(*), sum(dur_ns) AS dur_ns, sum(dur_ns) AS self_ns, 0 AS step_ns,
        0 AS unlinked_count, 0 AS unlinked_ns, 0 AS device_ns
    FROM spans
    WHERE category <> 'Trace'
    GROUP BY rank, step, name
    UNION ALL
    SELECT
        rank, step, level, name, count(*), sum(dur_ns) AS dur_ns, sum(dur_ns) AS self_ns, 0 AS step_ns,
        count_if!(launch IS NULL), sum_if!(dur_ns, launch IS NULL), 0 AS device_ns
    FROM on_device
    GROUP BY rank, step, level, name
    UNION ALL
    SELECT rank, step, level, name, 0 AS event_count, 0 AS dur_ns, 0 AS self_ns, dur_ns AS step_ns, 0 AS unlinked_count,
        0 AS unlinked_ns, 0 AS device_ns
    FROM diff_host_time
    UNION ALL
    SELECT rank, step, 'operator', op_name, 0 AS event_count, 0 AS dur_ns, 0 AS self_ns, 0 AS step_ns, 0 AS unlinked_count,
        0 AS unlinked_ns, sum(dur_ns)
    FROM launched
    WHERE op_name IS NOT NULL
    GROUP BY rank, step, op_name
    UNION ALL
    SELECT rank, step, 'annotation', annotation, 0 AS event_count, 0 AS dur_ns, 0 AS self_ns, 0 AS step_ns,
        0 AS unlinked_count, 0 AS unlinked_ns, sum(dur_ns)
    FROM launched
    WHERE annotation IS NOT NULL
    GROUP BY rank, step, annotation
    UNION ALL
    SELECT rank, step, 'module', module, 0 AS event_count, 0 AS dur_ns, 0 AS self_ns, 0 AS step_ns, 0 AS unlinked_count,
        0 AS unlinked_ns, sum(dur_ns)
    FROM launched
    WHERE module IS NOT NULL
    GROUP BY rank, step, module
    UNION ALL
    SELECT rank, step, 'python', python_frame, 0 AS event_count, 0 AS dur_ns, 0 AS self_ns, 0 AS step_ns,
        0 AS unlinked_count, 0 AS unlinked_ns, sum(dur_ns)
    FROM launched
    WHERE python_frame IS NOT NULL AND python_frame NOT LIKE 'nn.Module: %'
    GROUP BY rank, step, python_frame
)
SELECT
    rank, step, level, coalesce(name, '(nothing recorded)') AS name,
    CAST(sum(event_count) AS BIGINT) AS event_count,
    CAST(sum(dur_ns) AS BIGINT) AS dur_ns,
    CAST(sum(self_ns) AS BIGINT) AS self_ns,
    CAST(sum(step_ns) AS BIGINT) AS step_ns,
    CAST(sum(unlinked_count) AS BIGINT) AS unlinked_count,
    CAST(sum(unlinked_ns) AS BIGINT) AS unlinked_ns,
    CAST(sum(device_ns) AS BIGINT) AS device_ns
FROM totals
GROUP BY rank, step, level, coalesce(name, '(nothing recorded)')
