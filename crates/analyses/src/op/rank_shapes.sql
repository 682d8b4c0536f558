--! question = "Do ranks run operators with shapes that no other rank has?"
--! row = "one rank: operators whose input shapes no other rank has"
--! window = "recording"
--! scope = "run"
--! needs = ["op_by_shape"]
--! order = ["rank"]
--! requires = ["operator_shapes"]
--! when_empty = "the trace holds no operators with input shapes (record_shapes=True)"
--! [columns]
--! rank = "rank"
--! host_self_ns = { doc = "time of the rank's operators with recorded shapes, without what is inside them", unit = "ns", metric = "rank" }
--! own_self_ns = { doc = "that of operators with shapes that no other rank has", unit = "ns", metric = "rank" }
--! own_ratio = { doc = "share of such operators; a rank with other batches than the others has a large one", unit = "ratio", metric = "rank" }
--! is_uneven = "more than a fifth of the time is in such operators: the rank works on other batches than the others"
WITH totals AS (
    SELECT rank, name, input_dims, sum(host_self_ns) AS self_ns
    FROM op_by_shape
    WHERE input_dims IS NOT NULL
    GROUP BY rank, name, input_dims
),
shared AS (
    SELECT name, input_dims FROM totals GROUP BY name, input_dims HAVING count(*) > 1
)
SELECT
    t.rank,
    sum(t.self_ns) AS host_self_ns,
    sum_if!(t.self_ns, s.name IS NULL) AS own_self_ns,
    ratio!(sum_if!(t.self_ns, s.name IS NULL), sum(t.self_ns)) AS own_ratio,
    5 * sum_if!(t.self_ns, s.name IS NULL) > sum(t.self_ns) AS is_uneven
FROM totals t
LEFT JOIN shared s ON s.name = t.name AND s.input_dims = t.input_dims
GROUP BY t.rank
ORDER BY t.rank
