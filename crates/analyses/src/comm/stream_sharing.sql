--! question = "Does communication run on streams that also compute?"
--! row = "one rank with communication on its devices: communication on streams that also compute"
--! window = "counted_steps"
--! scope = "run"
--! needs = ["device_work", "device_windows", "comm_exposed"]
--! order = ["rank"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no communicating kernel"
--! [columns]
--! rank = "rank"
--! comm_ns = { doc = "durations of communicating kernels in the window, added up", unit = "ns", metric = "rank" }
--! shared_ns = { doc = "of these, on streams that also run a tenth or more of the computation of the device", unit = "ns", metric = "rank" }
--! shared_ratio = { doc = "share of comm_ns; absent if no stream is known", unit = "ratio", metric = "rank" }
--! exposed_ratio = { doc = "share of the window in which communication runs and computation does not, see comm_exposed", unit = "ratio", metric = "rank" }
WITH kernels_in_window AS (
    SELECT w.rank, w.device, k.stream, k.kind, k.dur_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    WHERE k.category = 'kernel' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
),
streams AS (
    SELECT
        rank, device, stream,
        sum_if!(dur_ns, kind = 'communication') AS comm_ns,
        sum_if!(dur_ns, kind = 'computation') AS computing_ns
    FROM kernels_in_window
    GROUP BY rank, device, stream
),
streams_of_device AS (
    SELECT *, sum(computing_ns) OVER (PARTITION BY rank, device) AS device_computing_ns FROM streams
),
sharing AS (
    SELECT
        rank,
        sum(comm_ns) AS comm_ns,
        sum_if!(comm_ns, computing_ns >= 0.1 * device_computing_ns AND computing_ns > 0) AS shared_ns,
        bool_or(stream >= 0) AS has_streams
    FROM streams_of_device
    GROUP BY rank
    HAVING sum(comm_ns) > 0
)
SELECT
    s.rank, s.comm_ns, s.shared_ns,
    CASE WHEN s.has_streams THEN ratio!(s.shared_ns, s.comm_ns) END AS shared_ratio,
    e.exposed_ratio
FROM sharing s
LEFT JOIN comm_exposed e ON e.rank = s.rank
