--! question = "Do the links between events of the trace contradict each other?"
--! row = "one rank: links between events that are missing or impossible"
--! window = "recording"
--! needs = ["ranks", "device_syncs", "runtime_calls", "device_work", "cpu_ops", "collectives"]
--! order = ["rank"]
--! when_empty = "the run contains no trace of the PyTorch Profiler, only recordings of other tools"
--! [columns]
--! rank = "rank"
--! wait_count = { doc = "waits of a stream or of the host for an event", unit = "count", metric = "rank" }
--! unknown_record_count = { doc = "number of these that do not state which record of the event they wait for", unit = "count", metric = "rank" }
--! wrong_record_count = { doc = "waits of a stream for a record that is not in the trace or is later than the wait", unit = "count", metric = "rank" }
--! stream_wait_count = { doc = "waits of the host for a stream", unit = "count", metric = "rank" }
--! early_wait_count = { doc = "number of these that are recorded while a kernel of the stream runs, although the profiler records them once the stream is done", unit = "count", metric = "rank" }
--! collective_count = { doc = "operators that call a collective (record_param_comms)", unit = "count", metric = "rank" }
--! bare_collective_count = { doc = "number of these that lack the name, the type, the sizes or the group size of the collective", unit = "count", metric = "rank" }
--! backward_count = { doc = "sequence numbers of backward operators, by thread of the forward pass", unit = "count", metric = "rank" }
--! shared_backward_count = { doc = "number of these that backward operators of different names share; without AccumulateGrad, which has no sequence number", unit = "count", metric = "rank" }
--! flaw_count = { doc = "number of kinds of these flaws; collectives count only if some, not all, lack their description", unit = "count", metric = "rank" }
-- The checks of torch.profiler._trace_validator (PyTorch 2.15), except the first, which trace_timing makes.
-- tests/golden/validator.rs compares the results.
WITH waits AS (
    SELECT rank, ts_ns, name = 'Stream Wait Event' AS is_of_stream, CASE WHEN wait_on_record >= 0 THEN wait_on_record END AS record
    FROM device_syncs
    WHERE name IN ('Stream Wait Event', 'Event Sync')
),
records AS (
    SELECT rank, record, min(ts_ns) AS record_ts_ns
    FROM (
        SELECT rank, correlation AS record, ts_ns FROM runtime_calls WHERE name LIKE '%EventRecord%'
        UNION ALL
        SELECT rank, external_id, ts_ns FROM runtime_calls WHERE name LIKE '%EventRecord%'
    )
    WHERE record IS NOT NULL
    GROUP BY rank, record
),
event_waits AS (
    SELECT
        w.rank, count(*) AS wait_count,
        count_if!(w.record IS NULL) AS unknown_record_count,
        count_if!(w.is_of_stream AND w.record IS NOT NULL AND coalesce(r.record_ts_ns > w.ts_ns, true)) AS wrong_record_count
    FROM waits w
    LEFT JOIN records r ON r.rank = w.rank AND r.record = w.record
    GROUP BY w.rank
),
-- A wait is ordered before the kernels that start at the same time.
queue AS (
    SELECT rank, coalesce(device, CAST(-1 AS INT)) AS device, coalesce(stream, CAST(-1 AS INT)) AS stream, ts_ns, CAST(NULL AS BIGINT) AS end_ns, 0 AS is_work
    FROM device_syncs
    WHERE name = 'Stream Sync'
    UNION ALL
    SELECT rank, device, stream, ts_ns, end_ns, 1
    FROM device_work
    WHERE category = 'kernel' AND rank IN (SELECT DISTINCT rank FROM device_syncs WHERE name = 'Stream Sync')
),
busy AS (
    SELECT rank, ts_ns, is_work, max_before!(end_ns, PARTITION BY rank, device, stream ORDER BY ts_ns, is_work) AS until_ns
    FROM queue
),
stream_waits AS (
    SELECT rank, count(*) AS stream_wait_count, count_if!(until_ns > ts_ns) AS early_wait_count
    FROM busy
    WHERE is_work = 0
    GROUP BY rank
),
calls AS (
    SELECT
        o.rank, count(*) AS collective_count,
        count_if!(
            c.name IS NULL OR c.dtype IS NULL OR c.input_elements IS NULL OR c.output_elements IS NULL OR c.group_size IS NULL
        ) AS bare_collective_count
    FROM cpu_ops o
    LEFT JOIN collectives c ON c.rank = o.rank AND c.event_id = o.event_id
    WHERE o.name = 'record_param_comms'
    GROUP BY o.rank
),
numbers AS (
    SELECT rank, fwd_thread, sequence, count(DISTINCT name) AS name_count
    FROM (
        SELECT rank, fwd_thread, sequence, CAST(name AS VARCHAR) AS name
        FROM cpu_ops
        WHERE sequence > 0 AND name LIKE '%autograd::engine::evaluate_function:%' AND name NOT LIKE '%AccumulateGrad'
    )
    GROUP BY rank, fwd_thread, sequence
),
backward AS (
    SELECT rank, count(*) AS backward_count, count_if!(name_count > 1) AS shared_backward_count FROM numbers GROUP BY rank
),
counted AS (
    SELECT
        r.rank,
        coalesce(w.wait_count, 0) AS wait_count,
        coalesce(w.unknown_record_count, 0) AS unknown_record_count,
        coalesce(w.wrong_record_count, 0) AS wrong_record_count,
        coalesce(s.stream_wait_count, 0) AS stream_wait_count,
        coalesce(s.early_wait_count, 0) AS early_wait_count,
        coalesce(c.collective_count, 0) AS collective_count,
        coalesce(c.bare_collective_count, 0) AS bare_collective_count,
        coalesce(b.backward_count, 0) AS backward_count,
        coalesce(b.shared_backward_count, 0) AS shared_backward_count
    FROM ranks r
    LEFT JOIN event_waits w ON w.rank = r.rank
    LEFT JOIN stream_waits s ON s.rank = r.rank
    LEFT JOIN calls c ON c.rank = r.rank
    LEFT JOIN backward b ON b.rank = r.rank
    WHERE r.vendor IS NOT NULL
)
SELECT
    *,
    CASE WHEN unknown_record_count > 0 THEN 1 ELSE 0 END
        + CASE WHEN wrong_record_count > 0 THEN 1 ELSE 0 END
        + CASE WHEN early_wait_count > 0 THEN 1 ELSE 0 END
        + CASE WHEN bare_collective_count > 0 AND bare_collective_count < collective_count THEN 1 ELSE 0 END
        + CASE WHEN shared_backward_count > 0 THEN 1 ELSE 0 END AS flaw_count
FROM counted
