//! Operators of a run: their nesting, their pass, and their cost.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use query::columns::{Names, ints, names};
use query::rust_view::{Result, ViewInputs};
use rustc_hash::FxHashMap;
use trace_model::vocabulary::AUTOGRAD_PREFIX;

use super::cost::{Context, Cost};
use super::inputs::{Arguments, Dtype};
use super::operator_cost::operator_cost;
use super::pointwise::cache_dtype;
use crate::call_tree::OpenSpans;
use query::id_index::EventIndex;

/// The part of a training step in which a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TrainingPass {
    #[default]
    Forward,
    Backward,
    /// Forward again, inside backward (activation checkpointing).
    Recompute,
}

impl TrainingPass {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Recompute => "recompute",
        }
    }
}

/// Operators of all ranks, by row.
pub(super) struct Operators {
    pub(super) ids: Int64Array,
    forward_op: Int64Array,
    pub(super) names: Names,
    pub(super) dims: Names,
    pub(super) types: Names,
    pub(super) rows: EventIndex,
    ranks: Int64Array,
    threads: Int64Array,
    ts_ns: Int64Array,
    dur_ns: Int64Array,
    /// Row of the operator around each operator on its thread.
    parents: Vec<Option<u32>>,
    pub(super) passes: Vec<TrainingPass>,
}

impl Operators {
    pub(super) fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
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
        let mut passes = vec![TrainingPass::Forward; count];
        // `cpu_ops.parent` may be an annotation, a runtime call or a Python frame. The operator around is found by time,
        // so that these tables, the largest of a trace, need not be read.
        let mut open = OpenSpans::default();
        let mut lanes: BTreeMap<(i64, i64), Vec<u32>> = BTreeMap::new();
        for row in 0..count {
            lanes.entry((ranks.value(row), threads.value(row))).or_default().push(row as u32);
        }
        for lane in lanes.values_mut() {
            // A stable sort is fast here: rows are mostly in order already.
            lane.sort_by_key(|&row| {
                let row = row as usize;
                (ts_ns.value(row), Reverse(end_ns(row)), ids.value(row))
            });
            open.clear();
            for &row in &*lane {
                let at = row as usize;
                let parent = open.enter(row, ts_ns.value(at), end_ns(at));
                let outer = parent.map_or(TrainingPass::Forward, |parent| passes[parent as usize]);
                let node = is_node.get(op_names.ids[at] as usize).copied().unwrap_or(false);
                // Only operators that run with gradients enabled get their own sequence number; inside backward that
                // means forward is recomputed.
                let is_numbered =
                    !sequence.is_null(at) && (fwd_thread.is_null(at) || fwd_thread.value(at) == 0);
                parents[at] = parent;
                passes[at] = match outer {
                    _ if node => TrainingPass::Backward,
                    TrainingPass::Backward if is_numbered => TrainingPass::Recompute,
                    outer => outer,
                };
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
            threads,
            ts_ns,
            dur_ns,
            parents,
            passes,
        })
    }

    pub(super) fn row_count(&self) -> usize {
        self.parents.len()
    }

    pub(super) fn rank(&self, row: usize) -> i64 {
        self.ranks.value(row)
    }

    pub(super) fn thread(&self, row: usize) -> i64 {
        self.threads.value(row)
    }

    pub(super) fn ts_ns(&self, row: usize) -> i64 {
        self.ts_ns.value(row)
    }

    pub(super) fn dur_ns(&self, row: usize) -> i64 {
        self.dur_ns.value(row)
    }

    pub(super) fn end_ns(&self, row: usize) -> i64 {
        self.ts_ns(row).saturating_add(self.dur_ns(row))
    }

    /// All rows, by rank, thread and start; an operator comes before those inside of it.
    pub(super) fn rows_by_thread(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.row_count()).collect();
        rows.sort_by_key(|&row| {
            let of_thread = (self.rank(row), self.thread(row));
            (of_thread, self.ts_ns(row), Reverse(self.end_ns(row)), self.ids.value(row))
        });
        rows
    }

    /// The operators around an operator, the nearest first.
    pub(super) fn enclosing(&self, row: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.parents[row as usize], |&row| self.parents[row as usize])
    }

    fn arguments(&self, row: usize, args: Option<&str>) -> Option<Arguments> {
        Arguments::parse(self.dims.get(row)?, self.types.get(row)?, args)
    }

    /// The type of the elements of a paged cache, from the first operator that writes to it.
    pub(super) fn cache_dtype(&self) -> Option<Dtype> {
        let is_write: Vec<bool> =
            self.names.texts.iter().map(|name| name.contains("reshape_and_cache")).collect();
        if !is_write.contains(&true) {
            return None;
        }
        let is_row = |&id: &u32| is_write.get(id as usize) == Some(&true);
        let row = self.names.ids.iter().position(is_row)?;
        cache_dtype(self.names.get(row)?, &self.arguments(row, None)?)
    }

    /// Shapes of the gradients that backward calls of convolutions take, by row of the forward call.
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

    /// For each operator that launches kernels, the row of the operator whose cost its kernels count for, itself or one
    /// around it, and that cost.
    pub(super) fn costs(&self, inputs: &ViewInputs<'_>) -> Result<RowValues<(u32, Arc<Cost>)>> {
        let work = inputs.batch("work")?;
        let (ranks, of, computes) =
            (ints(work, "rank")?, ints(work, "op")?, ints(work, "computes")?);
        let mut launchers: Vec<u32> = (0..work.num_rows())
            .filter(|&row| computes.value(row) == 1 && !of.is_null(row))
            .filter_map(|row| self.rows.get(ranks.value(row), of.value(row)))
            .collect();
        launchers.sort_unstable();
        launchers.dedup();
        let args = ArgTexts::read(inputs)?;
        let mut models = CostModels::new(self, &args);
        let mut found = RowValues::new(self.parents.len());
        let mut others = Vec::new();
        let mut counted_inside: Vec<Option<bool>> = vec![None; self.parents.len()];
        for row in launchers {
            match models.cost(row) {
                Some(cost) => {
                    self.mark_enclosing(row, &cost, &mut counted_inside);
                    found.insert(row, (row, cost));
                }
                None => others.push(row),
            }
        }
        // An operator without a cost may be part of a call that has one, unless an operator further inside counts for
        // that call.
        let mut candidates = Vec::new();
        for row in others {
            let mut next = self.parents[row as usize];
            while let Some(outer) = next {
                if let Some(cost) = models.cost(outer) {
                    candidates.push((row, outer, cost));
                    break;
                }
                next = self.parents[outer as usize];
            }
        }
        for (_, outer, cost) in &candidates {
            self.mark_enclosing(*outer, cost, &mut counted_inside);
        }
        for (row, outer, cost) in candidates {
            let inside = counted_inside[outer as usize];
            let is_counted = match inside {
                Some(is_product) => is_product || !cost.class.is_product(),
                None => false,
            };
            if !is_counted {
                found.insert(row, (outer, cost));
            }
        }
        Ok(found)
    }

    /// For each operator that does the work itself, its cost: products that contain no other product, and other
    /// operators that contain none with a cost.
    pub(super) fn innermost_costs(&self, inputs: &ViewInputs<'_>) -> Result<Vec<(u32, Arc<Cost>)>> {
        let args = ArgTexts::read(inputs)?;
        let mut models = CostModels::new(self, &args);
        let rows = 0..self.parents.len() as u32;
        let costs: Vec<(u32, Arc<Cost>)> = rows
            .filter_map(|row| Some((row, models.cost(row)?)))
            .filter(|(_, cost)| cost.paged.is_none())
            .collect();
        let mut counted_inside: Vec<Option<bool>> = vec![None; self.parents.len()];
        for (row, cost) in &costs {
            self.mark_enclosing(*row, cost, &mut counted_inside);
        }
        let is_innermost = |(row, cost): &(u32, Arc<Cost>)| match counted_inside[*row as usize] {
            None => true,
            Some(is_product) => cost.class.is_product() && !is_product,
        };
        Ok(costs.into_iter().filter(is_innermost).collect())
    }

    /// Marks the operators around `row`: an operator inside them is counted, and whether one that is counted is a
    /// product.
    fn mark_enclosing(&self, row: u32, cost: &Cost, counted_inside: &mut [Option<bool>]) {
        let is_product = cost.class.is_product();
        let mut next = self.parents[row as usize];
        while let Some(outer) = next {
            let known = &mut counted_inside[outer as usize];
            if known.is_some_and(|known| known || !is_product) {
                break;
            }
            *known = Some(is_product);
            next = self.parents[outer as usize];
        }
    }
}

/// Recorded arguments of operators.
struct ArgTexts {
    texts: StringArray,
    rows: EventIndex,
}

impl ArgTexts {
    fn read(inputs: &ViewInputs<'_>) -> Result<Self> {
        let batch = inputs.batch("args")?;
        let texts = match batch.column_by_name("args") {
            Some(column) => cast(column, &DataType::Utf8)?.as_string::<i32>().clone(),
            None => StringArray::new_null(batch.num_rows()),
        };
        Ok(Self { texts, rows: EventIndex::of(batch)? })
    }

    fn get(&self, rank: i64, event_id: i64) -> Option<&str> {
        let row = self.rows.get(rank, event_id)? as usize;
        (!self.texts.is_null(row)).then(|| self.texts.value(row))
    }
}

/// Costs of operators. Calls with the same inputs are computed once.
struct CostModels<'a> {
    ops: &'a Operators,
    gradients: FxHashMap<u32, Vec<f64>>,
    args: &'a ArgTexts,
    /// Costs computed so far.
    known: RowValues<Option<Arc<Cost>>>,
    /// By name, shapes, types, and strides and values as written.
    parsed: FxHashMap<(u32, u32, u32, &'a str), Option<Arc<Cost>>>,
}

impl<'a> CostModels<'a> {
    fn new(ops: &'a Operators, args: &'a ArgTexts) -> Self {
        let known = RowValues::new(ops.parents.len());
        Self { ops, gradients: ops.gradients(), args, known, parsed: FxHashMap::default() }
    }

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
        let args = self.args.get(ops.ranks.value(at), ops.ids.value(at));
        // The cost of a convolution may depend on the operators around it.
        let is_plain = !name.contains("onvolution");
        let key = (
            ops.names.ids[at],
            ops.dims.ids[at],
            ops.types.ids[at],
            args.map_or("", recorded_inputs),
        );
        if is_plain && let Some(known) = self.parsed.get(&key) {
            return known.clone();
        }
        let cost = ops.arguments(at, args).and_then(|arguments| {
            if is_plain {
                return operator_cost(name, &arguments, Context::default());
            }
            let enclosing = ops.parents[at].and_then(|outer| ops.arguments(outer as usize, None));
            let mut next = Some(row);
            let mut gradient = None;
            while let Some(at) = next.filter(|_| gradient.is_none()) {
                gradient = self.gradients.get(&at).map(Vec::as_slice);
                next = ops.parents[at as usize];
            }
            operator_cost(name, &arguments, Context { enclosing: enclosing.as_ref(), gradient })
        });
        let cost = cost.map(Arc::new);
        if is_plain {
            self.parsed.insert(key, cost.clone());
        }
        cost
    }
}

/// Strides and values as recorded, without the members that differ from call to call.
fn recorded_inputs(args: &str) -> &str {
    let start =
        ["\"Concrete Inputs\"", "\"Input Strides\""].iter().filter_map(|key| args.find(key)).min();
    let Some(start) = start else { return "" };
    let rest = &args[start..];
    let end = ["\"Ev Idx\"", "\"Record function id\"", "\"Sequence number\""];
    let end = end.iter().filter_map(|key| rest.find(key)).min().unwrap_or(rest.len());
    &rest[..end]
}

/// Whether an operator of this name begins the backward call of a forward call.
fn is_autograd_node(name: &str) -> bool {
    name.starts_with(AUTOGRAD_PREFIX)
        || name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("Backward")
        || name.starts_with("torch::autograd::CppNode")
}

/// Values for some of the rows.
pub(super) struct RowValues<T> {
    /// Position of the value of each row, starting at 1; 0 where there is none.
    positions: Vec<u32>,
    values: Vec<T>,
}

impl<T> RowValues<T> {
    fn new(rows: usize) -> Self {
        Self { positions: vec![0; rows], values: Vec::new() }
    }

    fn insert(&mut self, row: u32, value: T) {
        self.values.push(value);
        self.positions[row as usize] = self.values.len() as u32;
    }

    pub(super) fn get(&self, row: u32) -> Option<&T> {
        let position = self.positions.get(row as usize)?;
        self.values.get(position.checked_sub(1)? as usize)
    }
}
