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
        sum(CASE WHEN cause = 'data_loading' THEN dur_ns ELSE 0 END) AS dataloader_ns,
        sum(CASE WHEN cause = 'synchronisation' THEN dur_ns ELSE 0 END) AS sync_ns,
        sum(CASE WHEN cause = 'allocation' THEN dur_ns ELSE 0 END) AS allocation_ns,
        sum(CASE WHEN cause = 'copy_api' THEN dur_ns ELSE 0 END) AS copy_api_ns,
        sum(CASE WHEN cause = 'launch_api' THEN dur_ns ELSE 0 END) AS launch_api_ns,
        sum(CASE WHEN cause = 'op_dispatch' THEN dur_ns ELSE 0 END) AS op_dispatch_ns,
        sum(CASE WHEN cause = 'python' THEN dur_ns ELSE 0 END) AS python_ns,
        sum(CASE WHEN cause = 'launch_latency' THEN dur_ns ELSE 0 END) AS launch_latency_ns,
        sum(CASE WHEN cause = 'dependency' THEN dur_ns ELSE 0 END) AS dependency_ns,
        sum(CASE WHEN cause = 'other_stream' THEN dur_ns ELSE 0 END) AS other_stream_ns,
        sum(CASE WHEN cause = 'collective' THEN dur_ns ELSE 0 END) AS collective_ns,
        sum(CASE WHEN cause = 'unlinked' THEN dur_ns ELSE 0 END) AS unlinked_ns,
        sum(CASE WHEN cause = 'graph_replay' THEN dur_ns ELSE 0 END) AS graph_replay_ns,
        sum(CASE WHEN cause = 'no_host_events' THEN dur_ns ELSE 0 END) AS no_host_events_ns,
        sum(CASE WHEN cause = 'dependency' AND gap_end_ns - gap_ts_ns < 10000 THEN dur_ns ELSE 0 END) AS switch_ns,
        sum(CASE WHEN cause = 'dependency' AND gap_end_ns - gap_ts_ns < 10000 THEN 1 ELSE 0 END) AS switch_count,
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
    f.idle_ns, CAST(f.idle_ns AS DOUBLE) / nullif(f.window_ns, 0) AS idle_ratio,
    f.dataloader_ns, CAST(f.dataloader_ns AS DOUBLE) / nullif(f.window_ns, 0) AS dataloader_ratio,
    f.sync_ns, CAST(f.sync_ns AS DOUBLE) / nullif(f.window_ns, 0) AS sync_ratio,
    f.allocation_ns, CAST(f.allocation_ns AS DOUBLE) / nullif(f.window_ns, 0) AS allocation_ratio,
    f.copy_api_ns, CAST(f.copy_api_ns AS DOUBLE) / nullif(f.window_ns, 0) AS copy_api_ratio,
    f.launch_api_ns, CAST(f.launch_api_ns AS DOUBLE) / nullif(f.window_ns, 0) AS launch_api_ratio,
    f.op_dispatch_ns, CAST(f.op_dispatch_ns AS DOUBLE) / nullif(f.window_ns, 0) AS op_dispatch_ratio,
    f.python_ns, CAST(f.python_ns AS DOUBLE) / nullif(f.window_ns, 0) AS python_ratio,
    f.launch_latency_ns, CAST(f.launch_latency_ns AS DOUBLE) / nullif(f.window_ns, 0) AS launch_latency_ratio,
    f.dependency_ns, CAST(f.dependency_ns AS DOUBLE) / nullif(f.window_ns, 0) AS dependency_ratio,
    f.other_stream_ns, CAST(f.other_stream_ns AS DOUBLE) / nullif(f.window_ns, 0) AS other_stream_ratio,
    f.collective_ns, CAST(f.collective_ns AS DOUBLE) / nullif(f.window_ns, 0) AS collective_ratio,
    f.unlinked_ns, CAST(f.unlinked_ns AS DOUBLE) / nullif(f.window_ns, 0) AS unlinked_ratio,
    f.graph_replay_ns, CAST(f.graph_replay_ns AS DOUBLE) / nullif(f.window_ns, 0) AS graph_replay_ratio,
    f.no_host_events_ns, CAST(f.no_host_events_ns AS DOUBLE) / nullif(f.window_ns, 0) AS no_host_events_ratio,
    f.dispatch_ns, CAST(f.dispatch_ns AS DOUBLE) / nullif(f.window_ns, 0) AS dispatch_ratio,
    f.host_ns, CAST(f.host_ns AS DOUBLE) / nullif(f.window_ns, 0) AS host_ratio,
    f.device_wait_ns, CAST(f.device_wait_ns AS DOUBLE) / nullif(f.window_ns, 0) AS device_wait_ratio,
    f.cannot_tell_ns, CAST(f.cannot_tell_ns AS DOUBLE) / nullif(f.window_ns, 0) AS cannot_tell_ratio,
    f.switch_ns, CAST(f.switch_ns AS DOUBLE) / nullif(f.window_ns, 0) AS switch_ratio, f.switch_count,
    f.gap_count, f.sync_count,
    t.top_sync_name, t.top_sync_op_name, t.top_python_name, t.top_dispatch_name,
    f.step_count, g.graph_launch_count
FROM filled f
LEFT JOIN tops t ON t.rank = f.rank AND t.device = f.device
JOIN graph_launches g ON g.rank = f.rank
