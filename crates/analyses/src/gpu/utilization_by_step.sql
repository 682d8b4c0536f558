--! question = "How busy is each GPU in each step?"
--! row = "one device in one complete step"
--! window = "counted_steps"
--! needs = ["device_load"]
--! order = ["rank", "device", "step"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no device activity: record the device too (activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! step = "step number"
--! step_ns = { doc = "length of the step", unit = "ns", metric = "step" }
--! busy_ns = { doc = "a kernel, copy or fill runs", unit = "ns", metric = "step" }
--! busy_ratio = { doc = "share of the step in which anything runs", unit = "ratio", metric = "step" }
SELECT
    rank, device, step,
    sum(dur_ns) AS step_ns,
    sum_if!(dur_ns, activity_count > 0) AS busy_ns,
    CAST(sum_if!(dur_ns, activity_count > 0) AS DOUBLE) / sum(dur_ns) AS busy_ratio
FROM device_load
WHERE step IS NOT NULL
GROUP BY rank, device, step
