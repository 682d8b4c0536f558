--! question = "How much communication does no computation hide?"
--! row = "one rank: communication that no computation overlaps"
--! window = "activity_span"
--! scope = "run"
--! needs = ["comm_overlap", "comm_overview_by_step", "comm_collectives", "ranks", "device_steps", "cpu_ops"]
--! order = ["rank"]
--! requires = ["device_activity", "steps"]
--! when_empty = "the trace holds neither device activity nor a complete step, or only calls of collectives that return before the work is done (nccl:), without the device that does it"
--! [columns]
--! rank = "rank"
--! measured_on = "device: kernels; both: kernels, and collectives that the host runs (gloo, MPI) beside a device, against computing kernels, within complete steps; host: the trace has no device activity, so collectives that the host runs (gloo, MPI) against aten:: operators on any thread, within complete steps; no row for a rank whose collectives all lack a time, see comm_collectives.timed_on"
--! comm_ns = { doc = "communication runs", unit = "ns", metric = "rank" }
--! overlap_ns = { doc = "communication and computation run", unit = "ns", metric = "rank" }
--! exposed_ns = { doc = "communication runs and computation does not", unit = "ns", metric = "rank" }
--! overlap_ratio = { doc = "share of communication that overlaps computation; absent without communication", unit = "ratio", metric = "rank" }
--! exposed_ratio = { doc = "share of the window in which communication runs and computation does not", unit = "ratio", metric = "rank" }
--! cost_ratio = { doc = "exposed_ratio; where the host runs collectives, that of the rank where it is least: the others also wait there for ranks that are late", unit = "ratio", metric = "rank" }
--! window_ns = { doc = "device: from the first device activity to the end of the last; both, host: all complete steps", unit = "ns", metric = "rank" }
-- Without device activity, nccl: ranges only launch: such a rank communicates for an unknown time.
-- Operators nest and ranges repeat, so starts and ends are counted. Steps do not overlap.
WITH cpu_ranks AS (
    SELECT r.rank
    FROM ranks r
    LEFT JOIN (
        SELECT rank, count(dur_ns) AS timed_count FROM comm_collectives GROUP BY rank
    ) c ON c.rank = r.rank
    WHERE r.vendor = 'cpu' AND coalesce(c.timed_count, 1) > 0
),
intervals AS (
    SELECT o.rank, o.ts_ns, o.ts_ns + o.dur_ns AS end_ns, 0 AS communicates, 1 AS computes, 0 AS in_step
    FROM cpu_ops o
    JOIN cpu_ranks h ON h.rank = o.rank
    WHERE o.name LIKE 'aten::%'
    UNION ALL
    SELECT c.rank, c.ts_ns, c.ts_ns + c.dur_ns, 1, 0, 0
    FROM comm_collectives c
    JOIN cpu_ranks h ON h.rank = c.rank
    WHERE c.timed_on = 'host'
    UNION ALL
    SELECT s.rank, s.ts_ns, s.end_ns, 0, 0, 1
    FROM device_steps s
    JOIN cpu_ranks h ON h.rank = s.rank
),
running AS (
    overlap_counts!(intervals, (rank), (communicates, computes, in_step))
),
sums AS (
    SELECT
        rank, 'host' AS measured_on,
        sum_if!(dur_ns, communicates > 0) AS comm_ns,
        sum_if!(dur_ns, communicates > 0 AND computes > 0) AS overlap_ns,
        sum(dur_ns) AS window_ns
    FROM running
    WHERE in_step > 0 AND dur_ns > 0
    GROUP BY rank
    UNION ALL
    SELECT
        rank, 'both',
        sum(communication_ns + overlap_ns),
        sum(overlap_ns),
        sum(step_ns)
    FROM comm_overview_by_step
    WHERE computes_on = 'device' AND rank IN (SELECT DISTINCT rank FROM comm_collectives WHERE timed_on = 'host')
    GROUP BY rank
)
SELECT rank, 'device' AS measured_on, comm_ns, overlap_ns, exposed_ns, overlap_ratio, exposed_ratio,
    exposed_ratio AS cost_ratio, window_ns
FROM comm_overlap
WHERE rank NOT IN (SELECT DISTINCT rank FROM sums)
UNION ALL
SELECT
    rank, measured_on, comm_ns, overlap_ns,
    comm_ns - overlap_ns,
    ratio!(overlap_ns, comm_ns),
    ratio!(comm_ns - overlap_ns, window_ns),
    min(ratio!(comm_ns - overlap_ns, window_ns)) OVER (),
    window_ns
FROM sums
