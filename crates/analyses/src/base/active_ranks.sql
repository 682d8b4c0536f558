--! question = "Which ranks have a timeline?"
--! row = "one rank with operators or kernels"
--! window = "recording"
--! needs = ["cpu_ops", "kernels"]
--! order = ["rank"]
--! when_empty = "the run holds neither operators nor kernels"
--! [columns]
--! rank = "rank"
SELECT rank FROM cpu_ops
UNION
SELECT rank FROM kernels
