--! row = "one device of one rank: its idle time, each nanosecond under one cause"
--! needs = ["idle_gaps", "device_windows", "graph_launches"]
--! order = ["rank", "device"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! window_ns = { doc = "from the start of the first complete step to the end of the last", unit = "ns", metric = "device" }
--! idle_ns = { doc = "the device runs nothing: the sum of all causes", unit = "ns", metric = "device" }
--! idle_ratio = { doc = "idle share of the window", unit = "ratio", metric = "device" }
--! dataloader_ns = { doc = "idle, cause data_loading: the thread that launches was loading data", unit = "ns", metric = "device" }
--! dataloader_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! sync_ns = { doc = "idle, cause synchronisation: the device drained while that thread waited for it: until the next start", unit = "ns", metric = "device" }
--! sync_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! allocation_ns = { doc = "idle, cause allocation: in calls that take memory from the driver or give it back", unit = "ns", metric = "device" }
--! allocation_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! copy_api_ns = { doc = "idle, cause copy_api: in calls that copy or fill", unit = "ns", metric = "device" }
--! copy_api_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! launch_api_ns = { doc = "idle, cause launch_api: in other calls into the runtime or driver: launches", unit = "ns", metric = "device" }
--! launch_api_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! op_dispatch_ns = { doc = "idle, cause op_dispatch: in operators, outside such calls", unit = "ns", metric = "device" }
--! op_dispatch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! python_ns = { doc = "idle, cause python: in none of these: Python, or nothing that is recorded", unit = "ns", metric = "device" }
--! python_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
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
--! no_host_events_ns = { doc = "idle, cause no_host_events: the rank has no calls, or no operators and the thread was in no call", unit = "ns", metric = "device" }
--! no_host_events_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! dispatch_ns = { doc = "launching work: op_dispatch, launch_api, copy_api and launch_latency", unit = "ns", metric = "device" }
--! dispatch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! host_ns = { doc = "the launch had not returned, or never came, but for loading and synchronisation: dispatch, python and allocation", unit = "ns", metric = "device" }
--! host_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! device_wait_ns = { doc = "launched in time: dependency, other_stream and collective", unit = "ns", metric = "device" }
--! device_wait_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! cannot_tell_ns = { doc = "unlinked, graph_replay and no_host_events", unit = "ns", metric = "device" }
--! cannot_tell_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! switch_ns = { doc = "of dependency, gaps shorter than 10 us: from one kernel to the next", unit = "ns", metric = "device" }
--! switch_ratio = { doc = "share of the window", unit = "ratio", metric = "device" }
--! switch_count = { doc = "such gaps", unit = "count", metric = "device" }
--! gap_count = { doc = "stretches of idle time", unit = "count", metric = "device" }
--! sync_count = { doc = "of these, begun by a wait for the device", unit = "count", metric = "device" }
--! top_sync_name = "the waiting call with most of that idle time"
--! top_sync_op_name = "operator around it: aten::item where a value is read"
--! top_python_name = "the Python function or annotation with most idle time of cause python"
--! top_dispatch_name = "the call or operator with most idle time of launching"
--! step_count = { doc = "steps in the window", unit = "count", metric = "device" }
--! graph_launch_count = { doc = "launches of a captured graph by the rank", unit = "count", metric = "device" }
WITH sums AS (
    SELECT
        rank, device,
        sum(dur_ns) AS idle_ns,
        sum_if!(dur_ns, cause = 'data_loading') AS dataloader_ns,
        sum_if!(dur_ns, cause = 'synchronisation') AS sync_ns,
        sum_if!(dur_ns, cause = 'allocation') AS allocation_ns,
        sum_if!(dur_ns, cause = 'copy_api') AS copy_api_ns,
        sum_if!(dur_ns, cause = 'launch_api') AS launch_api_ns,
        sum_if!(dur_ns, cause = 'op_dispatch') AS op_dispatch_ns,
        sum_if!(dur_ns, cause = 'python') AS python_ns,
        sum_if!(dur_ns, cause = 'launch_latency') AS launch_latency_ns,
        sum_if!(dur_ns, cause = 'dependency') AS dependency_ns,
        sum_if!(dur_ns, cause = 'other_stream') AS other_stream_ns,
        sum_if!(dur_ns, cause = 'collective') AS collective_ns,
        sum_if!(dur_ns, cause = 'unlinked') AS unlinked_ns,
        sum_if!(dur_ns, cause = 'graph_replay') AS graph_replay_ns,
        sum_if!(dur_ns, cause = 'no_host_events') AS no_host_events_ns,
        sum_if!(dur_ns, cause = 'dependency' AND gap_end_ns - gap_ts_ns < 10000) AS switch_ns,
        count_if!(cause = 'dependency' AND gap_end_ns - gap_ts_ns < 10000) AS switch_count,
        count(DISTINCT gap_ts_ns) AS gap_count,
        count(DISTINCT CASE WHEN cause = 'synchronisation' THEN gap_ts_ns END) AS sync_count
    FROM idle_gaps
    GROUP BY rank, device
),
-- Loading and waiting have rules of their own; the names here are of what is left.
named AS (
    SELECT
        rank, device, name, op_name,
        CASE
            WHEN cause = 'synchronisation' THEN 'sync'
            WHEN cause = 'python' THEN 'python'
            ELSE 'dispatch'
        END AS part,
        sum(dur_ns) AS dur_ns
    FROM idle_gaps
    WHERE name IS NOT NULL AND cause IN ('synchronisation', 'python', 'op_dispatch', 'launch_api', 'copy_api')
    GROUP BY 1, 2, 3, 4, 5
),
tops AS (
    SELECT
        rank, device,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'sync') AS top_sync_name,
        first_value(op_name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'sync') AS top_sync_op_name,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'python') AS top_python_name,
        first_value(name ORDER BY dur_ns DESC, name) FILTER (WHERE part = 'dispatch') AS top_dispatch_name
    FROM named
    GROUP BY rank, device
),
filled AS (
    SELECT
        w.rank, w.device, w.window_ns, w.step_count,
        coalesce(s.idle_ns, 0) AS idle_ns,
        coalesce(s.dataloader_ns, 0) AS dataloader_ns,
        coalesce(s.sync_ns, 0) AS sync_ns,
        coalesce(s.allocation_ns, 0) AS allocation_ns,
        coalesce(s.copy_api_ns, 0) AS copy_api_ns,
        coalesce(s.launch_api_ns, 0) AS launch_api_ns,
        coalesce(s.op_dispatch_ns, 0) AS op_dispatch_ns,
        coalesce(s.python_ns, 0) AS python_ns,
        coalesce(s.launch_latency_ns, 0) AS launch_latency_ns,
        coalesce(s.dependency_ns, 0) AS dependency_ns,
        coalesce(s.other_stream_ns, 0) AS other_stream_ns,
        coalesce(s.collective_ns, 0) AS collective_ns,
        coalesce(s.unlinked_ns, 0) AS unlinked_ns,
        coalesce(s.graph_replay_ns, 0) AS graph_replay_ns,
        coalesce(s.no_host_events_ns, 0) AS no_host_events_ns,
        coalesce(s.op_dispatch_ns, 0) + coalesce(s.launch_api_ns, 0) + coalesce(s.copy_api_ns, 0) + coalesce(s.launch_latency_ns, 0) AS dispatch_ns,
        coalesce(s.op_dispatch_ns, 0) + coalesce(s.launch_api_ns, 0) + coalesce(s.copy_api_ns, 0) + coalesce(s.launch_latency_ns, 0) + coalesce(s.python_ns, 0) + coalesce(s.allocation_ns, 0) AS host_ns,
        coalesce(s.dependency_ns, 0) + coalesce(s.other_stream_ns, 0) + coalesce(s.collective_ns, 0) AS device_wait_ns,
        coalesce(s.unlinked_ns, 0) + coalesce(s.graph_replay_ns, 0) + coalesce(s.no_host_events_ns, 0) AS cannot_tell_ns,
        coalesce(s.switch_ns, 0) AS switch_ns,
        coalesce(s.switch_count, 0) AS switch_count,
        coalesce(s.gap_count, 0) AS gap_count,
        coalesce(s.sync_count, 0) AS sync_count
    FROM device_windows w
    LEFT JOIN sums s ON s.rank = w.rank AND s.device = w.device
)
SELECT
    f.rank, f.device, f.window_ns,
    f.idle_ns, ratio!(f.idle_ns, f.window_ns) AS idle_ratio,
    f.dataloader_ns, ratio!(f.dataloader_ns, f.window_ns) AS dataloader_ratio,
    f.sync_ns, ratio!(f.sync_ns, f.window_ns) AS sync_ratio,
    f.allocation_ns, ratio!(f.allocation_ns, f.window_ns) AS allocation_ratio,
    f.copy_api_ns, ratio!(f.copy_api_ns, f.window_ns) AS copy_api_ratio,
    f.launch_api_ns, ratio!(f.launch_api_ns, f.window_ns) AS launch_api_ratio,
    f.op_dispatch_ns, ratio!(f.op_dispatch_ns, f.window_ns) AS op_dispatch_ratio,
    f.python_ns, ratio!(f.python_ns, f.window_ns) AS python_ratio,
    f.launch_latency_ns, ratio!(f.launch_latency_ns, f.window_ns) AS launch_latency_ratio,
    f.dependency_ns, ratio!(f.dependency_ns, f.window_ns) AS dependency_ratio,
    f.other_stream_ns, ratio!(f.other_stream_ns, f.window_ns) AS other_stream_ratio,
    f.collective_ns, ratio!(f.collective_ns, f.window_ns) AS collective_ratio,
    f.unlinked_ns, ratio!(f.unlinked_ns, f.window_ns) AS unlinked_ratio,
    f.graph_replay_ns, ratio!(f.graph_replay_ns, f.window_ns) AS graph_replay_ratio,
    f.no_host_events_ns, ratio!(f.no_host_events_ns, f.window_ns) AS no_host_events_ratio,
    f.dispatch_ns, ratio!(f.dispatch_ns, f.window_ns) AS dispatch_ratio,
    f.host_ns, ratio!(f.host_ns, f.window_ns) AS host_ratio,
    f.device_wait_ns, ratio!(f.device_wait_ns, f.window_ns) AS device_wait_ratio,
    f.cannot_tell_ns, ratio!(f.cannot_tell_ns, f.window_ns) AS cannot_tell_ratio,
    f.switch_ns, ratio!(f.switch_ns, f.window_ns) AS switch_ratio, f.switch_count,
    f.gap_count, f.sync_count,
    t.top_sync_name, t.top_sync_op_name, t.top_python_name, t.top_dispatch_name,
    f.step_count, g.graph_launch_count
FROM filled f
LEFT JOIN tops t ON t.rank = f.rank AND t.device = f.device
JOIN graph_launches g ON g.rank = f.rank
