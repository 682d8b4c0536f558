//! Calls in the order in which they run on each stream, for views of adjacent calls.

use arrow::array::{Array, Float64Array};
use query::rust_view::Result;

use query::columns::{Names, floats, get, ints, names};
use query::rust_view::{InputQueries, ViewInputs};

/// Calls of the analysed window.
pub(super) const INPUTS: InputQueries = &[(
    "calls",
    "SELECT
        c.rank, c.device, c.stream, c.op, c.name, c.kind, c.dtype, c.input_dims, c.pass, c.step, c.module, c.queue_order,
        c.kernel_ns, c.kernel_count, c.flops, c.read_bytes, c.written_bytes, c.output_elements,
        c.gemm_batch, c.gemm_m, c.gemm_n, c.gemm_k, c.peak_tflops, c.achievable_gb_per_s
     FROM roofline_calls c
     JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
     WHERE c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns
     ORDER BY c.rank, c.device, c.stream, c.queue_order",
)];

/// One call.
#[derive(Debug, Clone, Copy)]
pub(super) struct OrderedCall {
    pub(super) rank: i64,
    pub(super) device: i64,
    pub(super) stream: i64,
    /// Event id of the operator.
    pub(super) op: i64,
    pub(super) name: u32,
    pub(super) kind: u32,
    pub(super) dims: u32,
    pub(super) module: u32,
    /// Pass and step. Calls of different parts do not belong together.
    pub(super) part: (u32, Option<i64>),
    pub(super) queue_order: i64,
    pub(super) kernel_ns: i64,
    pub(super) kernel_count: i64,
    pub(super) flops: f64,
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
    pub(super) output_elements: f64,
    /// Batch, m, n and k of a matmul.
    pub(super) gemm: Option<[f64; 4]>,
    pub(super) peak_tflops: Option<f64>,
    pub(super) achievable_gb_per_s: Option<f64>,
}

impl OrderedCall {
    /// Whether both calls are on the same stream, in the same pass, step and module.
    pub(super) fn shares_context_with(&self, other: &Self) -> bool {
        (self.rank, self.device, self.stream, self.part, self.module)
            == (other.rank, other.device, other.stream, other.part, other.module)
    }
}

/// All calls, in order of rank, device, stream and queue.
pub(super) struct OrderedCalls {
    pub(super) calls: Vec<OrderedCall>,
    pub(super) names: Names,
    pub(super) kinds: Names,
    pub(super) dims: Names,
    pub(super) dtypes: Names,
}

impl OrderedCalls {
    pub(super) fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let batch = inputs.batch("calls")?;
        let [rank, device, stream, op, step, queue_order, kernel_ns, kernel_count] = [
            ints(batch, "rank")?,
            ints(batch, "device")?,
            ints(batch, "stream")?,
            ints(batch, "op")?,
            ints(batch, "step")?,
            ints(batch, "queue_order")?,
            ints(batch, "kernel_ns")?,
            ints(batch, "kernel_count")?,
        ];
        let (flops, read) = (floats(batch, "flops")?, floats(batch, "read_bytes")?);
        let (written, output) =
            (floats(batch, "written_bytes")?, floats(batch, "output_elements")?);
        let gemm = [
            floats(batch, "gemm_batch")?,
            floats(batch, "gemm_m")?,
            floats(batch, "gemm_n")?,
            floats(batch, "gemm_k")?,
        ];
        let peak_tflops = floats(batch, "peak_tflops")?;
        let achievable = floats(batch, "achievable_gb_per_s")?;
        let (op_names, kinds, dims) =
            (names(batch, "name")?, names(batch, "kind")?, names(batch, "input_dims")?);
        let (passes, modules) = (names(batch, "pass")?, names(batch, "module")?);
        let known =
            |column: &Float64Array, row: usize| (!column.is_null(row)).then(|| column.value(row));
        let calls = (0..batch.num_rows())
            .map(|row| OrderedCall {
                rank: rank.value(row),
                device: device.value(row),
                stream: stream.value(row),
                op: op.value(row),
                name: op_names.ids[row],
                kind: kinds.ids[row],
                dims: dims.ids[row],
                module: modules.ids[row],
                part: (passes.ids[row], get(&step, row)),
                queue_order: queue_order.value(row),
                kernel_ns: kernel_ns.value(row),
                kernel_count: kernel_count.value(row),
                flops: flops.value(row),
                read_bytes: read.value(row),
                written_bytes: written.value(row),
                output_elements: output.value(row),
                gemm: (!gemm[0].is_null(row)).then(|| gemm.each_ref().map(|of| of.value(row))),
                peak_tflops: known(&peak_tflops, row),
                achievable_gb_per_s: known(&achievable, row),
            })
            .collect();
        let dtypes = names(batch, "dtype")?;
        Ok(Self { calls, names: op_names, kinds, dims, dtypes })
    }
}
