//! Traces of `torch.autograd`'s profiler before torch 1.8: arrows lead from operators to what the device ran for them, and
//! no call of the runtime is recorded.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;

use crate::timeline::columns::Columns;

/// Category of the arrows.
const ARROWS: &str = "cpu_to_cuda";

/// Gives an operator and the device activities that arrows lead to one external id.
pub(super) fn link(columns: &mut Columns) {
    let strings = &columns.strings;
    let Some(arrows) = strings.find(ARROWS) else { return };
    let (Some(start), Some(end)) = (strings.find("s"), strings.find("f")) else { return };
    let (ops, kernels) = (&columns.cpu_ops, &columns.kernels);
    let by_place = |lanes: &[i32], times: &[i64]| -> FxHashMap<(i32, i64), usize> {
        // Of operators that start together, the last one written is the innermost.
        lanes
            .iter()
            .copied()
            .zip(times.iter().copied())
            .enumerate()
            .map(|(row, at)| (at, row))
            .collect()
    };
    let op_at = by_place(&ops.thread.0, &ops.ts_ns.0);
    let kernel_at = by_place(&kernels.thread.0, &kernels.ts_ns.0);
    let flows = &columns.flows;
    let arrows: Vec<usize> =
        (0..flows.len()).filter(|&row| flows.category.get(row) == arrows).collect();
    let place = |row: usize| (flows.thread.get(row), flows.ts_ns.get(row));
    let ends: FxHashMap<i64, usize> = arrows
        .iter()
        .filter(|&&row| flows.phase.get(row) == end)
        .filter_map(|&row| Some((flows.id.get(row), *kernel_at.get(&place(row))?)))
        .collect();
    let links: Vec<(usize, usize)> = arrows
        .iter()
        .filter(|&&row| flows.phase.get(row) == start)
        .filter_map(|&row| Some((*op_at.get(&place(row))?, *ends.get(&flows.id.get(row))?)))
        .collect();
    columns.cpu_ops.external_id.pad(columns.cpu_ops.ts_ns.0.len());
    columns.kernels.external_id.pad(columns.kernels.ts_ns.0.len());
    for (op, kernel) in links {
        if columns.cpu_ops.external_id.get(op) == NULL_I64 {
            columns.cpu_ops.external_id.set(op, op as i64 + 1);
        }
        columns.kernels.external_id.set(kernel, columns.cpu_ops.external_id.get(op));
    }
}
