--! question = "Which operators and runtime calls take the time of the host?"
--! row = "operators or runtime calls of one name, on the host thread of a rank that is longest in them; the five with most time"
--! window = "recording"
--! needs = ["ranks", "cpu_ops", "runtime_calls", "annotations"]
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
--! longest_ns = { doc = "the longest of these calls", unit = "ns", metric = "operator" }
--! longest_is_first = "it is the first of them"
--! range_name = "range of the program, nearest outside, that holds 80 % of their time or more; absent if none does. Ranges of the profiler, of loaders and of optimizers do not count"
--! launch_count = { doc = "launches of kernels and graphs directly in operators of that name", unit = "count", metric = "operator" }
--! outside_count = { doc = "of calls, those in no operator", unit = "count", metric = "operator" }
--! op_name = "of calls, the operator that makes most of them; absent for operators, and if no operator makes any"
--! window_ns = { doc = "from the first event of the rank to the end of the last", unit = "ns", metric = "operator" }
--! host_ns = { doc = "time of that thread in any operator or runtime call", unit = "ns", metric = "operator" }
--! host_ratio = { doc = "share of window_ns", unit = "ratio", metric = "operator" }
--! thread_count = { doc = "threads of the rank with operators or runtime calls", unit = "count", metric = "operator" }
--! rank_launch_count = { doc = "launches of kernels and graphs by the rank", unit = "count", metric = "operator" }
WITH events AS (
    SELECT rank, thread, CAST(name AS VARCHAR) AS name, 'operator' AS kind, ts_ns, self_dur_ns, event_id, CAST(NULL AS BIGINT) AS op
    FROM cpu_ops
    UNION ALL
    SELECT rank, thread, CAST(name AS VARCHAR), 'call', ts_ns, self_dur_ns, event_id, op FROM runtime_calls
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
    SELECT e.rank, e.thread, e.name, e.kind, e.ts_ns, e.self_dur_ns, e.event_id, e.op
    FROM events e
    JOIN busiest b ON b.rank = e.rank AND b.thread = e.thread
),
by_name AS (
    SELECT
        rank, name, kind, count(*) AS call_count, sum(self_dur_ns) AS self_ns,
        count_if!(kind = 'call' AND op IS NULL) AS outside_count,
        max(self_dur_ns) AS longest_ns,
        first_value(self_dur_ns ORDER BY ts_ns, event_id) AS first_ns
    FROM own
    GROUP BY rank, name, kind
),
top AS (
    SELECT *
    FROM (SELECT *, row_number() OVER (PARTITION BY rank ORDER BY self_ns DESC, name) AS place FROM by_name)
    WHERE place <= 5
),
-- The range that began last before each of these calls.
range_marks AS (
    SELECT a.rank, a.thread, CAST(a.name AS VARCHAR) AS name, a.ts_ns, a.ts_ns + a.dur_ns AS end_ns
    FROM annotations a
    JOIN busiest b ON b.rank = a.rank AND b.thread = a.thread
    WHERE NOT a.on_device
        AND NOT regexp_like(CAST(a.name AS VARCHAR), '^(ProfilerStep#|Optimizer\.|enumerate\(|## Call CompiledFxGraph|PyTorch Profiler)')
),
preceded AS (
    SELECT rank, thread, name, kind, ts_ns, self_dur_ns,
        max_before!(range_ns, PARTITION BY rank, thread ORDER BY ts_ns, is_call) AS range_ns
    FROM (
        SELECT o.rank, o.thread, o.name, o.kind, o.ts_ns, o.self_dur_ns, CAST(NULL AS BIGINT) AS range_ns, 1 AS is_call
        FROM own o
        JOIN top t ON t.rank = o.rank AND t.name = o.name AND t.kind = o.kind
        UNION ALL
        SELECT rank, thread, CAST(NULL AS VARCHAR) AS name, CAST(NULL AS VARCHAR) AS kind, ts_ns, 0 AS self_dur_ns, ts_ns AS range_ns, 0 AS is_call FROM range_marks
    )
),
range_times AS (
    SELECT p.rank, p.name, p.kind, r.name AS range_name, sum(p.self_dur_ns) AS self_ns
    FROM preceded p
    JOIN range_marks r ON r.rank = p.rank AND r.thread = p.thread AND r.ts_ns = p.range_ns AND r.end_ns > p.ts_ns
    WHERE p.kind IS NOT NULL
    GROUP BY p.rank, p.name, p.kind, r.name
),
range_names AS (
    SELECT rank, name, kind, first_value(range_name ORDER BY self_ns DESC, range_name) AS range_name, max(self_ns) AS range_self_ns
    FROM range_times
    GROUP BY rank, name, kind
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
    t.longest_ns,
    t.longest_ns = t.first_ns AS longest_is_first,
    CASE WHEN n.range_self_ns >= 0.8 * t.self_ns THEN n.range_name END AS range_name,
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
LEFT JOIN range_names n ON n.rank = t.rank AND n.name = t.name AND n.kind = t.kind
LEFT JOIN makers m ON m.rank = t.rank AND m.name = t.name
LEFT JOIN launched l ON l.rank = t.rank AND l.name = t.name
LEFT JOIN launches s ON s.rank = t.rank
