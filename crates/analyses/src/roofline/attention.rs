//! `roofline_attention`: attention written out as products around a softmax.

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::ordered::{Ordered, Step, elements};
use super::rows::told;
use query::BatchBuilder;
use query::rust_view::ViewInputs;

/// How many calls away from the softmax its products may be: scaling, masks, casts and dropout lie between.
const REACH: usize = 12;
/// Part of the peak that fused attention is taken to reach.
const FUSED_RATIO: f64 = 0.5;
/// Fused attention multiplies five times in backward, for the four times written out: it computes the scores again.
const BACKWARD_FACTOR: f64 = 1.25;

struct Found<'a> {
    softmax: &'a Step,
    is_backward: bool,
    /// Heads of all samples, queries, keys.
    scores: [f64; 3],
    kernel_ns: i64,
    matmul_ns: i64,
    kernel_count: i64,
    flops: f64,
    fused_ns: Option<f64>,
    dtype: Option<&'a str>,
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ordered = Ordered::read(inputs)?;
    let found = find(&ordered);
    let rows: Vec<(Found<'_>, String)> = found
        .into_iter()
        .map(|of| {
            let [batch, m, n] = of.scores;
            (of, format!("{batch} x {m} x {n}"))
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |(of, _)| of.softmax.rank)
        .int32("device", |(of, _)| of.softmax.device)
        .text("pass", |(of, _)| Some(if of.is_backward { "backward" } else { "forward" }))
        .text("scores", |(_, scores)| Some(scores.as_str()))
        .text("dtype", |(of, _)| told(of.dtype))
        .int("op", |(of, _)| Some(of.softmax.op))
        .int("kernel_ns", |(of, _)| Some(of.kernel_ns))
        .int("matmul_ns", |(of, _)| Some(of.matmul_ns))
        .int("kernel_count", |(of, _)| Some(of.kernel_count))
        .float("flops", |(of, _)| Some(of.flops))
        .float("fused_ns", |(of, _)| of.fused_ns)
        .finish()
}

fn find(ordered: &Ordered) -> Vec<Found<'_>> {
    let name = |step: &Step| ordered.names.texts.get(step.name as usize).map_or("", String::as_str);
    let sizes: Vec<Vec<f64>> = ordered.dims.texts.iter().map(|dims| elements(dims)).collect();
    let mut found = Vec::new();
    for (at, softmax) in ordered.steps.iter().enumerate() {
        let is_backward = match name(softmax) {
            "aten::_softmax" | "aten::_safe_softmax" | "aten::_masked_softmax" => false,
            "aten::_softmax_backward_data" => true,
            _ => continue,
        };
        let inputs = sizes.get(softmax.dims as usize).map_or(&[][..], Vec::as_slice);
        let Some(&size) = inputs.first().filter(|&&size| size > 1.0) else { continue };
        // A product that gives the scores, or takes them as its first factor.
        let touches = |step: &Step| {
            step.gemm.is_some_and(|[batch, m, n, k]| {
                [batch * m * n, batch * m * k].iter().any(|of| (of - size).abs() < 0.5)
                    && n * k > 1.0
            })
        };
        let is_near = |step: &&Step| {
            (step.rank, step.device, step.stream, step.part)
                == (softmax.rank, softmax.device, softmax.stream, softmax.part)
        };
        let before = ordered.steps[at.saturating_sub(REACH)..at].iter().rev().take_while(is_near);
        let after = ordered.steps[at + 1..].iter().take(REACH).take_while(is_near);
        let reach = |near: Vec<&Step>, products: usize| {
            let places = near.iter().enumerate().filter(|(_, step)| touches(step)).map(|(i, _)| i);
            places.take(products).last().map(|i| i + 1)
        };
        // Forward: one product on each side. Backward: two.
        let products = if is_backward { 2 } else { 1 };
        let (Some(back), Some(on)) =
            (reach(before.collect(), products), reach(after.collect(), products))
        else {
            continue;
        };
        let steps = &ordered.steps[at - back..=at + on];
        let product = steps.iter().filter(|step| touches(step));
        let Some([batch, m, n, k]) = product.clone().find_map(|step| step.gemm) else { continue };
        let flops: f64 = product.clone().map(|step| step.flops).sum();
        let factor = if is_backward { BACKWARD_FACTOR } else { 1.0 };
        let kernel_ns: i64 = steps.iter().map(|step| step.kernel_ns).sum();
        let peak = product.clone().find_map(|step| step.peak_tflops);
        let scores_are_result = (batch * m * n - size).abs() < 0.5;
        let row = steps.iter().position(touches).map_or(at, |i| at - back + i);
        found.push(Found {
            softmax,
            is_backward,
            scores: if scores_are_result { [batch, m, n] } else { [batch, m, k] },
            kernel_ns,
            matmul_ns: product.clone().map(|step| step.kernel_ns).sum(),
            kernel_count: steps.iter().map(|step| step.kernel_count).sum(),
            flops,
            fused_ns: peak
                .map(|peak| (factor * flops / (FUSED_RATIO * peak) / 1e3).min(kernel_ns as f64)),
            dtype: ordered.dtypes.get(row),
        });
    }
    found
}
