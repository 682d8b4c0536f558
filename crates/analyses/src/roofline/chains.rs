//! `roofline_chains`: operators that move the same data one after another, and could be one kernel.

use std::collections::BTreeMap;

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::ordered::{Ordered, Step, elements};
use super::rows::{in_words, told};
use query::BatchBuilder;
use query::rust_view::ViewInputs;

/// More kernels are seldom fused into one.
const MAX_KERNELS: i64 = 15;
/// Part of the achievable bandwidth that a fused kernel is taken to reach.
const FUSED_RATIO: f64 = 0.85;
/// The shortest kernel.
const KERNEL_NS: f64 = 2_000.0;

/// Rank, device, operators, and shapes of the first.
type Key = (i64, i64, String, u32);

/// Chains of the same operators on inputs of the same shapes.
#[derive(Debug, Clone, Default)]
struct Pattern {
    dims: u32,
    chain_count: i64,
    kernel_count: i64,
    kernel_ns: i64,
    bytes: f64,
    external_bytes: f64,
    fused_ns: Option<f64>,
}

/// Calls that each read what one before wrote.
struct Chain<'a> {
    steps: Vec<&'a Step>,
    /// Elements and bytes of results, and whether they are read inside.
    results: Vec<(f64, f64, bool)>,
    /// Bytes that need not be written or read if results stay in registers.
    saved_bytes: f64,
}

impl<'a> Chain<'a> {
    fn new(first: &'a Step) -> Self {
        let results = vec![(first.output_elements, first.written_bytes, false)];
        Self { steps: vec![first], results, saved_bytes: 0.0 }
    }

    /// Adds a call if it follows directly and reads a result.
    fn extend(&mut self, next: &'a Step, inputs: &[f64]) -> bool {
        let Some(last) = self.steps.last() else { return false };
        let kernels: i64 = self.steps.iter().map(|step| step.kernel_count).sum();
        let follows = next.queue_order == last.queue_order + last.kernel_count;
        if !last.is_beside(next) || !follows || kernels + next.kernel_count > MAX_KERNELS {
            return false;
        }
        let mut linked: Vec<usize> = Vec::new();
        for &input in inputs.iter().filter(|&&input| input > 1.0) {
            // The latest of that size; two inputs are two results.
            let same =
                |&at: &usize| (self.results[at].0 - input).abs() < 0.5 && !linked.contains(&at);
            if let Some(at) = (0..self.results.len()).rev().find(same) {
                linked.push(at);
                let result = &mut self.results[at];
                // Read here, and written for it once.
                self.saved_bytes += if result.2 { result.1 } else { 2.0 * result.1 };
                result.2 = true;
            }
        }
        let is_linked = !linked.is_empty();
        if is_linked {
            self.steps.push(next);
            self.results.push((next.output_elements, next.written_bytes, false));
        }
        is_linked
    }

    fn bytes(&self) -> f64 {
        self.steps.iter().map(|step| step.read_bytes + step.written_bytes).sum()
    }

    fn external_bytes(&self) -> f64 {
        // At least what the last one writes is there afterwards.
        let last = self.steps.last().map_or(0.0, |step| step.written_bytes);
        (self.bytes() - self.saved_bytes).max(last)
    }
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ordered = Ordered::read(inputs)?;
    let fusable: Vec<bool> = ordered
        .kinds
        .texts
        .iter()
        .map(|kind| {
            matches!(kind.as_str(), "elementwise" | "norm" | "softmax" | "reduction" | "copy")
        })
        .collect();
    let sizes: Vec<Vec<f64>> = ordered.dims.texts.iter().map(|dims| elements(dims)).collect();
    let mut patterns: BTreeMap<Key, Pattern> = BTreeMap::new();
    let mut chain: Option<Chain<'_>> = None;
    for step in &ordered.steps {
        let is_fusable = fusable.get(step.kind as usize) == Some(&true);
        let inputs = sizes.get(step.dims as usize).map_or(&[][..], Vec::as_slice);
        // What a copy is written to is no input.
        let is_copy =
            ordered.names.texts.get(step.name as usize).is_some_and(|name| name == "aten::copy_");
        let inputs = if is_copy { inputs.get(1..).unwrap_or_default() } else { inputs };
        if let Some(open) = chain.as_mut()
            && is_fusable
            && open.extend(step, inputs)
        {
            continue;
        }
        add(&mut patterns, &ordered, chain.take());
        chain = is_fusable.then(|| Chain::new(step));
    }
    add(&mut patterns, &ordered, chain);

    let dims = |of: &Pattern| ordered.dims.texts.get(of.dims as usize).map(String::as_str);
    let rows: Vec<(Key, Pattern, Option<String>)> = patterns
        .into_iter()
        .map(|(key, of)| {
            let shapes = dims(&of).and_then(in_words);
            (key, of, shapes)
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |(key, ..)| key.0)
        .int32("device", |(key, ..)| key.1)
        .text("name", |(key, ..)| told(Some(key.2.as_str())))
        .text("input_dims", |(_, of, _)| told(dims(of)))
        .text("shapes", |(.., shapes)| told(shapes.as_deref()))
        .int("chain_count", |(_, of, _)| Some(of.chain_count))
        .int("kernel_count", |(_, of, _)| Some(of.kernel_count))
        .int("kernel_ns", |(_, of, _)| Some(of.kernel_ns))
        .float("moved_bytes", |(_, of, _)| Some(of.bytes))
        .float("external_bytes", |(_, of, _)| Some(of.external_bytes))
        .float("fused_ns", |(_, of, _)| of.fused_ns)
        .finish()
}

fn add(patterns: &mut BTreeMap<Key, Pattern>, ordered: &Ordered, chain: Option<Chain<'_>>) {
    let Some(chain) = chain.filter(|chain| chain.steps.len() > 1) else { return };
    let first = chain.steps[0];
    let names = chain.steps.iter().filter_map(|step| ordered.names.texts.get(step.name as usize));
    let names: Vec<&str> = names.map(|name| name.strip_prefix("aten::").unwrap_or(name)).collect();
    let pattern = patterns
        .entry((first.rank, first.device, names.join(" > "), first.dims))
        .or_insert_with(|| Pattern { dims: first.dims, fused_ns: Some(0.0), ..Pattern::default() });
    let kernel_ns: i64 = chain.steps.iter().map(|step| step.kernel_ns).sum();
    let external_bytes = chain.external_bytes();
    pattern.chain_count += 1;
    pattern.kernel_count += chain.steps.iter().map(|step| step.kernel_count).sum::<i64>();
    pattern.kernel_ns = pattern.kernel_ns.saturating_add(kernel_ns);
    pattern.bytes += chain.bytes();
    pattern.external_bytes += external_bytes;
    pattern.fused_ns = pattern.fused_ns.zip(first.achievable_gb_per_s).map(|(sum, gb_per_s)| {
        let fused_ns = (external_bytes / gb_per_s / FUSED_RATIO).max(KERNEL_NS);
        // Never slower than it is.
        sum + fused_ns.min(kernel_ns as f64)
    });
}
