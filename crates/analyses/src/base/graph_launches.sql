--! question = "How many captured GPU graphs does a rank launch?"
--! row = "one rank"
--! window = "recording"
--! needs = ["ranks", "runtime_calls"]
--! order = ["rank"]
--! [columns]
--! rank = "rank"
--! graph_launch_count = { doc = "launches of a captured CUDA or HIP graph", unit = "count" }
SELECT r.rank, count(c.event_id) AS graph_launch_count
FROM ranks r
LEFT JOIN runtime_calls c ON c.rank = r.rank AND c.name LIKE '%GraphLaunch%'
GROUP BY r.rank
