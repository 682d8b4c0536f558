--! question = "Which functions did torch.compile compile again, and which guard failed?"
--! row = "one recompilation of a function"
--! window = "recording"
--! sort = ["dur_ns"]
--! needs = ["compile_time"]
--! order = ["rank", "ts_ns", "compile_id", "number"]
--! requires = ["compile_log"]
--! when_empty = "the run has no log of torch.compile (record with TORCH_TRACE=folder), or the log has no recompilations"
--! [columns]
--! rank = "rank"
--! number = "as in compile_time"
--! compile_id = "id of the compilation: 0/1 is the second one of frame 0"
--! function = "function"
--! file = "its file"
--! line = "its first line"
--! reason = "the guard that failed in the latest of the earlier compilations"
--! reasons = "the guards that failed in all of them, one per line, each with its compilation and the code that it comes from"
--! ts_ns = { doc = "start", unit = "ns" }
--! step = "step in which it starts; absent outside of steps"
--! dur_ns = { doc = "duration, without the backward pass", unit = "ns" }
--! in_steps_ns = { doc = "time within steps of the recording", unit = "ns" }
--! function_count = { doc = "recompilations of the function", unit = "count" }
--! function_ns = { doc = "their duration", unit = "ns" }
SELECT
    rank, number, compile_id, function, file, line,
    split_part(regexp_replace(split_part(recompile_reason, chr(10), 1), '^(![0-9]+/)?[0-9]+/[0-9]+: ', ''), ' # ', 1) AS reason,
    recompile_reason AS reasons,
    ts_ns, step, dur_ns, in_steps_ns,
    count(*) OVER (PARTITION BY rank, file, line, function) AS function_count,
    sum(dur_ns) OVER (PARTITION BY rank, file, line, function) AS function_ns
FROM compile_time
WHERE recompile_reason IS NOT NULL AND phase = 'forward'
