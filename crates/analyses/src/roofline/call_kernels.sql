--! question = "How far is each kernel of a modeled call from its roofline?"
--! row = "one kernel of a call whose operations and bytes are known"
--! window = "recording"
--! needs = ["roofline_calls", "device_work"]
--! order = ["rank", "event_id"]
--! requires = ["device_activity", "operator_shapes"]
--! when_empty = "no call of an operator that launched kernels has recorded shapes: record them with record_shapes=True (compiled kernels have none, nor replayed graphs without a trace of their capture)"
--! [columns]
--! rank = "rank"
--! event_id = "event of the kernel"
--! dur_ns = { doc = "its duration", unit = "ns" }
--! op = "the call, see roofline_calls"
--! kind = "kind of the call: gemm, convolution, attention, norm, softmax, elementwise, reduction, copy or gather"
--! dtype = "data type that the call multiplies, or the type of its result"
--! name = "operator"
--! kernel_ns = { doc = "time of all kernels of the call", unit = "ns" }
--! flops = "operations of the call"
--! moved_bytes = { doc = "bytes that the call reads and writes", unit = "bytes" }
--! gemm_m = "of a matmul: rows of the result"
--! gemm_n = "columns of the result"
--! gemm_k = "terms of each sum"
--! output_elements = "elements of the result"
--! tensor_cores = "by the name of the kernel: yes, no or unknown"
--! device = "device ordinal"
--! is_aligned = "of a matmul: rows of factors and result begin at multiples of 16 bytes"
--! roofline_ns = { doc = "shortest time of the call at achievable rates", unit = "ns" }
--! achievable_gb_per_s = { doc = "memory bandwidth that the best known programs reach", unit = "gb_per_s" }
-- The kernels of a call follow each other on its stream.
WITH places AS (
    SELECT
        rank, device, stream, op, kind, dtype, name, kernel_ns, flops, read_bytes + written_bytes AS moved_bytes, gemm_m,
        gemm_n, gemm_k, output_elements, is_aligned, roofline_ns, achievable_gb_per_s,
        unnest(range(queue_order, queue_order + kernel_count)) AS queue_order
    FROM roofline_calls
),
work AS (
    SELECT
        rank, device, stream, event_id, dur_ns, tensor_cores,
        CAST(row_number() OVER (PARTITION BY rank, device, stream ORDER BY ts_ns, event_id) AS BIGINT) - 1 AS queue_order
    FROM device_work
)
SELECT
    p.rank, k.event_id, k.dur_ns, p.op, p.kind, p.dtype, p.name, p.kernel_ns, p.flops, p.moved_bytes, p.gemm_m, p.gemm_n,
    p.gemm_k, p.output_elements, k.tensor_cores, p.device, p.is_aligned, p.roofline_ns, p.achievable_gb_per_s
FROM places p
JOIN work k ON k.rank = p.rank AND k.device = p.device AND k.stream = p.stream AND k.queue_order = p.queue_order
