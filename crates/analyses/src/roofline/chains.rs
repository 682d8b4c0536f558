//! `roofline_chains` and `roofline_chain_runs`: consecutive operators that move the same data and could be one kernel.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::calls::non_empty;
use super::cost::OpClass;
use super::ordered_calls::{OrderedCall, OrderedCalls};
use super::shapes::{element_counts, format_shapes};
use query::BatchBuilder;
use query::columns::Names;
use query::rust_view::ViewInputs;

/// Compilers seldom fuse more kernels into one.
const MAX_KERNELS: i64 = 15;
/// Share of the achievable bandwidth that a fused kernel is assumed to reach.
const FUSED_RATIO: f64 = 0.85;
/// Duration of the shortest kernel.
const MIN_KERNEL_NS: f64 = 2_000.0;

/// Rank, device, operators, and index of the shapes of the first.
type ChainKey = (i64, i64, String, u32);

/// Chains of the same operators on inputs of the same shapes.
#[derive(Debug, Clone, Default)]
struct ChainTotals {
    dims: u32,
    chain_count: i64,
    kernel_count: i64,
    kernel_ns: i64,
    bytes: f64,
    external_bytes: f64,
    fused_ns: Option<f64>,
}

/// Calls that each read a result of an earlier call of the chain.
pub(super) struct Chain<'a> {
    calls: Vec<&'a OrderedCall>,
    /// Elements and bytes of each result, and whether a call of the chain reads it.
    results: Vec<(f64, f64, bool)>,
    /// Bytes that need not be written or read if results stay in registers.
    saved_bytes: f64,
}

impl<'a> Chain<'a> {
    fn new(first: &'a OrderedCall) -> Self {
        let results = vec![(first.output_elements, first.written_bytes, false)];
        Self { calls: vec![first], results, saved_bytes: 0.0 }
    }

    /// Adds a call if it follows directly and reads a result.
    fn extend(&mut self, next: &'a OrderedCall, inputs: &[f64]) -> bool {
        let Some(last) = self.calls.last() else { return false };
        let kernels: i64 = self.calls.iter().map(|call| call.kernel_count).sum();
        let follows = next.queue_order == last.queue_order + last.kernel_count;
        if !last.shares_context_with(next) || !follows || kernels + next.kernel_count > MAX_KERNELS
        {
            return false;
        }
        let mut linked: Vec<usize> = Vec::new();
        for &input in inputs.iter().filter(|&&input| input > 1.0) {
            // The latest result of that size; two inputs are two results.
            let same =
                |&at: &usize| (self.results[at].0 - input).abs() < 0.5 && !linked.contains(&at);
            if let Some(at) = (0..self.results.len()).rev().find(same) {
                linked.push(at);
                let result = &mut self.results[at];
                // The read is saved, and at the first read the write too.
                self.saved_bytes += if result.2 { result.1 } else { 2.0 * result.1 };
                result.2 = true;
            }
        }
        let is_linked = !linked.is_empty();
        if is_linked {
            self.calls.push(next);
            self.results.push((next.output_elements, next.written_bytes, false));
        }
        is_linked
    }

    pub(super) fn calls(&self) -> &[&'a OrderedCall] {
        &self.calls
    }

    /// The operators, without their library.
    pub(super) fn name(&self, names: &Names) -> String {
        let names = self.calls.iter().filter_map(|call| names.texts.get(call.name as usize));
        let names: Vec<&str> =
            names.map(|name| name.strip_prefix("aten::").unwrap_or(name)).collect();
        names.join(" > ")
    }

    pub(super) fn kernel_count(&self) -> i64 {
        self.calls.iter().map(|call| call.kernel_count).sum()
    }

    pub(super) fn kernel_ns(&self) -> i64 {
        self.calls.iter().map(|call| call.kernel_ns).sum()
    }

    /// Time of one kernel in place of the chain's, never longer than theirs.
    fn fused_ns(&self) -> Option<f64> {
        let gb_per_s = self.calls.first()?.achievable_gb_per_s?;
        let fused_ns = (self.external_bytes() / gb_per_s / FUSED_RATIO).max(MIN_KERNEL_NS);
        Some(fused_ns.min(self.kernel_ns() as f64))
    }

    pub(super) fn bytes(&self) -> f64 {
        self.calls.iter().map(|call| call.read_bytes + call.written_bytes).sum()
    }

    pub(super) fn external_bytes(&self) -> f64 {
        // The result of the last call is written in any case.
        let last = self.calls.last().map_or(0.0, |call| call.written_bytes);
        (self.bytes() - self.saved_bytes).max(last)
    }
}

/// All chains of at least two of these calls, which are in order. `is_fusable` takes the position of a call.
pub(super) fn find<'a>(
    calls: &'a [OrderedCall],
    is_fusable: impl Fn(usize) -> bool,
    names: &Names,
    dims: &Names,
) -> Vec<Chain<'a>> {
    let sizes: Vec<Vec<f64>> = dims.texts.iter().map(|dims| element_counts(dims)).collect();
    let mut chains: Vec<Chain<'_>> = Vec::new();
    let mut chain: Option<Chain<'_>> = None;
    for (at, call) in calls.iter().enumerate() {
        let is_fusable = is_fusable(at);
        let inputs = sizes.get(call.dims as usize).map_or(&[][..], Vec::as_slice);
        // The first argument of a copy is its destination.
        let is_copy = names.texts.get(call.name as usize).is_some_and(|name| name == "aten::copy_");
        let inputs = if is_copy { inputs.get(1..).unwrap_or_default() } else { inputs };
        if let Some(open) = chain.as_mut()
            && is_fusable
            && open.extend(call, inputs)
        {
            continue;
        }
        chains.extend(chain.take());
        chain = is_fusable.then(|| Chain::new(call));
    }
    chains.extend(chain);
    chains.retain(|chain| chain.calls.len() > 1);
    chains
}

/// All chains of calls that launched kernels.
fn find_on_devices(ordered: &OrderedCalls) -> Vec<Chain<'_>> {
    let fusable: Vec<bool> = ordered
        .kinds
        .texts
        .iter()
        .map(|kind| OpClass::parse(kind).is_some_and(OpClass::is_fusable))
        .collect();
    let is_fusable = |at: usize| fusable.get(ordered.calls[at].kind as usize) == Some(&true);
    find(&ordered.calls, is_fusable, &ordered.names, &ordered.dims)
}

pub(super) fn chains(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ordered = OrderedCalls::read(inputs)?;
    let mut chain_totals: BTreeMap<ChainKey, ChainTotals> = BTreeMap::new();
    for chain in find_on_devices(&ordered) {
        add(&mut chain_totals, &ordered, &chain);
    }

    let dims =
        |totals: &ChainTotals| ordered.dims.texts.get(totals.dims as usize).map(String::as_str);
    let rows: Vec<(ChainKey, ChainTotals, Option<String>)> = chain_totals
        .into_iter()
        .map(|(key, totals)| {
            let shapes = dims(&totals).and_then(format_shapes);
            (key, totals, shapes)
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |(key, ..)| key.0)
        .int32("device", |(key, ..)| key.1)
        .text("name", |(key, ..)| non_empty(Some(key.2.as_str())))
        .text("input_dims", |(_, totals, _)| non_empty(dims(totals)))
        .text("shapes", |(.., shapes)| non_empty(shapes.as_deref()))
        .int("chain_count", |(_, totals, _)| Some(totals.chain_count))
        .int("kernel_count", |(_, totals, _)| Some(totals.kernel_count))
        .int("kernel_ns", |(_, totals, _)| Some(totals.kernel_ns))
        .float("moved_bytes", |(_, totals, _)| Some(totals.bytes))
        .float("external_bytes", |(_, totals, _)| Some(totals.external_bytes))
        .float("fused_ns", |(_, totals, _)| totals.fused_ns)
        .finish()
}

/// `roofline_chain_runs`: each occurrence of a chain.
pub(super) fn chain_runs(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ordered = OrderedCalls::read(inputs)?;
    let chains = find_on_devices(&ordered);
    BatchBuilder::of(&chains)
        .int32("rank", |chain| chain.calls[0].rank)
        .int32("device", |chain| chain.calls[0].device)
        .int("stream", |chain| Some(chain.calls[0].stream))
        .int("first_queue_order", |chain| Some(chain.calls[0].queue_order))
        .int("kernel_count", |chain| Some(chain.kernel_count()))
        .int("kernel_ns", |chain| Some(chain.kernel_ns()))
        .float("fused_ns", Chain::fused_ns)
        .finish()
}

fn add(
    chain_totals: &mut BTreeMap<ChainKey, ChainTotals>,
    ordered: &OrderedCalls,
    chain: &Chain<'_>,
) {
    let first = chain.calls[0];
    let totals = chain_totals
        .entry((first.rank, first.device, chain.name(&ordered.names), first.dims))
        .or_insert_with(|| ChainTotals {
            dims: first.dims,
            fused_ns: Some(0.0),
            ..ChainTotals::default()
        });
    totals.chain_count += 1;
    totals.kernel_count += chain.kernel_count();
    totals.kernel_ns = totals.kernel_ns.saturating_add(chain.kernel_ns());
    totals.bytes += chain.bytes();
    totals.external_bytes += chain.external_bytes();
    totals.fused_ns = totals.fused_ns.zip(chain.fused_ns()).map(|(sum, fused_ns)| sum + fused_ns);
}
