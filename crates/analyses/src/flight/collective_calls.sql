--! question = "Which collective did a rank call at each number of a process group?"
--! row = "one collective that one rank called: one operation, or those of a coalesced call"
--! window = "recording"
--! needs = ["flight_calls"]
--! order = ["rank", "group_name", "group_ranks", "seq"]
--! requires = ["flight_records"]
--! when_empty = "the run has no dump of PyTorch's Flight Recorder with a collective"
--! [columns]
--! rank = "rank"
--! group_name = "process group, as PyTorch names it"
--! group_ranks = "its global ranks, as the dump states them; empty if it does not"
--! seq = "number of the collective in the group"
--! operation = "operation, or all of a coalesced call"
--! call = "the same with sizes and types"
--! progress = "the least of its operations: scheduled, started, failed or completed"
--! signature = "what must be the same on all ranks: operations, sizes and types"
--! size_key = "the sizes of it"
--! dtype_key = "the types of it"
--! input_element_count = { doc = "elements of all inputs", unit = "count" }
--! output_element_count = { doc = "elements of all outputs", unit = "count" }
--! ts_ns = { doc = "time of the call", unit = "ns" }
--! source = "line of the program that called"
--! function = "its function"
WITH calls AS (
    SELECT
        rank, group_name, group_ranks, seq,
        string_agg(operation, ' + ' ORDER BY op_id, record_id) AS operation,
        string_agg(call, ' + ' ORDER BY op_id, record_id) AS call,
        min(CASE progress WHEN 'scheduled' THEN 0 WHEN 'started' THEN 1 WHEN 'failed' THEN 2 ELSE 3 END) AS progress,
        string_agg(input_key || '>' || output_key, ' + ' ORDER BY op_id, record_id) AS size_key,
        string_agg(dtype_key, ' + ' ORDER BY op_id, record_id) AS dtype_key,
        sum(input_element_count) AS input_element_count, sum(output_element_count) AS output_element_count,
        min(ts_ns) AS ts_ns, min(source) AS source, min(function) AS function
    FROM flight_calls
    WHERE seq IS NOT NULL AND group_name IS NOT NULL
    GROUP BY rank, group_name, group_ranks, seq
)
SELECT
    rank, group_name, group_ranks, seq, operation, call,
    CASE progress WHEN 0 THEN 'scheduled' WHEN 1 THEN 'started' WHEN 2 THEN 'failed' ELSE 'completed' END AS progress,
    operation || ' ' || size_key || ' ' || dtype_key AS signature, size_key, dtype_key,
    input_element_count, output_element_count, ts_ns, source, function
FROM calls
