--! question = "Which steps do the analyses count?"
--! row = "one step of one rank, with its selection by the analyses"
--! window = "all_steps"
--! needs = ["steps", "ranks"]
--! order = ["rank", "ts_ns"]
--! when_empty = "no trace was read"
--! [params]
--! include_last_step = { default = false, doc = "count the work of the last profiler step, though part of it may be missing" }
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: see steps.source; trace: no steps found, the whole recording counts as one"
--! ts_ns = { doc = "start on the host", unit = "ns" }
--! dur_ns = { doc = "length on the host", unit = "ns" }
--! is_last = "the last step of the rank"
--! is_analyzed = "work launched in it counts; the last of several profiler steps is left out, since the recording may cut off what it launched"
SELECT
    s.rank, s.step, s.source, s.ts_ns, s.dur_ns, s.is_last,
    coalesce(s.ts_ns < r.cut_ns OR ($include_last_step AND s.ts_ns <= r.steps_end_ns), true) AS is_analyzed
FROM steps s
JOIN ranks r ON r.rank = s.rank
