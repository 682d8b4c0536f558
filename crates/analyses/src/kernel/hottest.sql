--! question = "Which one kernel takes the most time on each GPU, and what limits it?"
--! row = "one device of one rank, with the kernel that takes most of its time"
--! window = "counted_steps"
--! needs = ["device_work", "device_windows", "cpu_ops", "op_roofline"]
--! order = ["rank", "device"]
--! requires = ["device_activity"]
--! when_empty = "the trace holds no kernels that compute"
--! [columns]
--! rank = "rank"
--! device = "device ordinal"
--! name = "kernel"
--! op_name = "operator that launches it; absent if the trace does not say"
--! input_dims = "shape of each input of that operator, JSON; absent without record_shapes=True"
--! shapes = "the same in short: 64x32, 32x16; only where op_roofline has it"
--! call_count = { doc = "executions", unit = "count", metric = "device" }
--! kernel_ns = { doc = "its time", unit = "ns", metric = "device" }
--! kernel_ratio = { doc = "that over the time of all kernels that compute", unit = "ratio", metric = "device" }
--! window_ratio = { doc = "that over the analyzed window", unit = "ratio", metric = "device" }
--! kind = "kind of operator, see op_roofline"
--! bound = "limit of the operator, see op_roofline"
--! tflops_per_s = { doc = "operations of the operator over its time, 10^12 per second", metric = "device" }
--! gb_per_s = { doc = "bytes of its inputs and results over its time, 10^9 a second", unit = "gb_per_s", metric = "device" }
--! efficiency_ratio = { doc = "of the operator, see op_roofline; absent where it is implausible", unit = "ratio", metric = "device" }
-- One kernel is one name launched by one operator for inputs of one shape.
WITH groups AS (
    SELECT
        k.rank, k.device, k.name, k.op_name, o.input_dims, o.input_types,
        count(*) AS call_count, sum(k.dur_ns) AS kernel_ns, min(w.window_ns) AS window_ns
    FROM device_work k
    JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
    LEFT JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op
    WHERE k.category = 'kernel' AND k.kind = 'computation' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns
    GROUP BY k.rank, k.device, k.name, k.op_name, o.input_dims, o.input_types
),
ranked AS (
    SELECT
        *,
        sum(kernel_ns) OVER (PARTITION BY rank, device) AS all_ns,
        row_number() OVER (PARTITION BY rank, device ORDER BY kernel_ns DESC, name, input_dims) AS place
    FROM groups
),
-- Of several masks or strides the one with most time.
modeled_calls AS (
    SELECT
        rank, device, name, input_dims, input_types, shapes, kind, bound, tflops_per_s, gb_per_s,
        CASE WHEN NOT is_implausible THEN efficiency_ratio END AS efficiency_ratio,
        row_number() OVER (
            PARTITION BY rank, device, name, input_dims, input_types ORDER BY kernel_ns DESC, details
        ) AS place
    FROM op_roofline
)
SELECT
    r.rank, r.device, r.name, r.op_name, r.input_dims, m.shapes, r.call_count, r.kernel_ns,
    ratio!(r.kernel_ns, r.all_ns) AS kernel_ratio,
    ratio!(r.kernel_ns, r.window_ns) AS window_ratio,
    m.kind, m.bound, m.tflops_per_s, m.gb_per_s, m.efficiency_ratio
FROM ranked r
LEFT JOIN modeled_calls m
    ON m.rank = r.rank AND m.device = r.device AND m.name = r.op_name
    AND m.input_dims = r.input_dims AND m.input_types = r.input_types AND m.place = 1
WHERE r.place = 1
