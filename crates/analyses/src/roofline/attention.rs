//! `roofline_attention`: attention that runs as matmuls around a softmax instead of one fused operator.

use query::rust_view::Result;
use trace_model::RecordBatch;

use super::calls::non_empty;
use super::ordered_calls::{OrderedCall, OrderedCalls};
use super::shapes::element_counts;
use query::BatchBuilder;
use query::rust_view::ViewInputs;

/// Most calls between the softmax and its matmuls: scaling, masks, casts and dropout.
const MAX_DISTANCE: usize = 12;
/// Share of the peak that fused attention is assumed to reach.
const FUSED_RATIO: f64 = 0.5;
/// Fused attention does five matmuls in backward instead of four: it computes the scores again.
const BACKWARD_FACTOR: f64 = 1.25;

struct UnfusedAttention<'a> {
    softmax: &'a OrderedCall,
    /// Positions of its first kernel on the stream, and of the kernel after its last.
    queue_orders: [i64; 2],
    is_backward: bool,
    /// Heads over all samples, queries, keys.
    scores: [f64; 3],
    kernel_ns: i64,
    matmul_ns: i64,
    kernel_count: i64,
    flops: f64,
    fused_ns: Option<f64>,
    dtype: Option<&'a str>,
}

pub(super) fn attention(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let ordered = OrderedCalls::read(inputs)?;
    let found = find(&ordered);
    let rows: Vec<(UnfusedAttention<'_>, String)> = found
        .into_iter()
        .map(|found| {
            let [batch, m, n] = found.scores;
            (found, format!("{batch} x {m} x {n}"))
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |(found, _)| found.softmax.rank)
        .int32("device", |(found, _)| found.softmax.device)
        .int("stream", |(found, _)| Some(found.softmax.stream))
        .int("first_queue_order", |(found, _)| Some(found.queue_orders[0]))
        .int("end_queue_order", |(found, _)| Some(found.queue_orders[1]))
        .text("pass", |(found, _)| Some(if found.is_backward { "backward" } else { "forward" }))
        .text("scores", |(_, scores)| Some(scores.as_str()))
        .float("score_elements", |(found, _)| Some(found.scores.iter().product()))
        .text("dtype", |(found, _)| non_empty(found.dtype))
        .int("op", |(found, _)| Some(found.softmax.op))
        .int("kernel_ns", |(found, _)| Some(found.kernel_ns))
        .int("matmul_ns", |(found, _)| Some(found.matmul_ns))
        .int("kernel_count", |(found, _)| Some(found.kernel_count))
        .float("flops", |(found, _)| Some(found.flops))
        .float("fused_ns", |(found, _)| found.fused_ns)
        .finish()
}

fn find(ordered: &OrderedCalls) -> Vec<UnfusedAttention<'_>> {
    let name =
        |call: &OrderedCall| ordered.names.texts.get(call.name as usize).map_or("", String::as_str);
    let sizes: Vec<Vec<f64>> = ordered.dims.texts.iter().map(|dims| element_counts(dims)).collect();
    let mut found = Vec::new();
    for (at, softmax) in ordered.calls.iter().enumerate() {
        let is_backward = match name(softmax) {
            "aten::_softmax" | "aten::_safe_softmax" | "aten::_masked_softmax" => false,
            "aten::_softmax_backward_data" => true,
            _ => continue,
        };
        let inputs = sizes.get(softmax.dims as usize).map_or(&[][..], Vec::as_slice);
        let Some(&size) = inputs.first().filter(|&&size| size > 1.0) else { continue };
        // A matmul whose result or first factor is the scores.
        let uses_scores = |call: &OrderedCall| {
            call.gemm.is_some_and(|[batch, m, n, k]| {
                [batch * m * n, batch * m * k].iter().any(|elements| (elements - size).abs() < 0.5)
                    && n * k > 1.0
            })
        };
        let is_near = |call: &&OrderedCall| {
            (call.rank, call.device, call.stream, call.part)
                == (softmax.rank, softmax.device, softmax.stream, softmax.part)
        };
        let before =
            ordered.calls[at.saturating_sub(MAX_DISTANCE)..at].iter().rev().take_while(is_near);
        let after = ordered.calls[at + 1..].iter().take(MAX_DISTANCE).take_while(is_near);
        let distance = |near: Vec<&OrderedCall>, products: usize| {
            let positions =
                near.iter().enumerate().filter(|(_, call)| uses_scores(call)).map(|(i, _)| i);
            positions.take(products).last().map(|i| i + 1)
        };
        // Forward has one matmul on each side, backward two.
        let products = if is_backward { 2 } else { 1 };
        let (Some(back), Some(on)) =
            (distance(before.collect(), products), distance(after.collect(), products))
        else {
            continue;
        };
        let calls = &ordered.calls[at - back..=at + on];
        let product = calls.iter().filter(|call| uses_scores(call));
        let Some([batch, m, n, k]) = product.clone().find_map(|call| call.gemm) else { continue };
        let flops: f64 = product.clone().map(|call| call.flops).sum();
        let factor = if is_backward { BACKWARD_FACTOR } else { 1.0 };
        let kernel_ns: i64 = calls.iter().map(|call| call.kernel_ns).sum();
        let peak = product.clone().find_map(|call| call.peak_tflops);
        let scores_are_result = (batch * m * n - size).abs() < 0.5;
        let row = calls.iter().position(uses_scores).map_or(at, |i| at - back + i);
        found.push(UnfusedAttention {
            softmax,
            queue_orders: [
                calls[0].queue_order,
                calls[calls.len() - 1].queue_order + calls[calls.len() - 1].kernel_count,
            ],
            is_backward,
            scores: if scores_are_result { [batch, m, n] } else { [batch, m, k] },
            kernel_ns,
            matmul_ns: product.clone().map(|call| call.kernel_ns).sum(),
            kernel_count: calls.iter().map(|call| call.kernel_count).sum(),
            flops,
            fused_ns: peak
                .map(|peak| (factor * flops / (FUSED_RATIO * peak) / 1e3).min(kernel_ns as f64)),
            dtype: ordered.dtypes.get(row),
        });
    }
    found
}
