--! question = "How does a mean step split into computation, overlapped and exposed communication?"
--! row = "one rank that communicates: its mean step"
--! window = "counted_steps"
--! needs = ["comm_overview_by_step"]
--! order = ["rank"]
--! when_empty = "the trace holds no complete step, or no communication in it: neither a kernel of a communication library nor a collective that the host runs (gloo, MPI)"
--! [columns]
--! rank = "rank"
--! step_count = { doc = "complete steps", unit = "count", metric = "rank" }
--! step_ns = { doc = "mean length of a step, extended to the device work it launched", unit = "ns", metric = "rank" }
--! computation_ns = { doc = "computes and does not communicate, a step", unit = "ns", metric = "rank" }
--! overlap_ns = { doc = "computes and communicates, a step", unit = "ns", metric = "rank" }
--! communication_ns = { doc = "communicates and does not compute, a step", unit = "ns", metric = "rank" }
--! other_ns = { doc = "neither, a step", unit = "ns", metric = "rank" }
--! computation_ratio = { doc = "share of step time", unit = "ratio", metric = "rank" }
--! overlap_ratio = { doc = "share of step time", unit = "ratio", metric = "rank" }
--! communication_ratio = { doc = "share of step time", unit = "ratio", metric = "rank" }
--! other_ratio = { doc = "share of step time", unit = "ratio", metric = "rank" }
--! computes_on = "device or host: where computation was looked for"
WITH means AS (
    SELECT
        rank,
        count(*) AS step_count,
        avg(step_ns) AS step_ns,
        avg(computation_ns) AS computation_ns,
        avg(overlap_ns) AS overlap_ns,
        avg(communication_ns) AS communication_ns,
        avg(other_ns) AS other_ns,
        min(computes_on) AS computes_on
    FROM comm_overview_by_step
    GROUP BY rank
)
SELECT
    rank, step_count, step_ns, computation_ns, overlap_ns, communication_ns, other_ns,
    computation_ns / step_ns AS computation_ratio,
    overlap_ns / step_ns AS overlap_ratio,
    communication_ns / step_ns AS communication_ratio,
    other_ns / step_ns AS other_ratio,
    computes_on
FROM means
