--! question = "Which source lines do the kernels of torch.compile spend their time on?"
--! row = "one source line of one kernel that Inductor generated, or of one function of a library that its code calls, on one rank"
--! window = "recording"
--! sort = ["line_ns"]
--! needs = ["kernels", "cpu_ops", "annotations", "compiled_kernels", "ranks"]
--! order = ["rank", "kernel", "file", "line", "function", "code"]
--! when_empty = "the trace holds no kernel of torch.compile: on GPUs their names begin with triton_; on the CPU they are recorded with torch._inductor.config.cpp.enable_kernel_profile = True"
--! [columns]
--! rank = "rank"
--! kernel = "kernel; extern_kernels.mm for a function of a library"
--! evidence = "log: by the graph in the log of torch.compile; stack: the line that called the compiled function; absent: the line is unknown"
--! file = "file"
--! line = "line"
--! function = "function; absent without a log"
--! code = "code of the line; absent without a log"
--! split_by = "what the kernel's time is split by: bytes that the line moves, nodes of the graph, or stacks; absent if it is not split"
--! graph_count = { doc = "compiled graphs that may have run the kernel: more than one if they have kernels of that name and the trace does not say which ran; their shares are averaged", unit = "count" }
--! call_count = { doc = "executions of the kernel", unit = "count" }
--! kernel_ns = { doc = "time of the kernel: on the device, or on the host for cpp_fused kernels and on ranks without a GPU", unit = "ns" }
--! line_ns = { doc = "part of it that the line gets; the lines of a kernel sum to kernel_ns", unit = "ns" }
-- A line's part is proportional to the bytes that its nodes read from outside of the kernel, and those that they hand on to
-- other lines and kernels. The operator `## Call CompiledFxGraph <key> ##` around a launch says which graph ran.
WITH calls AS (
    SELECT
        rank, thread, ts_ns, ts_ns + dur_ns AS end_ns, split_part(CAST(name AS VARCHAR), ' ', 4) AS graph_key,
        row_number() OVER (PARTITION BY rank, thread ORDER BY ts_ns, event_id) AS number
    FROM (
        SELECT rank, thread, ts_ns, dur_ns, name, event_id FROM cpu_ops
        UNION ALL
        SELECT rank, thread, ts_ns, dur_ns, name, event_id FROM annotations WHERE NOT on_device
    )
    WHERE name LIKE '## Call CompiledFxGraph % ##'
),
-- Functions of libraries, which run as operators: the nth call in the code of the graph is the nth operator of that name in a
-- call of the graph, if their numbers are equal.
library_calls AS (
    SELECT
        rank, CAST(graph_key AS VARCHAR) AS graph_key, CAST(name AS VARCHAR) AS kernel,
        'aten::' || substr(CAST(name AS VARCHAR), length('extern_kernels.') + 1) AS op_name,
        count(DISTINCT call_number) AS call_count
    FROM compiled_kernels
    WHERE backend = 'extern' AND call_number IS NOT NULL AND name LIKE 'extern\_kernels.%'
    GROUP BY 1, 2, 3, 4
),
library_points AS (
    SELECT rank, thread, ts_ns, 1 AS call, CAST(NULL AS VARCHAR) AS op_name, CAST(NULL AS BIGINT) AS op, CAST(NULL AS BIGINT) AS dur_ns
    FROM calls
    UNION ALL
    SELECT rank, thread, ts_ns, 0, CAST(name AS VARCHAR), event_id, dur_ns
    FROM cpu_ops
    WHERE CAST(name AS VARCHAR) IN (SELECT DISTINCT op_name FROM library_calls)
),
library_numbered AS (
    SELECT
        rank, thread, ts_ns, op_name, op, dur_ns,
        running_sum!(call, PARTITION BY rank, thread ORDER BY ts_ns, call DESC, op) AS number
    FROM library_points
),
library_ops AS (
    SELECT
        n.rank, n.thread, n.ts_ns, n.ts_ns + n.dur_ns AS end_ns, n.dur_ns, n.op_name, c.graph_key,
        row_number() OVER (PARTITION BY n.rank, n.thread, n.number, n.op_name ORDER BY n.ts_ns, n.op) - 1 AS call_number,
        count(*) OVER (PARTITION BY n.rank, n.thread, n.number, n.op_name) AS op_count,
        row_number() OVER (PARTITION BY n.rank, n.thread ORDER BY n.ts_ns, n.op) AS number
    FROM library_numbered n
    JOIN calls c ON c.rank = n.rank AND c.thread = n.thread AND c.number = n.number
    WHERE n.op IS NOT NULL AND n.ts_ns < c.end_ns
),
-- Their time on the device is that of the kernels launched between their start and their end.
launch_points AS (
    SELECT rank, thread, ts_ns, 0 AS is_launch, number, end_ns, CAST(0 AS BIGINT) AS dur_ns FROM library_ops
    UNION ALL
    SELECT rank, launch_thread, launch_ts_ns, 1, NULL, NULL, dur_ns FROM kernels WHERE launch_ts_ns IS NOT NULL
),
launch_numbered AS (
    SELECT
        rank, thread, ts_ns, is_launch, dur_ns,
        running_max!(number, PARTITION BY rank, thread ORDER BY ts_ns, is_launch) AS number,
        running_max!(end_ns, PARTITION BY rank, thread ORDER BY ts_ns, is_launch) AS until_ns
    FROM launch_points
),
device_times AS (
    SELECT rank, thread, number, sum(dur_ns) AS device_ns
    FROM launch_numbered
    WHERE is_launch = 1 AND ts_ns < until_ns
    GROUP BY rank, thread, number
),
library_runs AS (
    SELECT
        o.rank, o.thread, o.ts_ns, l.kernel || ':' || CAST(o.call_number AS VARCHAR) AS kernel,
        CASE WHEN r.vendor = 'cpu' THEN o.dur_ns ELSE coalesce(d.device_ns, 0) END AS dur_ns
    FROM library_ops o
    JOIN library_calls l ON l.rank = o.rank AND l.graph_key = o.graph_key AND l.op_name = o.op_name AND l.call_count = o.op_count
    JOIN ranks r ON r.rank = o.rank
    LEFT JOIN device_times d ON d.rank = o.rank AND d.thread = o.thread AND d.number = o.number
),
kernel_names AS (
    SELECT DISTINCT CAST(name AS VARCHAR) AS name FROM compiled_kernels WHERE backend <> 'extern'
),
runs AS (
    SELECT
        rank, launch_thread AS thread, launch_ts_ns AS ts_ns, CAST(name AS VARCHAR) AS kernel, dur_ns,
        CAST(source AS VARCHAR) AS source
    FROM kernels
    WHERE regexp_like(CAST(name AS VARCHAR), '^triton_(poi|red|per|tem|for|mm|unk)_')
        OR CAST(name AS VARCHAR) IN (SELECT DISTINCT name FROM kernel_names)
    UNION ALL
    SELECT
        rank, thread, ts_ns, regexp_replace(CAST(name AS VARCHAR), '^graph_[0-9]+_', ''), dur_ns,
        CAST(source AS VARCHAR)
    FROM cpu_ops
    WHERE regexp_like(CAST(name AS VARCHAR), '^(graph_[0-9]+_)?cpp_fused_')
    UNION ALL
    SELECT rank, thread, ts_ns, kernel, dur_ns, NULL FROM library_runs
),
points AS (
    SELECT rank, thread, ts_ns, 1 AS call, CAST(NULL AS VARCHAR) AS kernel, CAST(NULL AS BIGINT) AS dur_ns, CAST(NULL AS VARCHAR) AS source
    FROM calls
    UNION ALL
    SELECT rank, thread, ts_ns, 0, kernel, dur_ns, source FROM runs
),
numbered AS (
    SELECT
        rank, thread, ts_ns, kernel, dur_ns, source,
        running_sum!(call, PARTITION BY rank, thread ORDER BY ts_ns, call DESC) AS number
    FROM points
),
-- Kernels by name, graph and calling line.
sums AS (
    SELECT
        n.rank, n.kernel, n.source,
        CASE WHEN n.ts_ns < c.end_ns THEN c.graph_key END AS graph_key,
        count(*) AS call_count, sum(n.dur_ns) AS kernel_ns
    FROM numbered n
    LEFT JOIN calls c ON c.rank = n.rank AND c.thread = n.thread AND c.number = n.number
    WHERE n.kernel IS NOT NULL
    GROUP BY 1, 2, 3, 4
),
-- A graph that was compiled twice, after a reset, has the same rows twice.
shares AS (
    SELECT DISTINCT
        rank, CAST(name AS VARCHAR) || coalesce(':' || CAST(call_number AS VARCHAR), '') AS kernel, coalesce(CAST(graph_key AS VARCHAR), '') AS graph_key,
        coalesce(CAST(graph_key AS VARCHAR), CAST(compile_id AS VARCHAR) || ' ' || coalesce(CAST(graph_id AS VARCHAR), '')) AS graph,
        CAST(file AS VARCHAR) AS file, line, CAST(function AS VARCHAR) AS function, CAST(code AS VARCHAR) AS code,
        CAST(split_by AS VARCHAR) AS split_by, share_ppm
    FROM compiled_kernels
    WHERE backend <> 'extern' OR call_number IS NOT NULL
),
runs_by_key AS (
    SELECT rank, kernel, graph_key, sum(call_count) AS call_count, sum(kernel_ns) AS kernel_ns
    FROM sums
    GROUP BY rank, kernel, graph_key
),
known AS (
    SELECT DISTINCT rank, kernel, graph_key FROM shares
),
-- Those of the graph that ran; of all graphs with such a kernel where the trace, or the log, does not say.
matched AS (
    SELECT
        r.rank, r.kernel, r.graph_key, r.kernel_ns,
        s.graph, s.file, s.line, s.function, s.code, s.split_by, s.share_ppm
    FROM runs_by_key r
    LEFT JOIN known k ON k.rank = r.rank AND k.kernel = r.kernel AND k.graph_key = r.graph_key
    JOIN shares s ON s.rank = r.rank AND s.kernel = r.kernel
    WHERE k.kernel IS NULL OR s.graph_key = r.graph_key
),
weights AS (
    SELECT
        rank, kernel, graph_key, kernel_ns, file, line, function, code,
        min(split_by) AS split_by, sum(share_ppm) AS weight
    FROM matched
    GROUP BY rank, kernel, graph_key, kernel_ns, file, line, function, code
),
totals AS (
    SELECT rank, kernel, graph_key, count(DISTINCT graph) AS graph_count, sum(share_ppm) AS total
    FROM matched
    GROUP BY rank, kernel, graph_key
),
-- Whole nanoseconds, by largest remainder. The product of two weights fits, that of a time and a weight may not.
floors AS (
    SELECT
        w.rank, w.kernel, w.graph_key, w.kernel_ns, w.file, w.line, w.function, w.code, w.split_by, t.graph_count,
        w.kernel_ns / t.total * w.weight + w.kernel_ns % t.total * w.weight / t.total AS floor_ns,
        w.kernel_ns % t.total * w.weight % t.total AS remainder
    FROM weights w
    JOIN totals t ON t.rank = w.rank AND t.kernel = w.kernel
        AND (t.graph_key = w.graph_key OR (t.graph_key IS NULL AND w.graph_key IS NULL))
),
ranked AS (
    SELECT
        rank, kernel, graph_key, file, line, function, code, split_by, graph_count, floor_ns,
        kernel_ns - sum(floor_ns) OVER (PARTITION BY rank, kernel, graph_key) AS left_ns,
        row_number() OVER (PARTITION BY rank, kernel, graph_key ORDER BY remainder DESC, file, line, function, code) AS place
    FROM floors
),
lines AS (
    SELECT
        rank, regexp_replace(kernel, ':[0-9]+\z', '') AS kernel, 'log' AS evidence, file, line, function, code, split_by, graph_count,
        floor_ns + CASE WHEN place <= left_ns THEN 1 ELSE 0 END AS line_ns
    FROM ranked
    UNION ALL
    SELECT
        s.rank, s.kernel, CASE WHEN s.source IS NOT NULL THEN 'stack' END,
        regexp_replace(s.source, ':[0-9]+\z', ''),
        TRY_CAST(regexp_replace(s.source, '^.*:', '') AS BIGINT),
        NULL, NULL, NULL, 0, s.kernel_ns
    FROM sums s
    LEFT JOIN (SELECT DISTINCT rank, kernel FROM shares) k ON k.rank = s.rank AND k.kernel = s.kernel
    WHERE k.kernel IS NULL
),
kernel_sums AS (
    SELECT rank, regexp_replace(kernel, ':[0-9]+\z', '') AS kernel, sum(call_count) AS call_count, sum(kernel_ns) AS kernel_ns
    FROM runs_by_key
    GROUP BY 1, 2
)
SELECT
    l.rank, l.kernel, l.evidence, l.file, l.line, l.function, l.code,
    min(l.split_by) AS split_by, max(l.graph_count) AS graph_count, k.call_count, k.kernel_ns,
    sum(l.line_ns) AS line_ns
FROM lines l
JOIN kernel_sums k ON k.rank = l.rank AND k.kernel = l.kernel
GROUP BY l.rank, l.kernel, l.evidence, l.file, l.line, l.function, l.code, k.call_count, k.kernel_ns
