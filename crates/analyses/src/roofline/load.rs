//! Reads calls with their kernels: the operator that each kernel counts for, its cost, and its pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::Array;
use query::columns::{Names, get, ints, names};
use query::rust_view::{InputQueries, Result, ViewInputs};
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::cost::{Cost, OpClass};
use super::operators::{Operators, RowValues, TrainingPass};
use super::paged_attention::{self, batch_lengths};
use query::id_index::EventIndex;

pub(super) const INPUTS: InputQueries = &[
    (
        "ops",
        "SELECT rank, event_id, name, ts_ns, dur_ns, thread, sequence, fwd_thread, forward_op, input_dims, input_types
         FROM cpu_ops
         UNION ALL
         SELECT rank, op, name, ts_ns, dur_ns, thread, sequence, fwd_thread, NULL, input_dims, input_types
         FROM captured_ops",
    ),
    // Strides and values, of operators that launch kernels. Operators of captured graphs have negative numbers.
    (
        "args",
        "SELECT o.rank, o.event_id, o.args
         FROM cpu_ops o
         JOIN (SELECT DISTINCT rank, op FROM kernels WHERE op IS NOT NULL) k ON k.rank = o.rank AND k.op = o.event_id
         WHERE o.args IS NOT NULL
         UNION ALL
         SELECT o.rank, o.op, o.args
         FROM captured_ops o
         JOIN (SELECT DISTINCT rank, op FROM graph_nodes WHERE op IS NOT NULL) n ON n.rank = o.rank AND n.op = o.op
         WHERE o.args IS NOT NULL",
    ),
    (
        "work",
        "SELECT w.rank, w.event_id, w.device, w.stream, w.ts_ns, w.end_ns, coalesce(n.op, w.op) AS op, w.step, w.tensor_cores,
            CASE WHEN n.op IS NOT NULL THEN w.launch END AS replay,
            CASE WHEN w.category = 'kernel' AND w.kind = 'computation' THEN 1 ELSE 0 END AS computes,
            CASE
                WHEN w.name LIKE '%inograd%' OR w.name LIKE '%miopenSp3AsmConv%' OR w.name LIKE '%fft%' OR w.name LIKE '%cgemm%'
                    THEN 1
                ELSE 0
            END AS is_fast
         FROM device_work w
         LEFT JOIN (
            SELECT k.rank, k.event_id, n.op
            FROM kernels k
            JOIN graph_nodes n ON n.rank = k.rank AND n.node_id = k.graph_node
            JOIN graph_matches m ON m.rank = k.rank AND m.launch = k.launch
            WHERE m.confidence <> 'ambiguous'
         ) n ON n.rank = w.rank AND n.event_id = w.event_id",
    ),
    (
        "modules",
        "SELECT rank, event_id, module FROM kernels
         WHERE module IS NOT NULL AND (op IS NOT NULL OR graph_node IS NOT NULL)",
    ),
    ("devices", "SELECT rank, device, name, sm_count, total_memory_bytes, has_tf32 FROM device_properties"),
    (
        "lengths",
        "SELECT w.rank, w.event_id, m.prefill_token_count + m.decode_token_count AS query_token_count,
            m.kv_token_count, m.attention_pair_count
         FROM serving_work w
         JOIN serving_marks m ON m.rank = w.rank AND m.event_id = w.mark
         WHERE m.attention_pair_count IS NOT NULL",
    ),
];

/// Whether the kernels of a call use matrix units, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatrixUnit {
    Unused,
    Unknown,
    Used,
}

/// One call with the kernels that it launched.
#[derive(Debug, Clone)]
pub(super) struct OperatorCall {
    pub(super) rank: i64,
    pub(super) device: i64,
    pub(super) stream: i64,
    /// Its row among the operators.
    pub(super) row: usize,
    pub(super) op: i64,
    pub(super) step: Option<i64>,
    /// Index of the name of the module around the first launch.
    pub(super) module: u32,
    pub(super) pass: TrainingPass,
    /// Position of the first kernel on its stream.
    pub(super) queue_order: i64,
    pub(super) ts_ns: i64,
    pub(super) kernel_ns: i64,
    pub(super) kernel_count: i64,
    /// Idle time of the device directly before its kernels.
    pub(super) idle_before_ns: i64,
    pub(super) matrix_unit: MatrixUnit,
    /// A convolution by Winograd's algorithm or Fourier transform, which multiplies less than the definition.
    pub(super) is_fast_convolution: bool,
    pub(super) cost: Arc<Cost>,
}

/// The model of a device, as the trace describes it.
pub(super) struct DeviceModel {
    pub(super) name: String,
    pub(super) sm_count: Option<i64>,
    pub(super) memory_bytes: Option<i64>,
    pub(super) has_tf32: bool,
}

/// All calls, and the columns that their indices refer to.
pub(super) struct CallTable {
    /// By rank, device and start.
    pub(super) calls: Vec<OperatorCall>,
    pub(super) op_names: Names,
    pub(super) dims: Names,
    pub(super) types: Names,
    pub(super) modules: Names,
    /// By rank and device.
    pub(super) devices: BTreeMap<(i64, i64), DeviceModel>,
}

pub(super) fn load_calls(inputs: &ViewInputs<'_>) -> Result<CallTable> {
    let ops = Operators::read(inputs)?;
    let modules_batch = inputs.batch("modules")?;
    let modules = names(modules_batch, "module")?;
    let kernel_rows = EventIndex::of(modules_batch)?;
    let module = |rank, event| {
        kernel_rows.get(rank, event).map_or(Names::NONE, |row| modules.ids[row as usize])
    };
    let costs = ops.costs(inputs)?;
    let lengths = batch_lengths(inputs)?;
    let cache_dtype = ops.cache_dtype();
    // Lengths that no step states leave the cost of a call unknown.
    let cost_of = |cost: &Arc<Cost>, rank, event| match &cost.paged {
        None => Some(Arc::clone(cost)),
        Some(paged) => lengths
            .get(&(rank, event))
            .map(|&of| Arc::new(paged_attention::cost(paged, of, cache_dtype))),
    };
    let calls = calls(inputs.batch("work")?, &ops, &costs, cost_of, module)?;
    let Operators { names: op_names, dims, types, .. } = ops;
    let devices = devices(inputs.batch("devices")?)?;
    Ok(CallTable { calls, op_names, dims, types, modules, devices })
}

fn calls(
    work: &RecordBatch,
    ops: &Operators,
    costs: &RowValues<(u32, Arc<Cost>)>,
    cost_of: impl Fn(&Arc<Cost>, i64, i64) -> Option<Arc<Cost>>,
    module: impl Fn(i64, i64) -> u32,
) -> Result<Vec<OperatorCall>> {
    let (rank, id, device) = (ints(work, "rank")?, ints(work, "event_id")?, ints(work, "device")?);
    let (stream, ts_ns, end_ns) =
        (ints(work, "stream")?, ints(work, "ts_ns")?, ints(work, "end_ns")?);
    let (op, step, computes) = (ints(work, "op")?, ints(work, "step")?, ints(work, "computes")?);
    let (tensor_cores, is_fast) = (names(work, "tensor_cores")?, ints(work, "is_fast")?);
    let replay = ints(work, "replay")?;
    let mut order: Vec<usize> = (0..work.num_rows()).collect();
    order.sort_by_key(|&row| (rank.value(row), device.value(row), ts_ns.value(row), id.value(row)));
    let mut calls: Vec<OperatorCall> = Vec::new();
    // Position of the call of an operator on a device; of a captured operator, in each replay.
    let mut index: FxHashMap<(u32, i64, Option<i64>), usize> = FxHashMap::default();
    let mut queues: FxHashMap<i64, i64> = FxHashMap::default();
    let (mut current_device, mut busy_until) = (None, i64::MIN);
    for row in order {
        let row_device = Some((rank.value(row), device.value(row)));
        if current_device != row_device {
            (current_device, busy_until) = (row_device, i64::MIN);
            queues.clear();
        }
        let position = queues.entry(stream.value(row)).or_default();
        let queue_order = *position;
        *position += 1;
        let idle_ns =
            if busy_until == i64::MIN { 0 } else { (ts_ns.value(row) - busy_until).max(0) };
        busy_until = busy_until.max(end_ns.value(row));
        if computes.value(row) != 1 || op.is_null(row) {
            continue;
        }
        let launcher = ops.rows.get(rank.value(row), op.value(row));
        let Some((at, cost)) = launcher.and_then(|launcher| costs.get(launcher)) else { continue };
        let unit = match tensor_cores.get(row) {
            Some("yes") => MatrixUnit::Used,
            Some("no") => MatrixUnit::Unused,
            _ => MatrixUnit::Unknown,
        };
        let dur_ns = end_ns.value(row) - ts_ns.value(row);
        let key = (*at, device.value(row), get(&replay, row));
        let call = if let Some(&call) = index.get(&key) {
            call
        } else {
            let Some(cost) = cost_of(cost, rank.value(row), id.value(row)) else { continue };
            calls.push(OperatorCall {
                rank: rank.value(row),
                device: device.value(row),
                stream: stream.value(row),
                row: *at as usize,
                op: ops.ids.value(*at as usize),
                step: get(&step, row),
                module: module(rank.value(row), id.value(row)),
                pass: ops.passes[*at as usize],
                queue_order,
                ts_ns: ts_ns.value(row),
                kernel_ns: 0,
                kernel_count: 0,
                idle_before_ns: 0,
                matrix_unit: MatrixUnit::Unused,
                is_fast_convolution: false,
                cost,
            });
            index.insert(key, calls.len() - 1);
            calls.len() - 1
        };
        let call = &mut calls[call];
        call.kernel_ns = call.kernel_ns.saturating_add(dur_ns);
        call.kernel_count += 1;
        call.idle_before_ns = call.idle_before_ns.saturating_add(idle_ns);
        call.matrix_unit = call.matrix_unit.max(unit);
        call.is_fast_convolution |=
            is_fast.value(row) == 1 && call.cost.class == OpClass::Convolution;
    }
    Ok(calls)
}

fn devices(batch: &RecordBatch) -> Result<BTreeMap<(i64, i64), DeviceModel>> {
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let (sm_count, model) = (ints(batch, "sm_count")?, names(batch, "name")?);
    let (memory, tf32) = (ints(batch, "total_memory_bytes")?, ints(batch, "has_tf32")?);
    Ok((0..batch.num_rows())
        .map(|row| {
            let sm_count = get(&sm_count, row);
            let has_tf32 = !tf32.is_null(row) && tf32.value(row) != 0;
            let name = model.get(row).unwrap_or_default().to_owned();
            let memory_bytes = get(&memory, row);
            let model = DeviceModel { name, sm_count, memory_bytes, has_tf32 };
            ((rank.value(row), device.value(row)), model)
        })
        .collect())
}
