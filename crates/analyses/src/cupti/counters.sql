--! question = "Which values did CUPTI's hardware counters have for each kernel?"
--! row = "one hardware counter of one kernel, with the operators that launched the kernel"
--! window = "recording"
--! needs = ["profiler_ranges", "range_counters"]
--! order = ["rank", "position", "counter"]
--! requires = ["hardware_counters"]
--! when_empty = "no kernel was measured by the range profiler (CUPTI): record with experimental_config=_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)"
--! [columns]
--! rank = "rank"
--! position = "place of the kernel in the rank's order of kernels, from 0"
--! event_id = "event of the kernel"
--! name = "kernel"
--! launch = "launching call; absent where kernels and launches could not be paired"
--! op = "operator that launched it"
--! op_stack = "names of the operators around the launch, outermost first, JSON"
--! top_level_op = "the outermost of them"
--! bottom_level_op = "the innermost of them"
--! step = "step of the launching call"
--! counter = "counter, as CUPTI names it"
--! value = { doc = "its value", unit = "number" }
-- HTA's get_cupti_counter_data_with_operators in long form: there each counter is a column.
SELECT
    r.rank,
    r.position,
    r.event_id,
    r.name,
    r.launch,
    r.op,
    r.op_stack,
    r.top_op_name AS top_level_op,
    r.op_name AS bottom_level_op,
    r.step,
    c.name AS counter,
    c.value
FROM profiler_ranges r
JOIN range_counters c ON c.rank = r.rank AND c.event_id = r.event_id
