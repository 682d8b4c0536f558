--! question = "Which steps do the analyses count, and when do they begin and end, their GPU work included?"
--! row = "one counted step of one rank, extended to the device work it launched"
--! window = "counted_steps"
--! needs = ["complete_steps"]
--! order = ["rank", "ts_ns"]
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: see steps.source; trace: no steps found, the whole recording counts as one"
--! ts_ns = { doc = "start, not before the device work of earlier steps has ended", unit = "ns" }
--! end_ns = { doc = "end on the host or on the device, whichever is later", unit = "ns" }
--! dur_ns = { doc = "duration", unit = "ns" }
--! host_ts_ns = { doc = "start on the host", unit = "ns" }
--! host_end_ns = { doc = "end on the host", unit = "ns" }
--! device_event_count = { doc = "device activities launched inside the step", unit = "count" }
--! is_last = "the last step that was recorded"
-- The one definition of the steps that count: complete, comparable with the others, and no warm-up. Means, counts and
-- shares of a step refer to these steps in every view.
SELECT rank, step, source, ts_ns, end_ns, dur_ns, host_ts_ns, host_end_ns, device_event_count, is_last
FROM complete_steps
WHERE is_counted
