--! question = "Which calls of an operator take far longer than other calls with the same inputs?"
--! row = "one call on the CPU that takes at least 0.2 ms and three times as long as three quarters of the calls of that operator with inputs of the same shapes and types; ranks without device activity only"
--! window = "counted_steps"
--! sort = ["delay_ns"]
--! needs = ["cpu_ops", "op_cpu_work", "device_steps"]
--! order = ["rank", "ts_ns", "thread", "name"]
--! requires = ["host_operators", "operator_shapes"]
--! when_empty = "no operator whose shapes were recorded (record_shapes=True) takes far longer than usual, or a device runs the work"
--! [columns]
--! rank = "rank"
--! thread = "index of the thread, see threads"
--! name = "operator"
--! input_dims = "shape of each input, JSON"
--! step = "step of the call; absent outside of all steps"
--! ts_ns = { doc = "start", unit = "ns" }
--! dur_ns = { doc = "time with the operators inside", unit = "ns" }
--! self_dur_ns = { doc = "time without the operators inside", unit = "ns", metric = "operator" }
--! usual_ns = { doc = "median self time of the calls with the same inputs", unit = "ns", metric = "operator" }
--! delay_ns = { doc = "self_dur_ns less usual_ns", unit = "ns", metric = "operator" }
WITH windows AS (
    SELECT s.rank, min(s.host_ts_ns) AS start_ns, max(s.host_end_ns) AS end_ns
    FROM device_steps s
    JOIN op_cpu_work w ON w.rank = s.rank AND NOT w.has_device
    GROUP BY s.rank
),
-- The time of convolutions, copies and pooling depends on the memory format as well, which is not recorded.
calls AS (
    SELECT
        o.rank, o.thread, CAST(o.name AS VARCHAR) AS name, CAST(o.input_dims AS VARCHAR) AS input_dims,
        CAST(o.input_types AS VARCHAR) AS input_types, o.step, o.ts_ns, o.dur_ns, o.self_dur_ns
    FROM cpu_ops o
    JOIN windows w ON w.rank = o.rank AND o.ts_ns >= w.start_ns AND o.ts_ns < w.end_ns
    WHERE o.input_dims IS NOT NULL AND o.name LIKE 'aten::%'
        AND NOT regexp_like(o.name, 'conv|copy_|pool|batch_norm|contiguous|clone|rnn|lstm|gru|empty')
),
usual AS (
    SELECT
        rank, name, input_dims, input_types,
        percentile_cont(CAST(self_dur_ns AS DOUBLE), 0.75) AS three_quarters_ns,
        median(CAST(self_dur_ns AS DOUBLE)) AS usual_ns
    FROM calls
    GROUP BY rank, name, input_dims, input_types
    HAVING count(*) >= 4 AND max(self_dur_ns) >= 200000
)
SELECT
    c.rank, c.thread, c.name, c.input_dims, c.step, c.ts_ns, c.dur_ns, c.self_dur_ns,
    CAST(u.usual_ns AS BIGINT) AS usual_ns,
    c.self_dur_ns - CAST(u.usual_ns AS BIGINT) AS delay_ns
FROM calls c
JOIN usual u ON u.rank = c.rank AND u.name = c.name AND u.input_dims = c.input_dims
    AND u.input_types IS NOT DISTINCT FROM c.input_types
WHERE c.self_dur_ns >= 200000 AND c.self_dur_ns >= 3 * u.three_quarters_ns
