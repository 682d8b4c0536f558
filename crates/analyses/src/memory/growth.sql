--! question = "Does memory grow from step to step (a leak)?"
--! row = "one memory of one rank (of a device or the host heap): growth from step to step of the bytes allocated at step ends"
--! window = "all_steps"
--! needs = ["memory_by_step", "memory_retained", "devices"]
--! order = ["rank", "memory"]
--! requires = ["memory_events"]
--! when_empty = "the trace holds no allocator events: record with profile_memory=True"
--! [columns]
--! rank = "rank"
--! memory = "memory space: cuda:0, hip:0 ... or cpu"
--! device = "device ordinal; -1 on the host"
--! step_count = { doc = "steps; the whole recording is none", unit = "count", metric = "device" }
--! first_end_bytes = { doc = "allocated at the end of the first step; without totals (torch 1.9 and older) since the recording began", unit = "bytes", metric = "device" }
--! last_end_bytes = { doc = "allocated at the end of the last step", unit = "bytes", metric = "device" }
--! growth_bytes = { doc = "from one to the other", unit = "bytes", metric = "device" }
--! growth_ratio = { doc = "that growth over what was allocated at the end of the first step", unit = "ratio", metric = "device" }
--! growth_per_step_bytes = { doc = "slope of the line through the ends of the steps (least squares)", unit = "bytes", metric = "device" }
--! rise_count = { doc = "steps that end higher than the step before", unit = "count", metric = "device" }
--! rise_ratio = { doc = "share of the steps after the first that end higher than the step before: 1 if it rises all the time", unit = "ratio", metric = "device" }
--! steps_to_full_count = { doc = "steps until, at that slope, the peak of a step reaches the memory of the device; absent if it does not grow or the trace does not say how much there is", unit = "count", metric = "device" }
--! top_op_name = "operator whose pieces outlived most steps (first row of memory_retained that more than one step left)"
--! top_module = "innermost nn.Module around them"
--! top_phase = "phase in which it allocated them"
--! top_bytes = { doc = "bytes they hold", unit = "bytes", metric = "device" }
WITH ends AS (
    SELECT
        rank, memory, device, ts_ns,
        coalesce(end_bytes, end_change_bytes) AS end_bytes,
        peak_bytes,
        coalesce(end_bytes, end_change_bytes) - lag(coalesce(end_bytes, end_change_bytes)) OVER w AS rise_bytes,
        row_number() OVER w AS ordinal
    FROM memory_by_step
    WHERE source <> 'trace' AND memory <> 'cpu mapped'
    WINDOW w AS (PARTITION BY rank, memory ORDER BY ts_ns)
),
lines AS (
    SELECT
        rank, memory, min(device) AS device,
        count(*) AS step_count,
        first_value(end_bytes ORDER BY ordinal) AS first_end_bytes,
        last_value(end_bytes ORDER BY ordinal) AS last_end_bytes,
        last_value(peak_bytes ORDER BY ordinal) AS last_peak_bytes,
        regr_slope(CAST(end_bytes AS DOUBLE), CAST(ordinal AS DOUBLE)) AS slope,
        count_if!(rise_bytes > 0) AS rise_count
    FROM ends
    GROUP BY rank, memory
),
top_names AS (
    SELECT
        rank, memory,
        first_value(op_name ORDER BY place) AS op_name,
        first_value(module ORDER BY place) AS module,
        first_value(phase ORDER BY place) AS phase,
        first_value(bytes ORDER BY place) AS bytes
    FROM memory_retained
    WHERE step_count > 1
    GROUP BY rank, memory
)
SELECT
    l.rank, l.memory, l.device, l.step_count, l.first_end_bytes, l.last_end_bytes,
    l.last_end_bytes - l.first_end_bytes AS growth_bytes,
    CASE WHEN l.first_end_bytes > 0 THEN CAST(l.last_end_bytes - l.first_end_bytes AS DOUBLE) / l.first_end_bytes END AS growth_ratio,
    CAST(round(l.slope) AS BIGINT) AS growth_per_step_bytes,
    l.rise_count,
    ratio!(l.rise_count, l.step_count - 1) AS rise_ratio,
    CASE WHEN round(l.slope) > 0 AND d.total_memory_bytes > 0
        THEN greatest(d.total_memory_bytes - l.last_peak_bytes, 0) / CAST(round(l.slope) AS BIGINT)
    END AS steps_to_full_count,
    t.op_name AS top_op_name, t.module AS top_module, t.phase AS top_phase, t.bytes AS top_bytes
FROM lines l
LEFT JOIN devices d ON d.rank = l.rank AND d.device = l.device
LEFT JOIN top_names t ON t.rank = l.rank AND t.memory = l.memory
