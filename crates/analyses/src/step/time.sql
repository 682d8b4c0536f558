--! row = "one complete step of one rank"
--! needs = ["device_steps"]
--! order = ["rank", "ts_ns"]
--! when_empty = "the trace holds no complete step: call prof.step() once per step, and record two or more"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! source = "kind of mark: profiler_step, engine, optimizer or trace (no steps found: the whole recording as one)"
--! ts_ns = { doc = "start, not before the device work of earlier steps has ended", unit = "ns" }
--! dur_ns = { doc = "until host and device are done with it", unit = "ns", metric = "step" }
--! is_last = "the last step that was recorded"
SELECT rank, step, source, ts_ns, dur_ns, is_last
FROM device_steps
