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
--! rank_count = { doc = "ranks that hold it", unit = "count" }
-- Traces of several ranks are a property of the run.
SELECT rank, CAST(capability AS VARCHAR) AS capability, count(*) OVER (PARTITION BY capability) AS rank_count
FROM capabilities
UNION ALL
SELECT CAST(NULL AS INT) AS rank, 'several_ranks' AS capability, count(*) AS rank_count
FROM capabilities
WHERE capability = 'timeline'
HAVING count(*) > 1
