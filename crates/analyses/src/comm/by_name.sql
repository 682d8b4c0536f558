--! question = "Which collectives take the most time, and what bandwidth do they reach?"
--! row = "one kind of collective on one rank"
--! window = "recording"
--! sort = ["comm_ns"]
--! scope = "run"
--! needs = ["comm_collectives", "comm_arrivals"]
--! order = ["rank", "name", "backend"]
--! when_empty = "the trace holds no collective: neither a kernel of a communication library, nor record_param_comms, c10d:: or nccl:/gloo: ranges (torch.profiler records them where torch.distributed communicates)"
--! [columns]
--! rank = "rank"
--! name = "collective, see comm_collectives"
--! backend = "library that runs it"
--! call_count = { doc = "calls", unit = "count", metric = "collective" }
--! matched_count = { doc = "of these, matched with those of all other ranks", unit = "count", metric = "collective" }
--! sized_count = { doc = "of the calls, those whose input size is known (record_shapes=True, or a torch that writes sizes of collectives)", unit = "count", metric = "collective" }
--! input_bytes = { doc = "bytes handed in by these, added up; absent if no size is known", unit = "bytes", metric = "collective" }
--! mean_input_bytes = { doc = "bytes handed in by a call", unit = "bytes", metric = "collective" }
--! comm_ns = { doc = "time in which any of the calls runs; absent if no call has a time", unit = "ns", metric = "collective" }
--! mean_comm_ns = { doc = "that time a call that has one", unit = "ns", metric = "collective" }
--! transfer_ns = { doc = "time in which data moves: the last part of each matched call, as long as its shortest on any rank; absent if none is matched", unit = "ns", metric = "collective" }
--! mean_transfer_ns = { doc = "that time a matched call", unit = "ns", metric = "collective" }
--! algorithm_gb_per_s = { doc = "size over data transfer, as nccl-tests' algbw: message bytes of matched calls over their shortest durations; absent if no size is known", unit = "gb_per_s", metric = "collective" }
--! bus_gb_per_s = { doc = "that times what each link carries, as nccl-tests' busbw: all_reduce 2(n-1)/n, all_gather, reduce_scatter and all_to_all (n-1)/n, others 1, with n ranks in the group; absent if a size or a group is unknown", unit = "gb_per_s", metric = "collective" }
WITH calls AS (
    SELECT
        c.rank, c.name, c.backend, c.collective, c.ts_ns, c.input_bytes, a.transfer_ns,
        c.ts_ns + c.dur_ns AS end_ns,
        c.ts_ns + c.dur_ns - a.transfer_ns AS transfer_ts_ns,
        CASE WHEN c.message_bytes > 0 AND a.transfer_ns > 0 THEN CAST(c.message_bytes AS DOUBLE) END AS moved_bytes,
        CASE
            WHEN c.name = 'all_reduce' THEN 2.0 * (c.group_size - 1) / c.group_size
            WHEN c.name IN ('all_gather', 'reduce_scatter', 'all_to_all') THEN 1.0 * (c.group_size - 1) / c.group_size
            ELSE 1.0
        END AS link_factor
    FROM comm_collectives c
    LEFT JOIN comm_arrivals a ON a.rank = c.rank AND a.collective = c.collective
),
earlier AS (
    SELECT
        *,
        max_before!(end_ns, PARTITION BY rank, name, backend ORDER BY ts_ns, collective) AS until_ns,
        max_before!(CASE WHEN transfer_ts_ns IS NOT NULL THEN end_ns END, PARTITION BY rank, name,
            backend ORDER BY transfer_ts_ns, collective) AS transfer_until_ns
    FROM calls
),
sums AS (
    SELECT
        rank, name, backend,
        count(*) AS call_count,
        count(transfer_ts_ns) AS matched_count,
        count(input_bytes) AS sized_count,
        count(end_ns) AS timed_count,
        sum(input_bytes) AS input_bytes,
        sum(greatest(end_ns - greatest(ts_ns, coalesce(until_ns, ts_ns)), 0)) AS comm_ns,
        sum(CASE WHEN transfer_ts_ns IS NOT NULL
            THEN greatest(end_ns - greatest(transfer_ts_ns, coalesce(transfer_until_ns, transfer_ts_ns)), 0)
        END) AS transfer_ns,
        sum(moved_bytes) / sum(CASE WHEN moved_bytes IS NOT NULL THEN transfer_ns END) AS algorithm_gb_per_s,
        sum(moved_bytes * link_factor)
            / sum(CASE WHEN moved_bytes * link_factor IS NOT NULL THEN transfer_ns END) AS bus_gb_per_s
    FROM earlier
    GROUP BY rank, name, backend
)
SELECT
    rank, name, backend, call_count, matched_count, sized_count,
    input_bytes,
    ratio!(input_bytes, sized_count) AS mean_input_bytes,
    CASE WHEN timed_count > 0 THEN comm_ns END AS comm_ns,
    ratio!(comm_ns, timed_count) AS mean_comm_ns,
    transfer_ns,
    ratio!(transfer_ns, matched_count) AS mean_transfer_ns,
    algorithm_gb_per_s,
    bus_gb_per_s
FROM sums
