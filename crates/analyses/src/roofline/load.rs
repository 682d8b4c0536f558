//! From tables to calls: which operator each kernel counts for, what it costs, in which pass it runs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::cost::{self, Context, Cost, Kind};
use super::inputs::Arguments;
use crate::id_index::EventIndex;
use query::columns::{Names, ints, names};
use query::rust_view::ViewInputs;

pub(super) const READS: &[(&str, &str)] = &[
    (
        "ops",
        "SELECT rank, event_id, name, ts_ns, dur_ns, thread, sequence, fwd_thread, forward_op, input_dims, input_types
         FROM cpu_ops",
    ),
    // Strides and values, of operators that launch kernels.
    (
        "args",
        "SELECT o.rank, o.event_id, o.args
         FROM cpu_ops o
         JOIN (SELECT DISTINCT rank, op FROM kernels WHERE op IS NOT NULL) k ON k.rank = o.rank AND k.op = o.event_id
         WHERE o.args IS NOT NULL",
    ),
    (
        "work",
        "SELECT rank, event_id, device, stream, ts_ns, end_ns, op, step, tensor_cores,
            CASE WHEN category = 'kernel' AND kind = 'computation' THEN 1 ELSE 0 END AS computes,
            CASE
                WHEN name LIKE '%inograd%' OR name LIKE '%miopenSp3AsmConv%' OR name LIKE '%fft%' OR name LIKE '%cgemm%' THEN 1
                ELSE 0
            END AS is_fast
         FROM device_work",
    ),
    ("modules", "SELECT rank, event_id, module FROM kernels WHERE module IS NOT NULL AND op IS NOT NULL"),
    ("devices", "SELECT rank, device, name, sm_count, has_tf32 FROM device_properties"),
];

/// Where in a training step a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Pass {
    #[default]
    Forward,
    Backward,
    /// Forward once more, inside backward.
    Recompute,
}

impl Pass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Recompute => "recompute",
        }
    }
}

/// Whether the kernels of a call multiply on matrix units, by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Units {
    Ordinary,
    Unknown,
    Matrix,
}

/// One call with the kernels that it launched.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) rank: i64,
    pub(super) device: i64,
    pub(super) stream: i64,
    /// Its row among the operators.
    pub(super) row: usize,
    pub(super) op: i64,
    pub(super) step: Option<i64>,
    /// Index of the name of the module around the first launch.
    pub(super) module: u32,
    pub(super) pass: Pass,
    /// Position of the first kernel on its stream.
    pub(super) queue_order: i64,
    pub(super) ts_ns: i64,
    pub(super) kernel_ns: i64,
    pub(super) kernel_count: i64,
    /// The device did nothing, directly before.
    pub(super) idle_before_ns: i64,
    pub(super) units: Units,
    /// A convolution by Winograd's algorithm or Fourier transform: it multiplies less than the definition.
    pub(super) is_fast: bool,
    pub(super) cost: Arc<Cost>,
}

/// A device as the trace describes it.
pub(super) struct Product {
    pub(super) name: String,
    pub(super) sm_count: Option<i64>,
    pub(super) has_tf32: bool,
}

/// What was read.
pub(super) struct Loaded {
    /// By rank, device and start.
    pub(super) calls: Vec<Call>,
    pub(super) op_names: Names,
    pub(super) dims: Names,
    pub(super) types: Names,
    pub(super) modules: Names,
    /// By rank and device.
    pub(super) devices: BTreeMap<(i64, i64), Product>,
}

pub(super) fn load(inputs: &ViewInputs<'_>) -> Result<Loaded> {
    let ops = Ops::read(inputs)?;
    let modules_batch = inputs.batch("modules")?;
    let modules = names(modules_batch, "module")?;
    let of_kernel = EventIndex::of(modules_batch)?;
    let module = |rank, event| {
        of_kernel.get(rank, event).map_or(Names::NONE, |row| modules.ids[row as usize])
    };
    let costs = ops.costs(inputs)?;
    let calls = calls(inputs.batch("work")?, &ops, &costs, module)?;
    let Ops { names: op_names, dims, types, .. } = ops;
    let devices = devices(inputs.batch("devices")?)?;
    Ok(Loaded { calls, op_names, dims, types, modules, devices })
}

/// Operators of all ranks, by row.
struct Ops {
    ids: Int64Array,
    forward_op: Int64Array,
    names: Names,
    dims: Names,
    types: Names,
    rows: EventIndex,
    ranks: Int64Array,
    /// Row of the operator around.
    parents: Vec<Option<u32>>,
    passes: Vec<Pass>,
}

impl Ops {
    fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let batch = inputs.batch("ops")?;
        let (ranks, ids) = (ints(batch, "rank")?, ints(batch, "event_id")?);
        let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
        let (threads, sequence) = (ints(batch, "thread")?, ints(batch, "sequence")?);
        let fwd_thread = ints(batch, "fwd_thread")?;
        let op_names = names(batch, "name")?;
        let is_node: Vec<bool> = op_names.texts.iter().map(|name| is_autograd_node(name)).collect();
        let count = batch.num_rows();
        let end_ns = |row: usize| ts_ns.value(row).saturating_add(dur_ns.value(row));
        let mut parents = vec![None; count];
        let mut passes = vec![Pass::Forward; count];
        let mut open: Vec<u32> = Vec::new();
        let mut lanes: BTreeMap<(i64, i64), Vec<u32>> = BTreeMap::new();
        for row in 0..count {
            lanes.entry((ranks.value(row), threads.value(row))).or_default().push(row as u32);
        }
        for lane in lanes.values_mut() {
            // Mostly in order already: the sort is one that finds that out.
            lane.sort_by_key(|&row| {
                let row = row as usize;
                (ts_ns.value(row), Reverse(end_ns(row)), ids.value(row))
            });
            open.clear();
            for &row in &*lane {
                let at = row as usize;
                while open.last().is_some_and(|&top| end_ns(top as usize) <= ts_ns.value(at)) {
                    open.pop();
                }
                let around = open.last().copied();
                let outer = around.map_or(Pass::Forward, |around| passes[around as usize]);
                let node = is_node.get(op_names.ids[at] as usize).copied().unwrap_or(false);
                // Only what runs with gradients on gets a number of its own; inside backward that is forward once more.
                let is_numbered =
                    !sequence.is_null(at) && (fwd_thread.is_null(at) || fwd_thread.value(at) == 0);
                parents[at] = around;
                passes[at] = match outer {
                    _ if node => Pass::Backward,
                    Pass::Backward if is_numbered => Pass::Recompute,
                    outer => outer,
                };
                open.push(row);
            }
        }
        let rows = EventIndex::of(batch)?;
        Ok(Self {
            forward_op: ints(batch, "forward_op")?,
            names: op_names,
            dims: names(batch, "input_dims")?,
            types: names(batch, "input_types")?,
            rows,
            ids,
            ranks,
            parents,
            passes,
        })
    }

    fn arguments(&self, row: usize, args: Option<&str>) -> Option<Arguments> {
        Arguments::parse(self.dims.get(row)?, self.types.get(row)?, args)
    }

    /// Shapes of gradients that backward calls of convolutions get, by row of the forward call.
    fn gradients(&self) -> FxHashMap<u32, Vec<f64>> {
        let is_convolution: Vec<bool> =
            self.names.texts.iter().map(|name| name.contains("onvolution")).collect();
        let mut found = FxHashMap::default();
        for row in 0..self.names.ids.len() {
            let named = is_convolution.get(self.names.ids[row] as usize) == Some(&true);
            if !named || self.forward_op.is_null(row) {
                continue;
            }
            let forward = self.rows.get(self.ranks.value(row), self.forward_op.value(row));
            if let Some(forward) = forward
                && let Some(arguments) = self.arguments(row, None)
                && let Some(gradient) = arguments.matrix(0)
            {
                found.insert(forward, gradient.shape.clone());
            }
        }
        found
    }

    /// What each operator that launches kernels costs, itself or as part of one around it.
    fn costs(&self, inputs: &ViewInputs<'_>) -> Result<Costs> {
        let work = inputs.batch("work")?;
        let (ranks, of, computes) =
            (ints(work, "rank")?, ints(work, "op")?, ints(work, "computes")?);
        let mut launchers: Vec<u32> = (0..work.num_rows())
            .filter(|&row| computes.value(row) == 1 && !of.is_null(row))
            .filter_map(|row| self.rows.get(ranks.value(row), of.value(row)))
            .collect();
        launchers.sort_unstable();
        launchers.dedup();
        let args_batch = inputs.batch("args")?;
        let texts = match args_batch.column_by_name("args") {
            Some(column) => cast(column, &DataType::Utf8)?,
            None => return Ok(Costs::new(0)),
        };
        let texts = texts.as_string::<i32>();
        let args = EventIndex::of(args_batch)?;
        let mut models = Models {
            ops: self,
            gradients: self.gradients(),
            args: |row: u32| {
                let at = args.get(self.ranks.value(row as usize), self.ids.value(row as usize))?;
                Some(texts.value(at as usize))
            },
            known: ByRow::new(self.parents.len()),
            parsed: FxHashMap::default(),
        };

        let mut found = Costs::new(self.parents.len());
        let mut others = Vec::new();
        let mut taken: Vec<Option<bool>> = vec![None; self.parents.len()];
        for row in launchers {
            match models.cost(row) {
                Some(cost) => {
                    self.take(row, &cost, &mut taken);
                    found.insert(row, (row, cost));
                }
                None => others.push(row),
            }
        }
        // What has no cost of its own may be part of a call that does, unless that was counted further inside.
        let mut candidates = Vec::new();
        for row in others {
            let mut next = self.parents[row as usize];
            while let Some(around) = next {
                if let Some(cost) = models.cost(around) {
                    candidates.push((row, around, cost));
                    break;
                }
                next = self.parents[around as usize];
            }
        }
        for (_, around, cost) in &candidates {
            self.take(*around, cost, &mut taken);
        }
        for (row, around, cost) in candidates {
            let inside = taken[around as usize];
            let is_counted = match inside {
                Some(is_product) => is_product || !cost.kind.is_product(),
                None => false,
            };
            if !is_counted {
                found.insert(row, (around, cost));
            }
        }
        Ok(found)
    }

    /// Marks the operators around `row` as having something inside that is counted: a product or not.
    fn take(&self, row: u32, cost: &Cost, taken: &mut [Option<bool>]) {
        let is_product = cost.kind.is_product();
        let mut next = self.parents[row as usize];
        while let Some(around) = next {
            let known = &mut taken[around as usize];
            if known.is_some_and(|known| known || !is_product) {
                break;
            }
            *known = Some(is_product);
            next = self.parents[around as usize];
        }
    }
}

/// Values of some rows.
struct ByRow<T> {
    /// Position of the value, from 1 on; 0 where there is none.
    places: Vec<u32>,
    values: Vec<T>,
}

impl<T> ByRow<T> {
    fn new(rows: usize) -> Self {
        Self { places: vec![0; rows], values: Vec::new() }
    }

    fn insert(&mut self, row: u32, value: T) {
        self.values.push(value);
        self.places[row as usize] = self.values.len() as u32;
    }

    fn get(&self, row: u32) -> Option<&T> {
        let place = self.places.get(row as usize)?;
        self.values.get(place.checked_sub(1)? as usize)
    }
}

/// Which operator's cost an operator's kernels count for, itself or one around it, and that cost.
type Costs = ByRow<(u32, Arc<Cost>)>;

/// Costs of operators; calls that look alike are worked out once.
struct Models<'a, A: Fn(u32) -> Option<&'a str>> {
    ops: &'a Ops,
    gradients: FxHashMap<u32, Vec<f64>>,
    args: A,
    /// What was asked for.
    known: ByRow<Option<Arc<Cost>>>,
    /// By name, shapes, types, and strides and values as written.
    parsed: FxHashMap<(u32, u32, u32, &'a str), Option<Arc<Cost>>>,
}

impl<'a, A: Fn(u32) -> Option<&'a str>> Models<'a, A> {
    fn cost(&mut self, row: u32) -> Option<Arc<Cost>> {
        if let Some(known) = self.known.get(row) {
            return known.clone();
        }
        let cost = self.compute(row);
        self.known.insert(row, cost.clone());
        cost
    }

    fn compute(&mut self, row: u32) -> Option<Arc<Cost>> {
        let (ops, at) = (self.ops, row as usize);
        let name = ops.names.get(at)?;
        let args = (self.args)(row);
        // Convolutions may need what stands around them.
        let is_plain = !name.contains("onvolution");
        let key =
            (ops.names.ids[at], ops.dims.ids[at], ops.types.ids[at], args.map_or("", written));
        if is_plain && let Some(known) = self.parsed.get(&key) {
            return known.clone();
        }
        let cost = ops.arguments(at, args).and_then(|arguments| {
            if is_plain {
                return cost::of(name, &arguments, Context::default());
            }
            let around = ops.parents[at].and_then(|around| ops.arguments(around as usize, None));
            let mut next = Some(row);
            let mut gradient = None;
            while let Some(at) = next.filter(|_| gradient.is_none()) {
                gradient = self.gradients.get(&at).map(Vec::as_slice);
                next = ops.parents[at as usize];
            }
            cost::of(name, &arguments, Context { around: around.as_ref(), gradient })
        });
        let cost = cost.map(Arc::new);
        if is_plain {
            self.parsed.insert(key, cost.clone());
        }
        cost
    }
}

/// Strides and values as written, without what differs from call to call.
fn written(args: &str) -> &str {
    let start =
        ["\"Concrete Inputs\"", "\"Input Strides\""].iter().filter_map(|key| args.find(key)).min();
    let Some(start) = start else { return "" };
    let rest = &args[start..];
    let end = ["\"Ev Idx\"", "\"Record function id\"", "\"Sequence number\""];
    let end = end.iter().filter_map(|key| rest.find(key)).min().unwrap_or(rest.len());
    &rest[..end]
}

/// It begins the backward call of one forward call.
fn is_autograd_node(name: &str) -> bool {
    name.starts_with("autograd::engine::evaluate_function: ")
        || name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward")
        || name.starts_with("torch::autograd::CppNode")
}

fn calls(
    work: &RecordBatch,
    ops: &Ops,
    costs: &Costs,
    module: impl Fn(i64, i64) -> u32,
) -> Result<Vec<Call>> {
    let (rank, id, device) = (ints(work, "rank")?, ints(work, "event_id")?, ints(work, "device")?);
    let (stream, ts_ns, end_ns) =
        (ints(work, "stream")?, ints(work, "ts_ns")?, ints(work, "end_ns")?);
    let (op, step, computes) = (ints(work, "op")?, ints(work, "step")?, ints(work, "computes")?);
    let (units, is_fast) = (names(work, "tensor_cores")?, ints(work, "is_fast")?);
    let mut order: Vec<usize> = (0..work.num_rows()).collect();
    order.sort_by_key(|&row| (rank.value(row), device.value(row), ts_ns.value(row), id.value(row)));
    let mut calls: Vec<Call> = Vec::new();
    // The call of an operator on a device.
    let mut index: FxHashMap<(u32, i64), usize> = FxHashMap::default();
    let mut queues: FxHashMap<i64, i64> = FxHashMap::default();
    let (mut place, mut busy_until) = (None, i64::MIN);
    for row in order {
        let here = Some((rank.value(row), device.value(row)));
        if place != here {
            (place, busy_until) = (here, i64::MIN);
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
        let unit = match units.get(row) {
            Some("yes") => Units::Matrix,
            Some("no") => Units::Ordinary,
            _ => Units::Unknown,
        };
        let dur_ns = end_ns.value(row) - ts_ns.value(row);
        let call = *index.entry((*at, device.value(row))).or_insert_with(|| {
            calls.push(Call {
                rank: rank.value(row),
                device: device.value(row),
                stream: stream.value(row),
                row: *at as usize,
                op: ops.ids.value(*at as usize),
                step: (!step.is_null(row)).then(|| step.value(row)),
                module: module(rank.value(row), id.value(row)),
                pass: ops.passes[*at as usize],
                queue_order,
                ts_ns: ts_ns.value(row),
                kernel_ns: 0,
                kernel_count: 0,
                idle_before_ns: 0,
                units: Units::Ordinary,
                is_fast: false,
                cost: Arc::clone(cost),
            });
            calls.len() - 1
        });
        let call = &mut calls[call];
        call.kernel_ns = call.kernel_ns.saturating_add(dur_ns);
        call.kernel_count += 1;
        call.idle_before_ns = call.idle_before_ns.saturating_add(idle_ns);
        call.units = call.units.max(unit);
        call.is_fast |= is_fast.value(row) == 1 && cost.kind == Kind::Convolution;
    }
    Ok(calls)
}

fn devices(batch: &RecordBatch) -> Result<BTreeMap<(i64, i64), Product>> {
    let (rank, device) = (ints(batch, "rank")?, ints(batch, "device")?);
    let (sm_count, product) = (ints(batch, "sm_count")?, names(batch, "name")?);
    let tf32 = ints(batch, "has_tf32")?;
    Ok((0..batch.num_rows())
        .map(|row| {
            let sm_count = (!sm_count.is_null(row)).then(|| sm_count.value(row));
            let has_tf32 = !tf32.is_null(row) && tf32.value(row) != 0;
            let name = product.get(row).unwrap_or_default().to_owned();
            ((rank.value(row), device.value(row)), Product { name, sm_count, has_tf32 })
        })
        .collect())
}
