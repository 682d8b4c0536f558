--! question = "Which kinds of data does the recording hold, and on which ranks?"
--! row = "one kind of data on one rank that holds it; rules check what they need against these rows"
--! window = "not_timed"
--! scope = "run"
--! needs = ["capabilities"]
--! order = ["rank", "capability"]
--! when_empty = "the kinds of data are not known: the run was stored by an earlier version of Trace Advisor"
--! [columns]
--! rank = "rank; absent if the run as a whole holds the data"
--! capability = "kind of data: operator_shapes, device_activity ... (`advisor tables --capabilities` lists them)"
--! rank_count = { doc = "ranks that hold it", unit = "count", metric = "run" }
SELECT rank, capability, count(rank) OVER (PARTITION BY capability) AS rank_count
FROM capabilities
