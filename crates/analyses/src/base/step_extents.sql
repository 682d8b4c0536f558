--! question = "From when to when do the complete steps of a rank last on the host?"
--! row = "one rank with steps: the extent of its complete steps on the host; of the recording where there are none"
--! window = "counted_steps"
--! needs = ["device_steps"]
--! order = ["rank"]
--! [columns]
--! rank = "rank"
--! start_ns = { doc = "start of the first step", unit = "ns" }
--! end_ns = { doc = "latest end of a step", unit = "ns" }
--! first_end_ns = { doc = "earliest end of a step", unit = "ns" }
--! steps_ns = { doc = "durations of the steps, added up; with the device work that a step launched where that is longer", unit = "ns" }
--! step_count = { doc = "steps that count; 0 where the whole recording stands for one", unit = "count" }
SELECT
    rank,
    min(host_ts_ns) AS start_ns,
    max(host_end_ns) AS end_ns,
    min(host_end_ns) AS first_end_ns,
    sum(greatest(host_end_ns - host_ts_ns, dur_ns)) AS steps_ns,
    sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
FROM device_steps
GROUP BY rank
