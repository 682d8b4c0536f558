--! row = "one rank: its critical path, each nanosecond under one cause"
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
        sum(CASE WHEN bound_by = 'data_loading' THEN dur_ns ELSE 0 END) AS data_loading_ns,
        sum(CASE WHEN host_kind = 'operator' THEN dur_ns ELSE 0 END) AS operator_ns,
        sum(CASE WHEN host_kind = 'python' THEN dur_ns ELSE 0 END) AS python_ns,
        sum(CASE WHEN host_kind = 'annotation' THEN dur_ns ELSE 0 END) AS annotation_ns,
        sum(CASE WHEN host_kind = 'runtime_call' THEN dur_ns ELSE 0 END) AS runtime_call_ns,
        sum(CASE WHEN host_kind = 'gap' THEN dur_ns ELSE 0 END) AS gap_ns,
        sum(CASE WHEN bound_by = 'launch_delay' THEN dur_ns ELSE 0 END) AS launch_delay_ns,
        sum(CASE WHEN bound_by = 'kernel' THEN dur_ns ELSE 0 END) AS kernel_ns,
        sum(CASE WHEN bound_by = 'communication' THEN dur_ns ELSE 0 END) AS communication_ns,
        sum(CASE WHEN bound_by = 'copy' THEN dur_ns ELSE 0 END) AS copy_ns,
        sum(CASE WHEN bound_by = 'kernel_kernel_delay' THEN dur_ns ELSE 0 END) AS kernel_kernel_delay_ns,
        sum(CASE WHEN bound_by = 'sync' THEN dur_ns ELSE 0 END) AS sync_ns,
        sum(CASE WHEN bound_by = 'other' THEN dur_ns ELSE 0 END) AS other_ns,
        sum(CASE WHEN bound_by = 'host' THEN dur_ns ELSE 0 END) AS host_ns,
        sum(CASE WHEN bound_by = 'host' AND after_sync IS NOT NULL THEN dur_ns ELSE 0 END) AS after_sync_ns
    FROM critical_path
    GROUP BY rank
)
SELECT
    w.rank,
    w.dur_ns AS window_ns,
    s.data_loading_ns,
    CAST(s.data_loading_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS data_loading_ratio,
    s.operator_ns,
    CAST(s.operator_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS operator_ratio,
    s.python_ns,
    CAST(s.python_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS python_ratio,
    s.annotation_ns,
    CAST(s.annotation_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS annotation_ratio,
    s.runtime_call_ns,
    CAST(s.runtime_call_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS runtime_call_ratio,
    s.gap_ns,
    CAST(s.gap_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS gap_ratio,
    s.launch_delay_ns,
    CAST(s.launch_delay_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS launch_delay_ratio,
    s.kernel_ns,
    CAST(s.kernel_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS kernel_ratio,
    s.communication_ns,
    CAST(s.communication_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS communication_ratio,
    s.copy_ns,
    CAST(s.copy_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS copy_ratio,
    s.kernel_kernel_delay_ns,
    CAST(s.kernel_kernel_delay_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS kernel_kernel_delay_ratio,
    s.sync_ns,
    CAST(s.sync_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS sync_ratio,
    s.other_ns,
    CAST(s.other_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS other_ratio,
    s.host_ns,
    CAST(s.host_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS host_ratio,
    s.after_sync_ns,
    CAST(s.after_sync_ns AS DOUBLE) / nullif(w.dur_ns, 0) AS after_sync_ratio,
    w.unlinked_count
FROM critical_windows w
JOIN sums s ON s.rank = w.rank
