--! question = "Which microbatches does each rank of a pipeline compute, and when?"
--! row = "one pass of one microbatch on one rank: forward, backward, or weight"
--! window = "counted_steps"
--! needs = ["pipeline_messages", "annotations", "cpu_ops", "device_work", "device_steps"]
--! order = ["rank", "step", "pass"]
--! when_empty = "no rank sends or receives messages within complete steps, so the trace shows no pipeline; or neither ranges nor operators mark the passes"
--! [columns]
--! rank = "rank"
--! step = "step number"
--! pass = "number of the pass within the step, from 0"
--! stage = "stage of the model, as the name of the range says; absent where no name does: pipeline_stages has the stage of the rank"
--! kind = "forward; backward (of inputs and weights, or of inputs only where there are weight passes); weight (gradients of weights only); overlapped (one range for a forward and a backward)"
--! microbatch = "number of the microbatch: from the name of the range, else the nth of its kind on this stage in this step, from 0"
--! named_by = "evidence for the pass: torch (PP:0F1 or Forward 1, torch.distributed.pipelining), megatron (forward-compute), deepspeed (ForwardPass, _exec_forward_pass), or pattern (operators between two messages: no range has such a name)"
--! host_ts_ns = { doc = "start on the host: of the range, else of the first operator", unit = "ns" }
--! host_dur_ns = { doc = "duration on the host: of the range, with messages that it waits for; else to the end of the last operator", unit = "ns" }
--! device_ts_ns = { doc = "start of the first computing kernel that it launches; absent where it launches none", unit = "ns" }
--! device_dur_ns = { doc = "from there to the end of the last one", unit = "ns" }
--! device_busy_ns = { doc = "of that, time in which such kernels run", unit = "ns" }
--! ts_ns = { doc = "start of the computation: on the device if the rank uses one, else the first operator of the pass that does not communicate", unit = "ns" }
--! dur_ns = { doc = "from there to the end of the computation", unit = "ns" }
-- Names: _get_profiler_function_name and ScheduleGPipe in torch/distributed/pipelining/schedules.py; the timers of
-- megatron/core/pipeline_parallel; the instructions of deepspeed/runtime/pipe. Schedule1F1B names nothing.
WITH messages AS (
    SELECT rank, step, host_ts_ns AS ts_ns FROM pipeline_messages WHERE step IS NOT NULL
),
stage_steps AS (
    SELECT rank, step, host_ts_ns, host_end_ns
    FROM device_steps
    WHERE rank IN (SELECT DISTINCT rank FROM messages)
),
written_names AS (
    SELECT DISTINCT CAST(name AS VARCHAR) AS name FROM annotations WHERE NOT on_device
),
parts AS (
    SELECT
        name,
        regexp_match(name, '^PP:([0-9]+)(F|B|I|W)([0-9]+)\z') AS torch_parts,
        regexp_match(name, '^(Forward|Backward) ([0-9]+)\z') AS single_parts,
        regexp_match(name, '^(forward|backward)-compute\z') AS megatron_parts,
        regexp_match(name, '^(?:PipelineEngine[.])?_?(?:exec_)?(Forward|Backward|forward|backward)_?[Pp]ass(?:[(].*[)])?\z') AS deepspeed_parts,
        name LIKE 'PP:(%)OVERLAP\_F\_B' AS is_overlapped
    FROM written_names
),
names AS (
    SELECT
        name,
        CAST(torch_parts[1] AS BIGINT) AS stage,
        CASE
            WHEN is_overlapped THEN 'overlapped'
            WHEN torch_parts[2] = 'W' THEN 'weight'
            WHEN torch_parts[2] = 'F' OR lower(coalesce(single_parts[1], megatron_parts[1], deepspeed_parts[1])) = 'forward' THEN 'forward'
            ELSE 'backward'
        END AS kind,
        CAST(coalesce(torch_parts[3], single_parts[2]) AS BIGINT) AS microbatch,
        CASE
            WHEN megatron_parts IS NOT NULL THEN 'megatron'
            WHEN deepspeed_parts IS NOT NULL THEN 'deepspeed'
            ELSE 'torch'
        END AS named_by
    FROM parts
    WHERE torch_parts IS NOT NULL OR single_parts IS NOT NULL OR megatron_parts IS NOT NULL
        OR deepspeed_parts IS NOT NULL OR is_overlapped
),
marks AS (
    SELECT a.rank, a.step, n.stage, n.kind, n.microbatch, n.named_by, a.ts_ns, a.ts_ns + a.dur_ns AS end_ns
    FROM annotations a
    JOIN names n ON n.name = a.name
    JOIN stage_steps s ON s.rank = a.rank AND s.step = a.step
    WHERE NOT a.on_device AND a.dur_ns > 0
),
-- Operators of the pipeline's steps, without those that communicate.
work AS (
    SELECT o.rank, o.step, o.ts_ns, o.ts_ns + o.dur_ns AS end_ns,
        o.name LIKE 'autograd::engine::evaluate\_function%' AS is_backward
    FROM cpu_ops o
    JOIN stage_steps s ON s.rank = o.rank AND s.step = o.step
    WHERE o.name LIKE 'aten::%' OR o.name LIKE 'autograd::engine::evaluate\_function%'
),
-- Where no range has a name: operators between two messages are one pass, and those of autograd are a backward pass.
timeline AS (
    SELECT rank, step, ts_ns, end_ns, is_backward, 0 AS is_message, CAST(0 AS BIGINT) AS optimizer_end_ns
    FROM work
    WHERE rank NOT IN (SELECT DISTINCT rank FROM marks)
    UNION ALL
    SELECT rank, step, ts_ns, ts_ns AS end_ns, false, 1, 0
    FROM messages
    WHERE rank NOT IN (SELECT DISTINCT rank FROM marks)
    UNION ALL
    SELECT rank, step, ts_ns, ts_ns AS end_ns, false, 1, ts_ns + dur_ns
    FROM annotations
    WHERE NOT on_device AND name LIKE 'Optimizer.%'
        AND rank NOT IN (SELECT DISTINCT rank FROM marks) AND rank IN (SELECT DISTINCT rank FROM messages)
),
seen AS (
    SELECT
        rank, step, ts_ns, end_ns, is_message, is_backward,
        running_sum!(is_message, PARTITION BY rank, step ORDER BY ts_ns, is_message) AS message_count,
        running_max!(optimizer_end_ns, PARTITION BY rank, step ORDER BY ts_ns, is_message) AS optimizer_end_ns,
        running_max!(CASE WHEN is_backward THEN end_ns ELSE 0 END, PARTITION BY rank, step ORDER BY ts_ns, is_message) AS backward_end_ns
    FROM timeline
),
operators AS (
    SELECT rank, step, ts_ns, end_ns, message_count, is_backward OR ts_ns < backward_end_ns AS is_backward
    FROM seen
    WHERE is_message = 0 AND ts_ns >= optimizer_end_ns
),
changes AS (
    SELECT
        rank, step, ts_ns, end_ns, is_backward,
        CASE
            WHEN message_count = lag(message_count) OVER (PARTITION BY rank, step ORDER BY ts_ns, end_ns DESC)
                AND is_backward = lag(is_backward) OVER (PARTITION BY rank, step ORDER BY ts_ns, end_ns DESC) THEN 0
            ELSE 1
        END AS is_first
    FROM operators
),
islands AS (
    SELECT rank, step, number, bool_or(is_backward) AS is_backward, min(ts_ns) AS ts_ns, max(end_ns) AS end_ns
    FROM (
        SELECT *, running_sum!(is_first, PARTITION BY rank, step ORDER BY ts_ns, end_ns DESC) AS number FROM changes
    )
    GROUP BY rank, step, number
),
-- Between messages, programs also allocate buffers and scale gradients. Operators that take less than a tenth of the
-- longest pass of their kind, or that run after the last backward pass, are not a pass.
found AS (
    SELECT rank, step, is_backward, ts_ns, end_ns
    FROM (
        SELECT
            *,
            max(end_ns - ts_ns) OVER (PARTITION BY rank, step, is_backward) AS longest_ns,
            max(CASE WHEN is_backward THEN ts_ns END) OVER (PARTITION BY rank, step) AS last_backward_ns
        FROM islands
    )
    WHERE (end_ns - ts_ns) * 10 >= longest_ns AND end_ns > ts_ns AND ts_ns <= coalesce(last_backward_ns, ts_ns)
),
passes AS (
    SELECT rank, step, stage, kind, microbatch, named_by, ts_ns, end_ns FROM marks
    UNION ALL
    SELECT rank, step, CAST(NULL AS BIGINT), CASE WHEN is_backward THEN 'backward' ELSE 'forward' END, CAST(NULL AS BIGINT), 'pattern', ts_ns, end_ns
    FROM found
),
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY rank ORDER BY ts_ns, end_ns) AS number
    FROM passes
),
-- An operator and a kernel belong to the last pass that began before, if that had not ended.
assigned AS (
    SELECT
        rank, ts_ns, end_ns, start_ns, is_device,
        running_max!(number, PARTITION BY rank ORDER BY ts_ns, is_pass DESC) AS number,
        running_max!(pass_end_ns, PARTITION BY rank ORDER BY ts_ns, is_pass DESC) AS pass_end_ns,
        is_pass
    FROM (
        SELECT rank, ts_ns, CAST(0 AS BIGINT) AS start_ns, CAST(0 AS BIGINT) AS end_ns, number, end_ns AS pass_end_ns, 1 AS is_pass, 0 AS is_device
        FROM numbered
        UNION ALL
        SELECT rank, ts_ns, ts_ns AS start_ns, end_ns, 0, 0, 0, 0 FROM work
        UNION ALL
        SELECT rank, ts_ns, ts_ns AS start_ns, ts_ns + dur_ns, 0, 0, 0, 2
        FROM pipeline_messages
        WHERE is_timed AND direction = 'recv' AND ts_ns = host_ts_ns
        UNION ALL
        SELECT rank, launch_ts_ns, ts_ns, end_ns, 0, 0, 0, 1
        FROM device_work
        WHERE category = 'kernel' AND kind = 'computation' AND launch_ts_ns IS NOT NULL
            AND rank IN (SELECT DISTINCT rank FROM messages)
    )
),
contents AS (
    SELECT
        rank, number, is_device, start_ns, end_ns,
        max_before!(end_ns, PARTITION BY rank, number, is_device ORDER BY start_ns) AS busy_until_ns,
        coalesce(max(CASE WHEN is_device = 2 THEN end_ns END) OVER (PARTITION BY rank, number), 0) AS received_ns
    FROM assigned
    WHERE is_pass = 0 AND ts_ns < pass_end_ns
),
sums AS (
    SELECT
        rank, number,
        min(CASE WHEN is_device = 1 THEN start_ns END) AS device_ts_ns,
        max(CASE WHEN is_device = 1 THEN end_ns END) AS device_end_ns,
        sum_if!(greatest(end_ns - greatest(start_ns, coalesce(busy_until_ns, start_ns)), 0), is_device = 1) AS device_busy_ns,
        -- Operators that start before the receive of their range returns do not compute.
        min(CASE WHEN is_device = 0 AND start_ns >= received_ns THEN start_ns END) AS work_ts_ns,
        max(CASE WHEN is_device = 0 THEN end_ns END) AS work_end_ns
    FROM contents
    GROUP BY rank, number
),
device_ranks AS (
    SELECT DISTINCT rank FROM device_work
)
SELECT
    p.rank, p.step,
    row_number() OVER (PARTITION BY p.rank, p.step ORDER BY p.number) - 1 AS pass,
    p.stage, p.kind,
    CASE
        WHEN p.microbatch IS NOT NULL OR p.kind = 'overlapped' THEN p.microbatch
        ELSE row_number() OVER (PARTITION BY p.rank, p.step, p.stage, p.kind ORDER BY p.number) - 1
    END AS microbatch,
    p.named_by,
    p.ts_ns AS host_ts_ns,
    p.end_ns - p.ts_ns AS host_dur_ns,
    s.device_ts_ns,
    s.device_end_ns - s.device_ts_ns AS device_dur_ns,
    CASE WHEN s.device_ts_ns IS NOT NULL THEN s.device_busy_ns END AS device_busy_ns,
    CASE WHEN d.rank IS NOT NULL THEN s.device_ts_ns ELSE coalesce(s.work_ts_ns, p.ts_ns) END AS ts_ns,
    CASE WHEN d.rank IS NOT NULL THEN s.device_end_ns - s.device_ts_ns ELSE coalesce(s.work_end_ns - s.work_ts_ns, p.end_ns - p.ts_ns) END AS dur_ns
FROM numbered p
LEFT JOIN sums s ON s.rank = p.rank AND s.number = p.number
LEFT JOIN device_ranks d ON d.rank = p.rank
