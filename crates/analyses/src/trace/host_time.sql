--! question = "Which operators and runtime calls take the time of the host?"
--! row = "operators or runtime calls of one name, on the host thread of a rank that is longest in them; the five with most time"
--! window = "recording"
--! needs = ["ranks", "cpu_ops", "runtime_calls"]
--! order = ["rank", "name", "kind"]
--! sort = ["self_ns"]
--! when_empty = "the trace holds no operators and no calls of a device's runtime"
--! [columns]
--! rank = "rank"
--! name = "operator or function"
--! kind = "operator or call (of the runtime or driver of a device)"
--! call_count = { doc = "calls", unit = "count", metric = "operator" }
--! self_ns = { doc = "their time, operators and runtime calls inside left out", unit = "ns", metric = "operator" }
--! self_ratio = { doc = "share of window_ns", unit = "ratio", metric = "operator" }
--! launch_count = { doc = "launches of kernels and graphs directly in operators of that name", unit = "count", metric = "operator" }
--! outside_count = { doc = "of calls, those in no operator", unit = "count", metric = "operator" }
--! op_name = "of calls, the operator that makes most of them; absent for operators, and if no operator makes any"
--! window_ns = { doc = "from the first event of the rank to the end of the last", unit = "ns", metric = "operator" }
--! host_ns = { doc = "time of that thread in any operator or runtime call", unit = "ns", metric = "operator" }
--! host_ratio = { doc = "share of window_ns", unit = "ratio", metric = "operator" }
--! thread_count = { doc = "threads of the rank with operators or runtime calls", unit = "count", metric = "operator" }
--! rank_launch_count = { doc = "launches of kernels and graphs by the rank", unit = "count", metric = "operator" }
WITH events AS (
    SELECT rank, thread, CAST(name AS VARCHAR) AS name, 'operator' AS kind, self_dur_ns, event_id, CAST(NULL AS BIGINT) AS op
    FROM cpu_ops
    UNION ALL
    SELECT rank, thread, CAST(name AS VARCHAR), 'call', self_dur_ns, event_id, op FROM runtime_calls
),
by_thread AS (
    SELECT rank, thread, sum(self_dur_ns) AS host_ns FROM events GROUP BY rank, thread
),
busiest AS (
    SELECT rank, thread, host_ns, thread_count
    FROM (
        SELECT
            *,
            row_number() OVER (PARTITION BY rank ORDER BY host_ns DESC, thread) AS place,
            count(*) OVER (PARTITION BY rank) AS thread_count
        FROM by_thread
    )
    WHERE place = 1
),
own AS (
    SELECT e.rank, e.name, e.kind, e.self_dur_ns, e.event_id, e.op
    FROM events e
    JOIN busiest b ON b.rank = e.rank AND b.thread = e.thread
),
by_name AS (
    SELECT
        rank, name, kind, count(*) AS call_count, sum(self_dur_ns) AS self_ns,
        count_if!(kind = 'call' AND op IS NULL) AS outside_count
    FROM own
    GROUP BY rank, name, kind
),
top AS (
    SELECT *
    FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY self_ns DESC, name) AS place FROM by_name)
    WHERE place <= 5
),
made AS (
    SELECT c.rank, c.name AS call_name, CAST(o.name AS VARCHAR) AS op_name, count(*) AS n
    FROM runtime_calls c
    JOIN cpu_ops o ON o.rank = c.rank AND o.event_id = c.op
    GROUP BY c.rank, c.name, o.name
),
makers AS (
    SELECT rank, CAST(call_name AS VARCHAR) AS name, first_value(op_name ORDER BY n DESC, op_name) AS op_name
    FROM made
    GROUP BY rank, call_name
),
launched AS (
    SELECT rank, op_name AS name, sum(n) AS launch_count
    FROM (SELECT rank, op_name, n, CAST(call_name AS VARCHAR) AS call_name FROM made)
    WHERE is_launch!(call_name)
    GROUP BY rank, op_name
),
launches AS (
    SELECT rank, count_if!(is_launch!(name)) AS launch_count FROM runtime_calls GROUP BY rank
)
SELECT
    t.rank, t.name, t.kind, t.call_count, t.self_ns,
    ratio!(t.self_ns, r.end_ns - r.start_ns) AS self_ratio,
    CASE WHEN t.kind = 'operator' THEN coalesce(l.launch_count, 0) ELSE 0 END AS launch_count,
    t.outside_count,
    CASE WHEN t.kind = 'call' THEN m.op_name END AS op_name,
    r.end_ns - r.start_ns AS window_ns,
    b.host_ns,
    ratio!(b.host_ns, r.end_ns - r.start_ns) AS host_ratio,
    b.thread_count,
    coalesce(s.launch_count, 0) AS rank_launch_count
FROM top t
JOIN busiest b ON b.rank = t.rank
JOIN ranks r ON r.rank = t.rank
LEFT JOIN makers m ON m.rank = t.rank AND m.name = t.name
LEFT JOIN launched l ON l.rank = t.rank AND l.name = t.name
LEFT JOIN launches s ON s.rank = t.rank
