--! question = "What does the recording hold, and what can it not show?"
--! row = "the run: what was recorded, by kind"
--! window = "recording"
--! scope = "run"
--! needs = ["ranks", "devices", "threads", "cpu_ops", "annotations", "python_frames", "runtime_calls", "kernels", "memcpys", "memsets", "memory_events", "profiler_ranges", "op_cpu_work", "spans", "counters", "steps", "complete_steps", "run_warmup", "gpu_idle_causes", "idle_gap_causes", "trace_overhead", "trace_completeness", "trace_outliers", "trace_lost_launches", "trace_bursts"]
--! when_empty = "no trace was read"
--! [columns]
--! rank_count = { doc = "ranks that were read", unit = "count", metric = "run" }
--! profiled_rank_count = { doc = "of them, those with a trace of the PyTorch Profiler or of another tool that writes such traces", unit = "count", metric = "run" }
--! event_count = { doc = "events read", unit = "count", metric = "run" }
--! recorded_ns = { doc = "from the first event to the end of the last, of the rank with most", unit = "ns", metric = "run" }
--! op_count = { doc = "operators of PyTorch", unit = "count", metric = "run" }
--! ended_in_warmup = "the profiler stopped while its schedule was warming up: it started and stopped recording at once; absent where its own Python frames were not recorded"
--! frame_count = { doc = "Python frames", unit = "count", metric = "run" }
--! annotation_count = { doc = "named ranges on the host", unit = "count", metric = "run" }
--! call_count = { doc = "calls of the runtime or driver of a device", unit = "count", metric = "run" }
--! launch_count = { doc = "of them, launches of kernels and graphs", unit = "count", metric = "run" }
--! waited_launch_count = { doc = "of them, launches before a call that waits for a device; if no call does, before a call that waits for a stream or an event", unit = "count", metric = "run" }
--! wait_name = "name of that call; absent without any"
--! profiler_range_count = { doc = "kernels that the range profiler measured, which replaces the timeline", unit = "count", metric = "run" }
--! device_event_count = { doc = "kernels, copies and fills that a device ran", unit = "count", metric = "run" }
--! foreign_event_count = { doc = "events with a duration and counter samples that no part of PyTorch's profiler writes", unit = "count", metric = "run" }
--! foreign_kinds = "the most frequent categories among events with a duration, of those; absent without any"
--! foreign_tool = "the tool that wrote them, as far as names of categories and processes tell: Chrome, TensorFlow, XLA or perf; absent if unknown"
--! listed_device_count = { doc = "devices that the trace describes, used or not, of the rank with most", unit = "count", metric = "run" }
--! listed_device_name = "product name of one of them"
--! device_op_count = { doc = "operators that run on a GPU only, and memory allocated there", unit = "count", metric = "run" }
--! device_op_name = "the most frequent of these operators; absent without any"
--! step_count = { doc = "steps of the rank with most", unit = "count", metric = "run" }
--! step_source = "what marks them, see steps.source; absent without any"
--! step_ns = { doc = "mean duration of those that count, see step_time_summary; on the host if none is complete", unit = "ns", metric = "run" }
--! warm_up_step_ns = { doc = "duration of a first step that does not count because it is warm-up, see complete_steps; the longest of all ranks, absent without any", unit = "ns", metric = "run" }
--! recurring_op_count = { doc = "operators of a sequence that recurs in passes or in layers, see ranks.recurring_op_count, of the rank with most repetitions; absent if there is none", unit = "count", metric = "run" }
--! recurrence_count = { doc = "its repetitions", unit = "count", metric = "run" }
--! recurrence_dur_ns = { doc = "median from one repetition to the next", unit = "ns", metric = "run" }
--! top_op_name = "operator with most time of its own on the host, or CompiledFxGraph, see op_cpu_work; absent without operators"
--! top_op_ratio = { doc = "its share of the time of all operators of their own", unit = "ratio", metric = "run" }
--! op_ratio = { doc = "share of the steps, or of the recording, in which the busiest thread is in an operator, of the rank with most; absent with a device", unit = "ratio", metric = "run" }
--! warmup_ratio = { doc = "share of compiling, loading code, allocating device memory and first launches, without what recurs in later steps, of the rank with least; see run_warmup", unit = "ratio", metric = "run" }
--! warmup_name = "name that takes most of it"
--! busy_ratio = { doc = "share of recorded_ns in which a device runs anything within its window, of the device with most; absent without device activity", unit = "ratio", metric = "run" }
--! idle_ratio = { doc = "share of the window in which a device runs nothing, of the device with least; absent without device activity", unit = "ratio", metric = "run" }
--! startup_idle_ratio = { doc = "share of a device's idle time in which the host starts up, loads code or compiles (side warmup of idle_gap_causes, without the profiler), of the device with least; absent without device activity", unit = "ratio", metric = "run" }
--! startup_idle_name = "name that takes most of that"
--! profiler_ratio = { doc = "share of the steps, or of the recording, that the profiler itself takes, of the rank with least; absent if it wrote no overhead, see trace_overhead", unit = "ratio", metric = "run" }
--! profiler_name = "the kind of overhead that takes most of it"
--! outlier_ratio = { doc = "share of the recording that a few events alone cover, of the rank with most; see trace_outliers", unit = "ratio", metric = "run" }
--! outlier_count = { doc = "number of these events", unit = "count", metric = "run" }
--! outlier_name = "one of these events; absent if there are none"
--! rest_ns = { doc = "length of that rank's recording without them", unit = "ns", metric = "run" }
--! lost_launch_ratio = { doc = "share of kernel launches without device activity in the trace, on the rank with the smallest share, see trace_lost_launches; absent if no launch has device activity", unit = "ratio", metric = "run" }
--! recorded_step_count = { doc = "number of steps of that rank that count", unit = "count", metric = "run" }
--! burst_ratio = { doc = "share of the device work that was launched long before the first work starts, on the rank with the smallest share, see trace_bursts; absent without device activity or two steps", unit = "ratio", metric = "run" }
--! burst_wait_ns = { doc = "time from the first launch of that rank to its first device work", unit = "ns", metric = "run" }
--! is_truncated = "some file ends in the middle, or parts of it are damaged"
WITH op_names AS (
    SELECT
        name, count(*) AS call_count, sum(self_dur_ns) AS self_ns,
        is_gpu_op!(name) AS is_of_device
    FROM (SELECT CAST(name AS VARCHAR) AS name, self_dur_ns FROM cpu_ops)
    GROUP BY name
),
ops AS (
    SELECT
        coalesce(sum(call_count), 0) AS op_count,
        sum_if!(call_count, is_of_device) AS device_op_count,
        first_value(name ORDER BY call_count DESC, name) FILTER (WHERE is_of_device) AS device_op_name,
        first_value(name ORDER BY self_ns DESC, name) AS top_op_name,
        ratio!(max(self_ns), sum(self_ns)) AS top_op_ratio
    FROM op_names
),
-- The loops that torch.compile generates are no operators.
compiled AS (
    SELECT max(top_op_name) AS top_op_name, max(ratio!(top_op_ns, op_ns)) AS top_op_ratio
    FROM op_cpu_work
    WHERE top_op_name = 'CompiledFxGraph'
),
calls AS (
    SELECT
        count(*) AS call_count,
        count_if!(is_launch!(name)) AS launch_count
    FROM runtime_calls
),
-- A wait for the device says more than one for a stream or an event.
waits AS (
    SELECT
        rank,
        coalesce(max(CASE WHEN is_of_device THEN ts_ns END), max(ts_ns)) AS last_ns,
        coalesce(max(CASE WHEN is_of_device THEN name END), max(name)) AS name
    FROM (
        SELECT rank, ts_ns, CAST(name AS VARCHAR) AS name, name LIKE '%DeviceSynchronize' AS is_of_device
        FROM runtime_calls
        WHERE name LIKE '%Synchronize'
    )
    GROUP BY rank
),
waited AS (
    SELECT count(*) AS waited_launch_count, max(w.name) AS wait_name
    FROM runtime_calls c
    JOIN waits w ON w.rank = c.rank
    WHERE is_launch!(c.name) AND c.ts_ns < w.last_ns
),
-- Categories of other parts of the profiler, beside those with a table of their own.
foreign_spans AS (
    SELECT CAST(category AS VARCHAR) AS category, count(*) AS event_count
    FROM spans
    WHERE coalesce(lower(CAST(category AS VARCHAR)), '') NOT IN (
        'overhead', 'trace', 'privateuse1_runtime', 'privateuse1_driver', 'mtia_ccp_events', 'collective_comm', 'external_correlation',
        'python_gc', 'gc')
    GROUP BY category
),
foreigners AS (
    SELECT
        (SELECT coalesce(sum(event_count), 0) FROM foreign_spans) + (SELECT count(*) FROM counters) AS foreign_event_count,
        (SELECT string_agg(category, ', ' ORDER BY event_count DESC, category) FROM (
            SELECT category, event_count FROM foreign_spans WHERE category IS NOT NULL ORDER BY event_count DESC, category LIMIT 3
        )) AS foreign_kinds
),
tools AS (
    SELECT CASE
        WHEN bool_or(is_of_chrome) THEN 'Chrome'
        WHEN bool_or(is_of_tensorflow) THEN 'TensorFlow'
        WHEN bool_or(is_of_xla) THEN 'XLA'
        WHEN bool_or(is_of_perf) THEN 'perf'
    END AS foreign_tool
    FROM (
        SELECT
            regexp_like(name, '(^|,)(v8|blink|cc|toplevel|devtools\.timeline|disabled-by-default-)') AS is_of_chrome,
            false AS is_of_tensorflow, false AS is_of_xla,
            name IN ('cpu-clock', 'cycles', 'cpu-cycles') OR starts_with(name, 'cycles:') AS is_of_perf
        FROM (SELECT category AS name FROM foreign_spans WHERE category IS NOT NULL)
        UNION ALL
        SELECT
            false, starts_with(name, '/job:') OR starts_with(name, '/host:CPU Python'),
            starts_with(name, '/device:') OR starts_with(name, '/host:'), false
        FROM (SELECT DISTINCT CAST(process_name AS VARCHAR) AS name FROM threads WHERE process_name IS NOT NULL)
    )
),
listed AS (
    SELECT max(n) AS listed_device_count, min(name) AS listed_device_name
    FROM (SELECT rank, count(*) AS n, min(CAST(name AS VARCHAR)) AS name FROM devices GROUP BY rank)
),
read AS (
    SELECT
        count(*) AS rank_count,
        count(vendor) AS profiled_rank_count,
        coalesce(sum(event_count), 0) AS event_count,
        coalesce(max(end_ns - start_ns), 0) AS recorded_ns
    FROM ranks
    HAVING count(*) > 0
),
marked AS (
    SELECT coalesce(max(n), 0) AS step_count, min(source) AS step_source, first_value(step_ns ORDER BY n DESC, rank) AS step_ns
    FROM (
        SELECT
            s.rank, count(*) AS n, min(CAST(s.source AS VARCHAR)) AS source,
            CAST(coalesce(avg(CASE WHEN c.is_counted THEN c.dur_ns END), avg(s.dur_ns)) AS BIGINT) AS step_ns
        FROM steps s
        LEFT JOIN complete_steps c ON c.rank = s.rank AND c.host_ts_ns = s.ts_ns AND c.step = s.step
        WHERE s.source <> 'trace'
        GROUP BY s.rank
    )
),
recurring AS (
    SELECT
        first_value(CAST(recurring_op_count AS BIGINT) ORDER BY recurrence_count DESC, rank) AS recurring_op_count,
        first_value(CAST(recurrence_count AS BIGINT) ORDER BY recurrence_count DESC, rank) AS recurrence_count,
        first_value(recurrence_dur_ns ORDER BY recurrence_count DESC, rank) AS recurrence_dur_ns
    FROM ranks
    WHERE recurrence_count IS NOT NULL
),
outliers AS (
    SELECT
        coalesce(max(outlier_ratio), 0) AS outlier_ratio,
        first_value(outlier_count ORDER BY outlier_ratio DESC, rank) AS outlier_count,
        first_value(outlier_name ORDER BY outlier_ratio DESC, rank) AS outlier_name,
        first_value(rest_ns ORDER BY outlier_ratio DESC, rank) AS rest_ns
    FROM trace_outliers
),
warmups AS (
    SELECT
        min(ratio!(warmup_ns - coalesce(steady_compile_ns, 0), steps_ns)) AS warmup_ratio,
        first_value(warmup_name ORDER BY warmup_ns DESC, rank) AS warmup_name
    FROM run_warmup
),
passing AS (
    SELECT rank, device, sum(dur_ns) AS startup_ns
    FROM idle_gap_causes
    WHERE side = 'warmup' AND cause <> 'profiler'
    GROUP BY rank, device
),
passing_names AS (
    SELECT CAST(name AS VARCHAR) AS name, sum(dur_ns) AS dur_ns
    FROM idle_gap_causes
    WHERE side = 'warmup' AND cause <> 'profiler'
    GROUP BY 1
),
idle_times AS (
    SELECT
        max(c.window_ns - c.idle_ns) AS busy_ns,
        min(c.idle_ratio) AS idle_ratio,
        min(ratio!(coalesce(p.startup_ns, 0), c.idle_ns)) AS startup_idle_ratio,
        (SELECT first_value(name ORDER BY dur_ns DESC, name) FROM passing_names) AS startup_idle_name
    FROM gpu_idle_causes c
    LEFT JOIN passing p ON p.rank = c.rank AND p.device = c.device
),
losses AS (
    SELECT min(lost_ratio) AS lost_launch_ratio, first_value(counted_step_count ORDER BY lost_ratio, rank) AS recorded_step_count
    FROM trace_lost_launches
),
late AS (
    SELECT min(burst_ratio) AS burst_ratio, first_value(wait_ns ORDER BY burst_ratio, rank) AS burst_wait_ns FROM trace_bursts
),
overheads AS (
    SELECT min(overhead_ratio) AS profiler_ratio, first_value(top_name ORDER BY overhead_ns DESC, rank) AS profiler_name
    FROM trace_overhead
    WHERE overhead_ratio IS NOT NULL
)
SELECT
    r.rank_count, r.profiled_rank_count, r.event_count, r.recorded_ns,
    o.op_count,
    -- Only a recording of next to nothing is short enough to be read whole.
    (
        SELECT CASE WHEN bool_or(name LIKE '%torch/profiler/profiler.py(%): stop\_trace') THEN bool_or(name LIKE '%torch/profiler/profiler.py(%): start\_trace') END
        FROM (SELECT CAST(name AS VARCHAR) AS name FROM python_frames LIMIT 500)
    ) AS ended_in_warmup,
    (SELECT count(*) FROM python_frames) AS frame_count,
    (SELECT count(*) FROM annotations WHERE NOT on_device) AS annotation_count,
    c.call_count, c.launch_count, a.waited_launch_count, a.wait_name,
    (SELECT count(*) FROM profiler_ranges) AS profiler_range_count,
    (SELECT count(*) FROM kernels) + (SELECT count(*) FROM memcpys) + (SELECT count(*) FROM memsets) AS device_event_count,
    f.foreign_event_count, f.foreign_kinds, x.foreign_tool,
    coalesce(l.listed_device_count, 0) AS listed_device_count, l.listed_device_name,
    o.device_op_count + (SELECT count(*) FROM memory_events WHERE device_type <> 0) AS device_op_count,
    o.device_op_name,
    m.step_count, m.step_source, m.step_ns,
    (SELECT max(dur_ns) FROM complete_steps WHERE is_warm_up) AS warm_up_step_ns,
    n.recurring_op_count, n.recurrence_count, n.recurrence_dur_ns,
    coalesce(g.top_op_name, o.top_op_name) AS top_op_name,
    coalesce(g.top_op_ratio, o.top_op_ratio) AS top_op_ratio,
    (SELECT max(ratio!(op_ns, window_ns)) FROM op_cpu_work) AS op_ratio,
    w.warmup_ratio, w.warmup_name,
    ratio!(i.busy_ns, r.recorded_ns) AS busy_ratio, i.idle_ratio, i.startup_idle_ratio, i.startup_idle_name,
    v.profiler_ratio, v.profiler_name,
    e.outlier_ratio, e.outlier_count, e.outlier_name, e.rest_ns,
    d.lost_launch_ratio, d.recorded_step_count, b.burst_ratio, b.burst_wait_ns,
    (SELECT coalesce(bool_or(is_truncated), false) FROM trace_completeness) AS is_truncated
FROM read r
CROSS JOIN ops o
CROSS JOIN compiled g
CROSS JOIN calls c
CROSS JOIN waited a
CROSS JOIN recurring n
CROSS JOIN foreigners f
CROSS JOIN tools x
CROSS JOIN listed l
CROSS JOIN marked m
CROSS JOIN warmups w
CROSS JOIN idle_times i
CROSS JOIN overheads v
CROSS JOIN outliers e
CROSS JOIN losses d
CROSS JOIN late b
