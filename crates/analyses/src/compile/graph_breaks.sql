--! question = "Which lines can torch.compile not compile, and why?"
--! row = "one line at which graphs break, by reason"
--! window = "recording"
--! sort = ["break_count"]
--! needs = ["graph_breaks"]
--! order = ["rank", "file", "line", "reason"]
--! requires = ["compile_log"]
--! when_empty = "the run has no log of torch.compile (record with TORCH_TRACE=folder), or the log has no graph breaks"
--! [columns]
--! rank = "rank"
--! file = "file"
--! line = "line"
--! function = "function"
--! code = "code of the line"
--! reason = "reason"
--! explanation = "explanation by PyTorch"
--! hint = "advice by PyTorch"
--! stack = "Python stack of one of them, innermost last"
--! break_count = { doc = "graph breaks: one for each compilation that meets the line", unit = "count" }
SELECT
    rank, file, line, function, code, reason,
    min(explanation) AS explanation, min(hint) AS hint, min(stack) AS stack,
    count(*) AS break_count
FROM graph_breaks
GROUP BY rank, file, line, function, code, reason
