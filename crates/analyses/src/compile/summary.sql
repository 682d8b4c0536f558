--! question = "What did torch.compile do in all: graph breaks, recompilations, cache?"
--! row = "one rank: its compilations"
--! window = "recording"
--! needs = ["ranks", "compile_time", "compile_recompilations", "compile_graph_breaks"]
--! order = ["rank"]
--! when_empty = "the run has no rank"
--! [columns]
--! rank = "rank"
--! has_log = "there is a log of torch.compile of this rank (TORCH_TRACE)"
--! compile_count = { doc = "compilations of functions and of backward passes; absent without a log, as all below", unit = "count", metric = "rank" }
--! compile_ns = { doc = "their duration, where the log says", unit = "ns", metric = "rank" }
--! in_steps_ns = { doc = "part of it within steps of the recording; absent if the log, or the trace, does not say when", unit = "ns", metric = "rank" }
--! recompile_count = { doc = "recompilations", unit = "count", metric = "rank" }
--! recompile_ns = { doc = "their duration", unit = "ns", metric = "rank" }
--! most_recompile_count = { doc = "recompilations of the function with most of them; 0 without any", unit = "count", metric = "rank" }
--! recompile_function = "that function"
--! recompile_file = "its file"
--! recompile_line = "its first line"
--! recompile_reason = "guard that failed in its last recompilation"
--! graph_break_count = { doc = "graph breaks", unit = "count", metric = "rank" }
--! graph_break_line_count = { doc = "lines at which graphs break", unit = "count", metric = "rank" }
--! break_file = "file of the line with most graph breaks"
--! break_line = "that line"
--! break_code = "its code"
--! break_reason = "reason of the break"
--! break_hint = "advice by PyTorch"
--! cache_hit_count = { doc = "compilations that took all their graphs from the cache", unit = "count", metric = "rank" }
--! cache_miss_count = { doc = "compilations that looked for a graph in the cache and did not find it", unit = "count", metric = "rank" }
--! cache_miss_ns = { doc = "their duration", unit = "ns", metric = "rank" }
--! cache_bypass_count = { doc = "compilations that could not use the cache", unit = "count", metric = "rank" }
--! fail_count = { doc = "functions that could not be compiled", unit = "count", metric = "rank" }
WITH totals AS (
    SELECT
        rank, count(*) AS compile_count, coalesce(sum(dur_ns), 0) AS compile_ns, sum(in_steps_ns) AS in_steps_ns,
        count_if!(cache = 'hit') AS cache_hit_count,
        count_if!(cache = 'miss') AS cache_miss_count,
        sum_if!(coalesce(dur_ns, 0), cache = 'miss') AS cache_miss_ns,
        count_if!(cache = 'bypass') AS cache_bypass_count,
        count_if!(fail_reason IS NOT NULL) AS fail_count
    FROM compile_time
    GROUP BY rank
),
recompiled AS (
    SELECT
        rank, function, file, line, reason, function_count,
        row_number() OVER (PARTITION BY rank ORDER BY function_count DESC, function_ns DESC, file, line, number DESC) AS place,
        count(*) OVER (PARTITION BY rank) AS recompile_count,
        sum(dur_ns) OVER (PARTITION BY rank) AS recompile_ns
    FROM compile_recompilations
),
breaks AS (
    SELECT
        rank, file, line, code, reason, hint,
        row_number() OVER (PARTITION BY rank ORDER BY break_count DESC, file, line, reason) AS place,
        sum(break_count) OVER (PARTITION BY rank) AS graph_break_count,
        count(*) OVER (PARTITION BY rank) AS graph_break_line_count
    FROM compile_graph_breaks
)
SELECT
    k.rank,
    t.rank IS NOT NULL OR b.rank IS NOT NULL AS has_log,
    t.compile_count, t.compile_ns, t.in_steps_ns,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(r.recompile_count, 0) END AS recompile_count,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(r.recompile_ns, 0) END AS recompile_ns,
    CASE WHEN t.rank IS NOT NULL THEN coalesce(r.function_count, 0) END AS most_recompile_count,
    r.function AS recompile_function, r.file AS recompile_file, r.line AS recompile_line, r.reason AS recompile_reason,
    CASE WHEN t.rank IS NOT NULL OR b.rank IS NOT NULL THEN coalesce(b.graph_break_count, 0) END AS graph_break_count,
    CASE WHEN t.rank IS NOT NULL OR b.rank IS NOT NULL THEN coalesce(b.graph_break_line_count, 0) END AS graph_break_line_count,
    b.file AS break_file, b.line AS break_line, b.code AS break_code, b.reason AS break_reason, b.hint AS break_hint,
    t.cache_hit_count, t.cache_miss_count, t.cache_miss_ns, t.cache_bypass_count, t.fail_count
FROM ranks k
LEFT JOIN totals t ON t.rank = k.rank
LEFT JOIN recompiled r ON r.rank = k.rank AND r.place = 1
LEFT JOIN breaks b ON b.rank = k.rank AND b.place = 1
