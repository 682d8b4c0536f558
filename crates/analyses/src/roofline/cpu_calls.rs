//! `roofline_cpu_calls` and `roofline_cpu_chain_calls`: operators that the host itself computes.

use std::collections::BTreeMap;
use std::sync::Arc;

use query::BatchBuilder;
use query::columns::ints;
use query::rust_view::{InputQueries, Result, ViewInputs};
use trace_model::RecordBatch;

use super::calls::non_empty;
use super::chains;
use super::cost::{Cost, OpClass};
use super::operators::Operators;
use super::ordered_calls::OrderedCall;
use super::shapes::{format_shapes, leading_list, numbers};

/// Operators of ranks without device activity.
const OPS: (&str, &str) = (
    "ops",
    "SELECT
        o.rank, o.event_id, o.name, o.ts_ns, o.dur_ns, o.thread, o.sequence, o.fwd_thread, o.forward_op, o.input_dims, o.input_types
     FROM cpu_ops o
     LEFT JOIN (SELECT DISTINCT rank FROM device_work) d ON d.rank = o.rank
     WHERE d.rank IS NULL AND EXISTS (SELECT 1 FROM cpu_ops WHERE input_types IS NOT NULL)",
);

/// Strides of convolutions and dimensions of reductions; costs of other operators follow from shapes.
const ARGS: (&str, &str) = (
    "args",
    "SELECT o.rank, o.event_id, o.args
     FROM cpu_ops o
     LEFT JOIN (SELECT DISTINCT rank FROM device_work) d ON d.rank = o.rank
     WHERE d.rank IS NULL AND o.args IS NOT NULL
        AND regexp_like(CAST(o.name AS VARCHAR), '^aten::(.*conv.*|sum|mean|amax|amin|argmax|argmin|max|min|prod|norm|linalg_vector_norm|var.*|std|all|any|logsumexp|index_select)$')",
);

/// Ranges that tell who runs the operators inside: optimizers, without the model's work that some call (a closure), and
/// modules that compute a loss.
const OWNERS: (&str, &str) = (
    "owners",
    "SELECT h.rank, a.thread, h.ts_ns, h.ts_ns + h.dur_ns AS end_ns, 1 AS is_optimizer
     FROM host_phases h
     JOIN (
         SELECT rank, thread FROM annotations WHERE NOT on_device AND name LIKE 'Optimizer.step%'
         UNION
         SELECT rank, thread FROM cpu_ops WHERE name LIKE 'Optimizer.step%'
     ) a ON a.rank = h.rank
     WHERE h.phase = 'optimizer'
     UNION ALL
     SELECT rank, thread, ts_ns, ts_ns + dur_ns, 0
     FROM python_frames
     WHERE regexp_like(CAST(name AS VARCHAR), '^nn\\.Module: .*([Ll]oss|Criterion)[^.]*\\z')",
);

pub(super) const INPUTS: InputQueries = &[OPS, ARGS];

pub(super) const CHAIN_INPUTS: InputQueries = &[OPS, ARGS, OWNERS];

/// Shorter operators without a cost, such as views and allocations, do not separate operators that could be fused.
const MIN_SEPARATING_NS: i64 = 10_000;

/// An operator that does the work itself.
struct CpuCall {
    /// Its row among the operators.
    row: usize,
    /// Time in the operator, without that in others with a cost.
    self_dur_ns: i64,
    /// Rows of a matmul, or inputs of a convolution.
    sample_count: Option<f64>,
    /// Position on its thread. It skips a number where other work lies between.
    order: i64,
    cost: Arc<Cost>,
}

/// All such operators, by rank, thread and start.
fn read(ops: &Operators, inputs: &ViewInputs<'_>) -> Result<Vec<CpuCall>> {
    let costs = ops.innermost_costs(inputs)?;
    let leading: Vec<Option<f64>> =
        ops.dims.texts.iter().map(|dims| leading_length(dims)).collect();
    let mut call_of: Vec<Option<usize>> = vec![None; ops.row_count()];
    for (call, (row, _)) in costs.iter().enumerate() {
        call_of[*row as usize] = Some(call);
    }
    let mut inner_ns = vec![0_i64; costs.len()];
    for (row, _) in &costs {
        if let Some(outer) = ops.enclosing(*row).find_map(|outer| call_of[outer as usize]) {
            inner_ns[outer] = inner_ns[outer].saturating_add(ops.dur_ns(*row as usize));
        }
    }
    let mut calls = Vec::with_capacity(costs.len());
    let rows = ops.rows_by_thread();
    let mut has_inner = vec![false; ops.row_count()];
    for &row in &rows {
        if let Some(outer) = ops.enclosing(row as u32).next() {
            has_inner[outer as usize] = true;
        }
    }
    let mut lane = None;
    let mut order = 0;
    for row in rows {
        let of_row = (ops.rank(row), ops.thread(row));
        if lane != Some(of_row) {
            (lane, order) = (Some(of_row), 0);
        }
        // What a matmul copies to begin with is no part of what follows it.
        let is_inner = ops.enclosing(row as u32).any(|outer| call_of[outer as usize].is_some());
        let Some(call) = call_of[row] else {
            let separates = !has_inner[row] && ops.dur_ns(row) >= MIN_SEPARATING_NS;
            order += i64::from(separates);
            continue;
        };
        order += i64::from(is_inner);
        let self_dur_ns = ops.dur_ns(row).saturating_sub(inner_ns[call]).max(0);
        let cost = Arc::clone(&costs[call].1);
        let sample_count = match (cost.class, cost.gemm) {
            (_, Some(gemm)) => (gemm.batch < 1.5).then_some(gemm.m),
            (OpClass::Convolution, None) => {
                leading.get(ops.dims.ids[row] as usize).copied().flatten()
            }
            _ => None,
        };
        calls.push(CpuCall { row, self_dur_ns, sample_count, order, cost });
        order += 1 + i64::from(is_inner);
    }
    Ok(calls)
}

/// The first length of the first input, if that has three dimensions or more.
fn leading_length(dims: &str) -> Option<f64> {
    let lengths = numbers(leading_list(dims)?.first()?)?;
    if lengths.len() < 3 { None } else { lengths.first().copied() }
}

/// `roofline_cpu_calls`.
pub(super) fn cpu_calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ops = Operators::read(inputs)?;
    let calls = read(&ops, inputs)?;
    let shapes: Vec<Option<String>> =
        ops.dims.texts.iter().map(|dims| format_shapes(dims)).collect();
    let shapes = |row: usize| shapes.get(ops.dims.ids[row] as usize)?.as_deref();
    BatchBuilder::of(&calls)
        .int32("rank", |call| ops.rank(call.row))
        .int32("thread", |call| ops.thread(call.row))
        .int("op", |call| Some(ops.ids.value(call.row)))
        .text("name", |call| non_empty(ops.names.get(call.row)))
        .text("kind", |call| Some(call.cost.class.name()))
        .text("dtype", |call| call.cost.dtype.name())
        .text("input_dims", |call| non_empty(ops.dims.get(call.row)))
        .text("shapes", |call| non_empty(shapes(call.row)))
        .text("pass", |call| Some(ops.passes[call.row].name()))
        .int("ts_ns", |call| Some(ops.ts_ns(call.row)))
        .int("dur_ns", |call| Some(ops.dur_ns(call.row)))
        .int("self_dur_ns", |call| Some(call.self_dur_ns))
        .float("flops", |call| Some(call.cost.flops))
        .float("read_bytes", |call| Some(call.cost.read_bytes))
        .float("written_bytes", |call| Some(call.cost.written_bytes))
        .float("output_elements", |call| Some(call.cost.output_elements))
        .int("sample_count", |call| call.sample_count.map(|count| count as i64))
        .float("input_elements", |call| Some(call.cost.convolution?.input_elements))
        .float("weight_elements", |call| Some(call.cost.convolution?.weight_elements))
        .int("input_channels", |call| Some(call.cost.convolution?.input_channels as i64))
        .flag("is_channels_last", |call| call.cost.convolution.and_then(|of| of.is_channels_last))
        .finish()
}

/// What runs the operators of a chain: the owner decides which fix can fuse them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChainOwner {
    Optimizer,
    Loss,
    /// The model, or a loss that neither a name nor a module tells.
    Model,
}

impl ChainOwner {
    fn name(self) -> &'static str {
        match self {
            Self::Optimizer => "optimizer",
            Self::Loss => "loss",
            Self::Model => "model",
        }
    }
}

/// Start, end and owner.
type OwnerRange = (i64, i64, ChainOwner);

/// The ranges of optimizers and losses.
struct OwnerRanges {
    /// By rank and thread, sorted.
    ranges: BTreeMap<(i64, i64), Vec<OwnerRange>>,
}

impl OwnerRanges {
    fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let batch = inputs.batch("owners")?;
        let (rank, thread) = (ints(batch, "rank")?, ints(batch, "thread")?);
        let (ts_ns, end_ns) = (ints(batch, "ts_ns")?, ints(batch, "end_ns")?);
        let is_optimizer = ints(batch, "is_optimizer")?;
        let mut ranges: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in 0..batch.num_rows() {
            let owner = match is_optimizer.value(row) {
                1 => ChainOwner::Optimizer,
                _ => ChainOwner::Loss,
            };
            let of_thread = ranges.entry((rank.value(row), thread.value(row))).or_default();
            of_thread.push((ts_ns.value(row), end_ns.value(row), owner));
        }
        for of_thread in ranges.values_mut() {
            of_thread.sort_unstable_by_key(|&(ts_ns, end_ns, _)| (ts_ns, end_ns));
        }
        Ok(Self { ranges })
    }

    /// The owner of the last range that begins before an operator and has not ended.
    fn of(&self, ops: &Operators, row: usize) -> Option<ChainOwner> {
        let ranges = self.ranges.get(&(ops.rank(row), ops.thread(row)))?;
        let ts_ns = ops.ts_ns(row);
        let next = ranges.partition_point(|&(start_ns, ..)| start_ns <= ts_ns);
        // Modules nest: the nearest range that is still open is among the last few.
        let open = ranges[..next].iter().rev().take(8).find(|&&(_, end_ns, _)| ts_ns < end_ns);
        open.map(|&(.., owner)| owner)
    }

    /// The owner of a chain of operators, by these ranges or by their names.
    fn of_chain(&self, ops: &Operators, rows: &[usize]) -> ChainOwner {
        let name = |row: usize| ops.names.get(row).unwrap_or_default();
        let in_range = rows.first().and_then(|&row| self.of(ops, row));
        // Optimizers divide the first moment by the root of the second; little else uses this operator.
        if rows.iter().any(|&row| name(row) == "aten::addcdiv_") {
            return ChainOwner::Optimizer;
        }
        if let Some(owner) = in_range {
            return owner;
        }
        let is_loss = |name: &str| {
            name.contains("_loss")
                || name.contains("cross_entropy")
                || name.contains("Loss")
                || name.contains("CrossEntropy")
        };
        let is_in_loss = |&row: &usize| {
            is_loss(name(row))
                || ops.enclosing(row as u32).any(|outer| is_loss(name(outer as usize)))
        };
        if rows.iter().any(is_in_loss) { ChainOwner::Loss } else { ChainOwner::Model }
    }
}

/// `roofline_cpu_chain_calls`: operators on a thread that each read what one before wrote.
pub(super) fn cpu_chain_calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ops = Operators::read(inputs)?;
    let owners = OwnerRanges::read(inputs)?;
    let calls = read(&ops, inputs)?;
    let ordered: Vec<OrderedCall> = calls
        .iter()
        .map(|call| OrderedCall {
            rank: ops.rank(call.row),
            device: 0,
            stream: ops.thread(call.row),
            op: call.row as i64,
            name: ops.names.ids[call.row],
            kind: call.cost.class as u32,
            dims: ops.dims.ids[call.row],
            module: 0,
            part: (ops.passes[call.row] as u32, None),
            queue_order: call.order,
            kernel_ns: call.self_dur_ns,
            kernel_count: 1,
            flops: call.cost.flops,
            read_bytes: call.cost.read_bytes,
            written_bytes: call.cost.written_bytes,
            output_elements: call.cost.output_elements,
            gemm: None,
            peak_tflops: None,
            achievable_gb_per_s: None,
        })
        .collect();
    let is_fusable: Vec<bool> = calls.iter().map(|call| call.cost.class.is_fusable()).collect();
    let found = chains::find(&ordered, |at| is_fusable[at], &ops.names, &ops.dims);
    let names: Vec<String> = found.iter().map(|chain| chain.name(&ops.names)).collect();
    let mut rows = Vec::new();
    // Numbers start over on each rank, so that they do not depend on which ranks were read.
    let mut chain_counts = BTreeMap::new();
    for (chain, name) in found.iter().zip(&names) {
        let calls = chain.calls();
        let Some(first) = calls.first() else { continue };
        let count = chain_counts.entry(first.rank).or_insert(0);
        let number = *count;
        *count += 1;
        let op_rows: Vec<usize> = calls.iter().map(|call| call.op as usize).collect();
        let owner = owners.of_chain(&ops, &op_rows);
        let calls = calls.iter().enumerate();
        rows.extend(calls.map(|(place, call)| ChainCall {
            number,
            place,
            name,
            owner,
            chain,
            call,
        }));
    }
    let row = |of: &ChainCall<'_>| of.call.op as usize;
    BatchBuilder::of(&rows)
        .int32("rank", |of| of.call.rank)
        .int32("thread", |of| of.call.stream)
        .int("chain", |of| Some(of.number))
        .text("chain_name", |of| Some(of.name))
        .text("owner", |of| Some(of.owner.name()))
        .int("chain_ns", |of| Some(of.chain.kernel_ns()))
        .int("op_count", |of| Some(of.chain.kernel_count()))
        .int("op", |of| Some(ops.ids.value(row(of))))
        .text("name", |of| non_empty(ops.names.get(row(of))))
        .text("input_dims", |of| non_empty(ops.dims.get(row(of))))
        .int("ts_ns", |of| Some(ops.ts_ns(row(of))))
        .int("dur_ns", |of| Some(ops.dur_ns(row(of))))
        .float("moved_bytes", |of| Some(of.call.read_bytes + of.call.written_bytes))
        .float("written_bytes", |of| Some(of.call.written_bytes))
        .float("external_bytes", |of| {
            Some(if of.place == 0 { of.chain.external_bytes() } else { 0.0 })
        })
        .finish()
}

/// An operator of a chain.
struct ChainCall<'a> {
    /// Number of the chain among those of its rank.
    number: i64,
    place: usize,
    name: &'a str,
    owner: ChainOwner,
    chain: &'a chains::Chain<'a>,
    call: &'a OrderedCall,
}
