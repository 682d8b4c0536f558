--! question = "Which causes share the critical path?"
--! row = "one rank: its critical path, each nanosecond under one cause"
--! window = "recording"
--! needs = ["critical_path", "critical_windows"]
--! order = ["rank"]
--! when_empty = "the trace holds no event"
--! [columns]
--! rank = "rank"
--! window_ns = { doc = "length of the window", unit = "ns", metric = "rank" }
--! data_loading_ns = { doc = "time on the path loading data on the host", unit = "ns", metric = "rank" }
--! data_loading_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! operator_ns = { doc = "time on the path in an operator's own host time", unit = "ns", metric = "rank" }
--! operator_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! python_ns = { doc = "time on the path in Python", unit = "ns", metric = "rank" }
--! python_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! annotation_ns = { doc = "time on the path on the host in a named range that nothing inside explains", unit = "ns", metric = "rank" }
--! annotation_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! runtime_call_ns = { doc = "time on the path in calls into the device runtime", unit = "ns", metric = "rank" }
--! runtime_call_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! gap_ns = { doc = "time on the path on the host outside any event", unit = "ns", metric = "rank" }
--! gap_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! launch_delay_ns = { doc = "time on the path from submission to start of device work", unit = "ns", metric = "rank" }
--! launch_delay_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! kernel_ns = { doc = "time on the path computing on the device", unit = "ns", metric = "rank" }
--! kernel_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! communication_ns = { doc = "time on the path communicating", unit = "ns", metric = "rank" }
--! communication_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! copy_ns = { doc = "time on the path copying or filling on the device", unit = "ns", metric = "rank" }
--! copy_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! kernel_kernel_delay_ns = { doc = "time on the path on the device after what it waited for was over", unit = "ns", metric = "rank" }
--! kernel_kernel_delay_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! sync_ns = { doc = "time on the path in waiting calls that nothing on the device explains", unit = "ns", metric = "rank" }
--! sync_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! other_ns = { doc = "time on the path unexplained", unit = "ns", metric = "rank" }
--! other_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! host_ns = { doc = "operator, python, annotation, runtime_call and gap together", unit = "ns", metric = "rank" }
--! host_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! after_sync_ns = { doc = "of host_ns, time between a call that waited for the device and the next launch: what waits expose", unit = "ns", metric = "rank" }
--! after_sync_ratio = { doc = "that time over the window", unit = "ratio", metric = "rank" }
--! unlinked_count = { doc = "device activities whose launch is not in the trace: the more, the less the path can say", unit = "count", metric = "rank" }
WITH sums AS (
    SELECT
        rank,
        sum_if!(dur_ns, bound_by = 'data_loading') AS data_loading_ns,
        sum_if!(dur_ns, host_kind = 'operator') AS operator_ns,
        sum_if!(dur_ns, host_kind = 'python') AS python_ns,
        sum_if!(dur_ns, host_kind = 'annotation') AS annotation_ns,
        sum_if!(dur_ns, host_kind = 'runtime_call') AS runtime_call_ns,
        sum_if!(dur_ns, host_kind = 'gap') AS gap_ns,
        sum_if!(dur_ns, bound_by = 'launch_delay') AS launch_delay_ns,
        sum_if!(dur_ns, bound_by = 'kernel') AS kernel_ns,
        sum_if!(dur_ns, bound_by = 'communication') AS communication_ns,
        sum_if!(dur_ns, bound_by = 'copy') AS copy_ns,
        sum_if!(dur_ns, bound_by = 'kernel_kernel_delay') AS kernel_kernel_delay_ns,
        sum_if!(dur_ns, bound_by = 'sync') AS sync_ns,
        sum_if!(dur_ns, bound_by = 'other') AS other_ns,
        sum_if!(dur_ns, bound_by = 'host') AS host_ns,
        sum_if!(dur_ns, bound_by = 'host' AND after_sync IS NOT NULL) AS after_sync_ns
    FROM critical_path
    GROUP BY rank
)
SELECT
    w.rank,
    w.dur_ns AS window_ns,
    s.data_loading_ns,
    ratio!(s.data_loading_ns, w.dur_ns) AS data_loading_ratio,
    s.operator_ns,
    ratio!(s.operator_ns, w.dur_ns) AS operator_ratio,
    s.python_ns,
    ratio!(s.python_ns, w.dur_ns) AS python_ratio,
    s.annotation_ns,
    ratio!(s.annotation_ns, w.dur_ns) AS annotation_ratio,
    s.runtime_call_ns,
    ratio!(s.runtime_call_ns, w.dur_ns) AS runtime_call_ratio,
    s.gap_ns,
    ratio!(s.gap_ns, w.dur_ns) AS gap_ratio,
    s.launch_delay_ns,
    ratio!(s.launch_delay_ns, w.dur_ns) AS launch_delay_ratio,
    s.kernel_ns,
    ratio!(s.kernel_ns, w.dur_ns) AS kernel_ratio,
    s.communication_ns,
    ratio!(s.communication_ns, w.dur_ns) AS communication_ratio,
    s.copy_ns,
    ratio!(s.copy_ns, w.dur_ns) AS copy_ratio,
    s.kernel_kernel_delay_ns,
    ratio!(s.kernel_kernel_delay_ns, w.dur_ns) AS kernel_kernel_delay_ratio,
    s.sync_ns,
    ratio!(s.sync_ns, w.dur_ns) AS sync_ratio,
    s.other_ns,
    ratio!(s.other_ns, w.dur_ns) AS other_ratio,
    s.host_ns,
    ratio!(s.host_ns, w.dur_ns) AS host_ratio,
    s.after_sync_ns,
    ratio!(s.after_sync_ns, w.dur_ns) AS after_sync_ratio,
    w.unlinked_count
FROM critical_windows w
JOIN sums s ON s.rank = w.rank
