--! question = "Which layers wait for their parameters in FSDP, in forward and in backward?"
--! row = "one kind of collective for one module in one pass on one rank"
--! window = "counted_steps"
--! needs = ["fsdp_collectives"]
--! sort = ["exposed_ns"]
--! order = ["rank", "module", "pass", "name"]
--! when_empty = "the trace holds no ranges of FSDP (FSDP::all_gather, of fully_shard in PyTorch 2.4 and later) with collectives in complete steps"
--! [columns]
--! rank = "rank"
--! module = "module, see fsdp_collectives"
--! pass = "forward or backward"
--! name = "all_gather, reduce_scatter and the like"
--! call_count = { doc = "collectives", unit = "count" }
--! sum_ns = { doc = "their time", unit = "ns" }
--! exposed_ns = { doc = "part of it in which nothing is computed", unit = "ns" }
--! overlap_ratio = { doc = "share of their time that computation hides", unit = "ratio" }
--! mean_message_bytes = { doc = "mean size; absent where the trace does not tell it", unit = "bytes" }
SELECT
    rank, module, pass, name,
    count(*) AS call_count,
    sum(dur_ns) AS sum_ns,
    sum(exposed_ns) AS exposed_ns,
    1 - ratio!(sum(exposed_ns), sum(dur_ns)) AS overlap_ratio,
    avg(CAST(message_bytes AS DOUBLE)) AS mean_message_bytes
FROM fsdp_collectives
GROUP BY rank, module, pass, name
