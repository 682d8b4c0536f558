--! question = "How much GPU time does the work under each annotation take?"
--! row = "one device annotation by name on one rank: the work that has it as innermost annotation"
--! window = "before_last_step"
--! sort = ["sum_ns"]
--! needs = ["kernel_annotations"]
--! order = ["rank", "name"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! name = "annotation; absent for work outside of all"
--! kernel_count = { doc = "kernels, copies and fills", unit = "count", metric = "operator" }
--! sum_ns = { doc = "time of all of them, overlap not merged", unit = "ns", metric = "operator" }
--! computation_ns = { doc = "part of computing kernels", unit = "ns", metric = "operator" }
--! communication_ns = { doc = "part of communicating kernels", unit = "ns", metric = "operator" }
--! memory_ns = { doc = "part of copies and fills", unit = "ns", metric = "operator" }
--! ratio = { doc = "share of the time of all device work of the rank", unit = "ratio", metric = "operator" }
WITH sums AS (
    SELECT
        rank, annotation,
        count(*) AS kernel_count,
        sum(dur_ns) AS sum_ns,
        sum_if!(dur_ns, kind = 'computation') AS computation_ns,
        sum_if!(dur_ns, kind = 'communication') AS communication_ns,
        sum_if!(dur_ns, kind = 'memory') AS memory_ns
    FROM kernel_annotations
    GROUP BY rank, annotation
)
SELECT
    rank, annotation AS name, kernel_count, sum_ns, computation_ns, communication_ns, memory_ns,
    ratio!(sum_ns, sum(sum_ns) OVER (PARTITION BY rank)) AS ratio
FROM sums
