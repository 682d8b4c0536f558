--! question = "Which time span do idle and busy shares of a GPU refer to?"
--! row = "one device of one rank: the window that idle shares refer to"
--! window = "counted_steps"
--! needs = ["device_steps", "device_work"]
--! order = ["rank", "device"]
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! start_ns = { doc = "start of the first step that counts, or where the device has done what was launched before it", unit = "ns" }
--! end_ns = { doc = "end of the last complete step, the device work it launched included", unit = "ns" }
--! window_ns = { doc = "from start to end", unit = "ns" }
--! step_count = { doc = "steps that count; 0 where the whole recording stands for one", unit = "count" }
-- The same window for everything that is said about use and idle time of a device, so that causes add
-- up to what they explain.
SELECT
    d.rank, d.device, s.start_ns, s.end_ns,
    s.end_ns - s.start_ns AS window_ns,
    s.step_count
FROM (SELECT DISTINCT rank, device FROM device_work) d
JOIN (
    SELECT
        rank, min(ts_ns) AS start_ns, max(end_ns) AS end_ns,
        sum(CASE WHEN source = 'trace' THEN 0 ELSE 1 END) AS step_count
    FROM device_steps
    GROUP BY rank
) s ON s.rank = d.rank
