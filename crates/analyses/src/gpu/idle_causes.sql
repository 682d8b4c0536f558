--! question = "Why is the GPU idle?"
--! row = "one device of one rank: its idle time, each nanosecond under one cause"
--! window = "counted_steps"
--! needs = ["idle_gap_causes", "cpu_computations", "device_windows", "device_work", "graph_launches", "idle_names"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [params]
--! short_kernel_us = { default = 100, doc = "a kernel shorter than this is short" }
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! idle_ns = { doc = "the device runs nothing: the sum of all causes", unit = "ns", metric = "device" }
--! idle_ratio = { doc = "idle share of the window", unit = "ratio", metric = "device" }
--! dataloader_ns = { doc = "idle, cause data_loading: the thread that launches was loading data", unit = "ns", metric = "device" }
--! dataloader_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! sync_ns = { doc = "idle, cause synchronization: the device drained while that thread waited for it: until the next start", unit = "ns", metric = "device" }
--! sync_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! allocation_ns = { doc = "idle, cause allocation: in calls that take memory from the driver or give it back", unit = "ns", metric = "device" }
--! allocation_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! copy_api_ns = { doc = "idle, cause copy_api: in calls that copy or fill", unit = "ns", metric = "device" }
--! copy_api_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! launch_api_ns = { doc = "idle, cause launch_api: in other calls into the runtime or driver: launches", unit = "ns", metric = "device" }
--! launch_api_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! op_dispatch_ns = { doc = "idle, cause op_dispatch: in operators, outside such calls and cpu_compute", unit = "ns", metric = "device" }
--! op_dispatch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! cpu_compute_ns = { doc = "idle, cause cpu_compute: in operators that compute on the CPU and launch nothing, see cpu_computations", unit = "ns", metric = "device" }
--! cpu_compute_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! creation_ns = { doc = "of cpu_compute_ns, in operators that create tensors (random numbers, a range of numbers, one number), in gaps that end with a copy to the device", unit = "ns", metric = "device" }
--! creation_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! cpu_work_ns = { doc = "cpu_compute_ns without creation_ns", unit = "ns", metric = "device" }
--! cpu_work_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! python_ns = { doc = "idle, cause python: in none of these, on a thread that has events before and after", unit = "ns", metric = "device" }
--! python_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! first_launch_ns = { doc = "idle, cause first_launch: in the first launch of a kernel, or another first call, that takes 10 times the later ones, or in a call that loads code", unit = "ns", metric = "device" }
--! first_launch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! startup_ns = { doc = "idle, cause startup: in calls with which the runtime sets itself up", unit = "ns", metric = "device" }
--! startup_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! compiling_ns = { doc = "idle, cause compiling: in torch.compile, Inductor or Triton", unit = "ns", metric = "device" }
--! compiling_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! profiler_ns = { doc = "idle, cause profiler: the profiler's own work delays the thread, or adds gaps between the nodes of a graph replay", unit = "ns", metric = "device" }
--! profiler_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! launch_latency_ns = { doc = "idle, cause launch_latency: from the return of the launching call to the start", unit = "ns", metric = "device" }
--! launch_latency_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! dependency_ns = { doc = "idle, cause dependency: launched in time, and behind other work of its stream", unit = "ns", metric = "device" }
--! dependency_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! other_stream_ns = { doc = "idle, cause other_stream: launched in time, and it waited for another stream", unit = "ns", metric = "device" }
--! other_stream_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! collective_ns = { doc = "idle, cause collective: launched in time, and it waited for a collective", unit = "ns", metric = "device" }
--! collective_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! unlinked_ns = { doc = "idle, cause unlinked: the launch is not in the trace", unit = "ns", metric = "device" }
--! unlinked_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! graph_replay_ns = { doc = "idle, cause graph_replay: a replayed graph may have run work that is not recorded", unit = "ns", metric = "device" }
--! graph_replay_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! unrecorded_work_ns = { doc = "idle, cause unrecorded_work: launched work starts more than 1 ms after all recorded work has ended: the device ran something that is not recorded; or the profiler lost the work of an earlier launch", unit = "ns", metric = "device" }
--! unrecorded_work_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! stream_capture_ns = { doc = "idle, cause stream_capture: the thread captures a graph, and what it launches does not run", unit = "ns", metric = "device" }
--! stream_capture_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! recording_end_ns = { doc = "idle, cause recording_end: nothing follows on the device, so what it would have waited for is not recorded", unit = "ns", metric = "device" }
--! recording_end_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! no_host_events_ns = { doc = "idle, cause no_host_events: the rank has no calls, or no operators and the thread was in no call, or no thread that launches has events around that time", unit = "ns", metric = "device" }
--! no_host_events_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! dispatch_ns = { doc = "launching work: op_dispatch, launch_api, copy_api and launch_latency", unit = "ns", metric = "device" }
--! dispatch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! short_dispatch_ns = { doc = "of dispatch_ns, in gaps that end with a short kernel", unit = "ns", metric = "device" }
--! short_dispatch_ratio = { doc = "share of dispatch_ns; absent if that is 0", unit = "ratio", metric = "device" }
--! host_ns = { doc = "the launch had not returned, or never came: dispatch, cpu_compute, python, allocation, and compiling after the first step; without loading, synchronization and what does not recur", unit = "ns", metric = "device" }
--! host_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! device_wait_ns = { doc = "launched in time: dependency, other_stream and collective", unit = "ns", metric = "device" }
--! device_wait_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! unattributed_ns = { doc = "idle time that no fix returns: the cause cannot be told (unlinked, graph_replay, unrecorded_work, stream_capture, recording_end and no_host_events), or does not recur (first_launch, startup, profiler, and compiling in the first step)", unit = "ns", metric = "device" }
--! unattributed_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! switch_ns = { doc = "of dependency, gaps shorter than 10 us: from one kernel to the next", unit = "ns", metric = "device" }
--! switch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! switch_count = { doc = "such gaps", unit = "count", metric = "device" }
--! gap_count = { doc = "stretches of idle time", unit = "count", metric = "device" }
--! sync_count = { doc = "of these, begun by a wait for the device", unit = "count", metric = "device" }
--! top_sync_name = "the waiting call with most of that idle time"
--! top_sync_op_name = "operator around it: aten::item where a value is read"
--! top_sync_ratio = { doc = "share of sync_ns after top_sync_name in top_sync_op_name", unit = "ratio", metric = "device" }
--! top_python_name = "the Python function or annotation with most idle time of cause python"
--! top_python_ratio = { doc = "share of python_ns in top_python_name", unit = "ratio", metric = "device" }
--! around_python_name = "where top_python_name has 80 % or less: the Python frame, annotation or operator with least time of those that hold more than 80 % of python_ns; absent if that is below 3 % of the window"
--! around_python_ratio = { doc = "its share of python_ns", unit = "ratio", metric = "device" }
--! top_dispatch_name = "the call or operator with most idle time of launching"
--! top_dispatch_ratio = { doc = "share of dispatch_ns in top_dispatch_name", unit = "ratio", metric = "device" }
--! around_dispatch_name = "the same for top_dispatch_name and dispatch_ns"
--! around_dispatch_ratio = { doc = "its share of dispatch_ns", unit = "ratio", metric = "device" }
--! top_cpu_name = "the operator with most of cpu_work_ns"
--! top_cpu_ratio = { doc = "its share of cpu_work_ns; absent if that is 0", unit = "ratio", metric = "device" }
--! top_creation_name = "the operator with most of creation_ns"
--! first_idle_ns = { doc = "length of the gap that the window begins with; 0 if something runs then", unit = "ns", metric = "device" }
--! first_idle_cause = "cause of most of that gap"
--! activity_count = { doc = "kernels, copies and fills in the window", unit = "count", metric = "device" }
--! step_count = { doc = "steps in the window", unit = "count", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
-- Windows without gaps have one row with an absent cause, which counts 0.
WITH creating AS (
    SELECT DISTINCT CAST(name AS VARCHAR) AS name FROM cpu_computations WHERE is_creation
),
parts AS (
    SELECT
        g.*,
        g.cause = 'cpu_compute' AND c.name IS NOT NULL AND g.next_category = 'memcpy' AND g.next_name LIKE '%HtoD%' AS is_creation
    FROM idle_gap_causes g
    LEFT JOIN creating c ON c.name = CAST(g.name AS VARCHAR)
),
sums AS (
    SELECT
        w.rank, w.device, w.window_ns, w.step_count,
        coalesce(sum(g.dur_ns), 0) AS idle_ns,
        sum_if!(g.dur_ns, g.cause = 'data_loading') AS dataloader_ns,
        sum_if!(g.dur_ns, g.cause = 'synchronization') AS sync_ns,
        sum_if!(g.dur_ns, g.cause = 'allocation') AS allocation_ns,
        sum_if!(g.dur_ns, g.cause = 'copy_api') AS copy_api_ns,
        sum_if!(g.dur_ns, g.cause = 'launch_api') AS launch_api_ns,
        sum_if!(g.dur_ns, g.cause = 'op_dispatch') AS op_dispatch_ns,
        sum_if!(g.dur_ns, g.cause = 'cpu_compute') AS cpu_compute_ns,
        sum_if!(g.dur_ns, g.is_creation) AS creation_ns,
        sum_if!(g.dur_ns, g.cause = 'cpu_compute' AND NOT g.is_creation) AS cpu_work_ns,
        sum_if!(g.dur_ns, g.cause = 'python') AS python_ns,
        sum_if!(g.dur_ns, g.cause = 'first_launch') AS first_launch_ns,
        sum_if!(g.dur_ns, g.cause = 'startup') AS startup_ns,
        sum_if!(g.dur_ns, g.cause = 'compiling') AS compiling_ns,
        sum_if!(g.dur_ns, g.cause = 'profiler') AS profiler_ns,
        sum_if!(g.dur_ns, g.cause = 'launch_latency') AS launch_latency_ns,
        sum_if!(g.dur_ns, g.cause = 'dependency') AS dependency_ns,
        sum_if!(g.dur_ns, g.cause = 'other_stream') AS other_stream_ns,
        sum_if!(g.dur_ns, g.cause = 'collective') AS collective_ns,
        sum_if!(g.dur_ns, g.cause = 'unlinked') AS unlinked_ns,
        sum_if!(g.dur_ns, g.cause = 'graph_replay') AS graph_replay_ns,
        sum_if!(g.dur_ns, g.cause = 'unrecorded_work') AS unrecorded_work_ns,
        sum_if!(g.dur_ns, g.cause = 'stream_capture') AS stream_capture_ns,
        sum_if!(g.dur_ns, g.cause = 'recording_end') AS recording_end_ns,
        sum_if!(g.dur_ns, g.cause = 'no_host_events') AS no_host_events_ns,
        sum_if!(g.dur_ns, g.cause IN ('op_dispatch', 'launch_api', 'copy_api', 'launch_latency')) AS dispatch_ns,
        sum_if!(
            g.dur_ns,
            g.cause IN ('op_dispatch', 'launch_api', 'copy_api', 'launch_latency')
                AND g.next_category = 'kernel' AND g.next_dur_ns < $short_kernel_us * 1000
        ) AS short_dispatch_ns,
        sum_if!(
            g.dur_ns,
            g.cause IN ('op_dispatch', 'cpu_compute', 'launch_api', 'copy_api', 'launch_latency', 'python', 'allocation')
                OR (g.cause = 'compiling' AND g.side = 'host')
        ) AS host_ns,
        sum_if!(g.dur_ns, g.cause IN ('dependency', 'other_stream', 'collective')) AS device_wait_ns,
        sum_if!(g.dur_ns, g.side IN ('unknown', 'warmup')) AS unattributed_ns,
        sum_if!(g.dur_ns, g.cause = 'dependency' AND g.gap_end_ns - g.gap_ts_ns < 10000) AS switch_ns,
        count_if!(g.cause = 'dependency' AND g.gap_end_ns - g.gap_ts_ns < 10000) AS switch_count,
        count(DISTINCT g.gap_ts_ns) AS gap_count,
        count(DISTINCT CASE WHEN g.cause = 'synchronization' THEN g.gap_ts_ns END) AS sync_count
    FROM device_windows w
    LEFT JOIN parts g ON g.rank = w.rank AND g.device = w.device
    GROUP BY w.rank, w.device, w.window_ns, w.step_count
),
-- The names behind launching and Python are in `idle_names`.
time_by_name AS (
    SELECT
        rank, device, name, op_name,
        CASE WHEN cause = 'synchronization' THEN 'sync' WHEN is_creation THEN 'creation' ELSE 'cpu' END AS part,
        sum(dur_ns) AS dur_ns
    FROM parts
    WHERE name IS NOT NULL AND cause IN ('synchronization', 'cpu_compute')
    GROUP BY 1, 2, 3, 4, 5
),
top_names AS (
    SELECT
        rank, device,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'sync') AS top_sync_name,
        first_value(op_name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'sync') AS top_sync_op_name,
        max(CASE WHEN part = 'sync' THEN dur_ns END) AS top_sync_ns,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'cpu') AS top_cpu_name,
        max(CASE WHEN part = 'cpu' THEN dur_ns END) AS top_cpu_ns,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'creation') AS top_creation_name
    FROM time_by_name
    GROUP BY rank, device
),
activities AS (
    SELECT k.rank, k.device, count(*) AS activity_count
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.ts_ns < w.end_ns AND k.end_ns > w.start_ns
    GROUP BY k.rank, k.device
),
first_gaps AS (
    SELECT
        g.rank, g.device, sum(g.dur_ns) AS first_idle_ns,
        first_value(g.cause ORDER BY g.dur_ns DESC, g.ts_ns) AS first_idle_cause
    FROM idle_gap_causes g
    JOIN device_windows w ON w.rank = g.rank AND w.device = g.device AND w.start_ns = g.gap_ts_ns
    GROUP BY g.rank, g.device
)
SELECT
    s.rank, s.device, s.window_ns,
    s.idle_ns, ratio!(s.idle_ns, s.window_ns) AS idle_ratio,
    s.dataloader_ns, ratio!(s.dataloader_ns, s.window_ns) AS dataloader_ratio,
    s.sync_ns, ratio!(s.sync_ns, s.window_ns) AS sync_ratio,
    s.allocation_ns, ratio!(s.allocation_ns, s.window_ns) AS allocation_ratio,
    s.copy_api_ns, ratio!(s.copy_api_ns, s.window_ns) AS copy_api_ratio,
    s.launch_api_ns, ratio!(s.launch_api_ns, s.window_ns) AS launch_api_ratio,
    s.op_dispatch_ns, ratio!(s.op_dispatch_ns, s.window_ns) AS op_dispatch_ratio,
    s.cpu_compute_ns, ratio!(s.cpu_compute_ns, s.window_ns) AS cpu_compute_ratio,
    s.creation_ns, ratio!(s.creation_ns, s.window_ns) AS creation_ratio,
    s.cpu_work_ns, ratio!(s.cpu_work_ns, s.window_ns) AS cpu_work_ratio,
    s.python_ns, ratio!(s.python_ns, s.window_ns) AS python_ratio,
    s.first_launch_ns, ratio!(s.first_launch_ns, s.window_ns) AS first_launch_ratio,
    s.startup_ns, ratio!(s.startup_ns, s.window_ns) AS startup_ratio,
    s.compiling_ns, ratio!(s.compiling_ns, s.window_ns) AS compiling_ratio,
    s.profiler_ns, ratio!(s.profiler_ns, s.window_ns) AS profiler_ratio,
    s.launch_latency_ns, ratio!(s.launch_latency_ns, s.window_ns) AS launch_latency_ratio,
    s.dependency_ns, ratio!(s.dependency_ns, s.window_ns) AS dependency_ratio,
    s.other_stream_ns, ratio!(s.other_stream_ns, s.window_ns) AS other_stream_ratio,
    s.collective_ns, ratio!(s.collective_ns, s.window_ns) AS collective_ratio,
    s.unlinked_ns, ratio!(s.unlinked_ns, s.window_ns) AS unlinked_ratio,
    s.graph_replay_ns, ratio!(s.graph_replay_ns, s.window_ns) AS graph_replay_ratio,
    s.unrecorded_work_ns, ratio!(s.unrecorded_work_ns, s.window_ns) AS unrecorded_work_ratio,
    s.stream_capture_ns, ratio!(s.stream_capture_ns, s.window_ns) AS stream_capture_ratio,
    s.recording_end_ns, ratio!(s.recording_end_ns, s.window_ns) AS recording_end_ratio,
    s.no_host_events_ns, ratio!(s.no_host_events_ns, s.window_ns) AS no_host_events_ratio,
    s.dispatch_ns, ratio!(s.dispatch_ns, s.window_ns) AS dispatch_ratio,
    s.short_dispatch_ns, ratio!(s.short_dispatch_ns, s.dispatch_ns) AS short_dispatch_ratio,
    s.host_ns, ratio!(s.host_ns, s.window_ns) AS host_ratio,
    s.device_wait_ns, ratio!(s.device_wait_ns, s.window_ns) AS device_wait_ratio,
    s.unattributed_ns, ratio!(s.unattributed_ns, s.window_ns) AS unattributed_ratio,
    s.switch_ns, ratio!(s.switch_ns, s.window_ns) AS switch_ratio, s.switch_count,
    s.gap_count, s.sync_count,
    t.top_sync_name, t.top_sync_op_name, ratio!(t.top_sync_ns, s.sync_ns) AS top_sync_ratio,
    n.top_python_name, n.top_python_ratio, n.around_python_name, n.around_python_ratio,
    n.top_dispatch_name, n.top_dispatch_ratio, n.around_dispatch_name, n.around_dispatch_ratio,
    t.top_cpu_name, ratio!(t.top_cpu_ns, s.cpu_work_ns) AS top_cpu_ratio, t.top_creation_name,
    coalesce(f.first_idle_ns, 0) AS first_idle_ns, f.first_idle_cause,
    coalesce(a.activity_count, 0) AS activity_count, s.step_count, g.graph_launch_count
FROM sums s
LEFT JOIN activities a ON a.rank = s.rank AND a.device = s.device
LEFT JOIN top_names t ON t.rank = s.rank AND t.device = s.device
LEFT JOIN idle_names n ON n.rank = s.rank AND n.device = s.device
LEFT JOIN first_gaps f ON f.rank = s.rank AND f.device = s.device
JOIN graph_launches g ON g.rank = s.rank
