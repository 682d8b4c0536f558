--! question = "What did each rank call, and did it end?"
--! row = "one collective, send or receive that a rank called"
--! window = "recording"
--! needs = ["flight_records"]
--! order = ["rank", "record_id"]
--! requires = ["flight_records"]
--! when_empty = "the run has no dump of PyTorch's Flight Recorder with a record"
--! [columns]
--! rank = "rank"
--! record_id = "number of the record on its rank"
--! group_name = "process group, as PyTorch names it"
--! group_ranks = "its global ranks, as the dump states them; empty if it does not"
--! seq = "number of the collective in its group; absent for sends and receives"
--! p2p_seq = "number of the send or receive in its group on this rank"
--! op_id = "number of the operation, which tells those of a coalesced call apart"
--! operation = "operation"
--! call = "operation with sizes and types"
--! source_rank = "rank that sends; absent for collectives, and if it is unknown"
--! target_rank = "rank that receives; absent for collectives"
--! progress = "scheduled, started, completed or failed (no longer watched, though it did not complete); operations of gloo that ended count as completed: gloo does not say how they ended"
--! input_key = "what must be the same on all ranks: elements of the inputs; empty if they may differ"
--! output_key = "the same for outputs"
--! dtype_key = "types that must be the same on all ranks"
--! input_element_count = { doc = "elements of all inputs", unit = "count" }
--! output_element_count = { doc = "elements of all outputs", unit = "count" }
--! ts_ns = { doc = "time of the call", unit = "ns" }
--! source = "line of the program that called, where the dump has stacks"
--! function = "its function"
-- Which sizes and types must agree follows PyTorch's own analyzer (torch.distributed.flight_recorder), except that shapes of the
-- same number of elements agree.
WITH records AS (
    SELECT
        rank, record_id, CAST(group_name AS VARCHAR) AS group_name, coalesce(CAST(group_ranks AS VARCHAR), '') AS group_ranks,
        collective_seq AS seq, p2p_seq, coalesce(op_id, 0) AS op_id, CAST(operation AS VARCHAR) AS operation,
        source_rank, target_rank, CAST(state AS VARCHAR) AS state, is_retired, CAST(library AS VARCHAR) AS library,
        CAST(input_sizes AS VARCHAR) AS input_sizes, coalesce(CAST(input_dtypes AS VARCHAR), '') AS input_dtypes,
        CAST(output_sizes AS VARCHAR) AS output_sizes, coalesce(CAST(output_dtypes AS VARCHAR), '') AS output_dtypes,
        input_element_count, output_element_count, ts_ns, CAST(file AS VARCHAR) AS file, line, CAST(function AS VARCHAR) AS function,
        CAST(operation AS VARCHAR) IN ('all_to_all', 'all_to_all_single') OR right(CAST(operation AS VARCHAR), 2) = '_v'
            OR CAST(operation AS VARCHAR) LIKE '%\_v\_%' AS is_uneven
    FROM flight_records
),
sized AS (
    SELECT
        *,
        CASE WHEN coalesce(input_sizes, '[]') = '[]' THEN output_sizes ELSE input_sizes END AS sizes,
        CASE WHEN coalesce(input_sizes, '[]') = '[]' THEN output_dtypes ELSE input_dtypes END AS dtypes
    FROM records
)
SELECT
    rank, record_id, group_name, group_ranks, seq, p2p_seq, op_id, operation,
    operation || CASE
        WHEN coalesce(sizes, '[]') = '[]' THEN ''
        WHEN sizes LIKE '%], [%' THEN ' of ' || sizes || ' ' || dtypes
        ELSE ' of ' || substr(sizes, 2, length(sizes) - 2) || ' ' || dtypes
    END AS call,
    source_rank, target_rank,
    CASE
        WHEN state = 'completed' OR (is_retired AND library = 'gloo') THEN 'completed'
        WHEN is_retired THEN 'failed'
        WHEN state = 'started' THEN 'started'
        ELSE 'scheduled'
    END AS progress,
    CASE WHEN is_uneven OR operation = 'scatter' THEN '' ELSE coalesce(CAST(input_element_count AS VARCHAR), '') END AS input_key,
    CASE WHEN is_uneven OR operation = 'gather' THEN '' ELSE coalesce(CAST(output_element_count AS VARCHAR), '') END AS output_key,
    CASE
        WHEN operation IN ('scatter', 'broadcast') THEN output_dtypes
        WHEN operation = 'gather' THEN input_dtypes
        ELSE input_dtypes || ' ' || output_dtypes
    END AS dtype_key,
    input_element_count, output_element_count, ts_ns,
    file || coalesce(':' || CAST(line AS VARCHAR), '') AS source, function
FROM sized
