--! question = "How long does each step take?"
--! row = "one complete step of one rank"
--! window = "complete_steps"
--! needs = ["complete_steps"]
--! order = ["rank", "ts_ns"]
--! requires = ["steps"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: see steps.source; trace: no steps found, the whole recording counts as one"
--! ts_ns = { doc = "start, not before the device work of earlier steps has ended", unit = "ns" }
--! dur_ns = { doc = "until host and device are done with it", unit = "ns", metric = "step" }
--! is_last = "the last step that was recorded"
--! is_anchored = "its duration compares with that of other steps; false for a first step before which no device work was recorded, if later steps start after their start on the host by more than 2 % of their time: the device may have been busy with earlier work too"
--! is_warm_up = "a first step that takes much longer than the others, see complete_steps"
--! is_counted = "views of complete steps count it: it is anchored and no warm-up"
SELECT rank, step, source, ts_ns, dur_ns, is_last, is_anchored, is_warm_up, is_counted
FROM complete_steps
