//! The allocations of traces, from the events of the allocator.

use std::collections::BTreeMap;

use query::columns::{get, ints, names};
use query::rust_view::{Result, ViewInputs};

use super::{Memory, Moment};
use crate::memory::classify::{Allocation, Evidence, Owner, Phase, classify, total_bytes};
use crate::memory::segments::Segments;

/// Adds the memories of traces.
pub(super) fn traces(
    inputs: &ViewInputs<'_>,
    memories: &mut Vec<Memory>,
    places: &mut Vec<String>,
) -> Result<()> {
    let batch = inputs.batch("optimizers")?;
    let (rank, states) = (ints(batch, "rank")?, ints(batch, "states")?);
    let states: BTreeMap<i64, i64> =
        (0..batch.num_rows()).map(|row| (rank.value(row), states.value(row))).collect();
    let batch = inputs.batch("pieces")?;
    let rank = ints(batch, "rank")?;
    let [bytes, start, end] =
        [ints(batch, "bytes")?, ints(batch, "alloc_position")?, ints(batch, "end_position")?];
    let (memory, phases) = (names(batch, "memory")?, names(batch, "phase")?);
    let (modules, ops) = (names(batch, "module")?, names(batch, "outer_op_name")?);
    let inner_ops = names(batch, "op_name")?;
    let mut numbers: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
    let mut found: BTreeMap<(i64, String), Vec<Allocation>> = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let key = (modules.ids[row], ops.ids[row], inner_ops.ids[row]);
        let place = *numbers.entry(key).or_insert_with(|| {
            let op = ops.get(row).or_else(|| inner_ops.get(row));
            let parts: Vec<&str> = [modules.get(row), op].into_iter().flatten().collect();
            places.push(parts.join(", "));
            places.len() as u32 - 1
        });
        let phase = match phases.get(row) {
            Some("dataloader") => Phase::Loading,
            Some("forward") => Phase::Forward,
            Some("backward") => Phase::Backward,
            Some("optimizer") => Phase::Optimizer,
            _ => Phase::Other,
        };
        let of = (rank.value(row), memory.get(row).unwrap_or_default().to_owned());
        found.entry(of).or_default().push(Allocation {
            start: get(&start, row).unwrap_or(-1),
            end: get(&end, row).unwrap_or(i64::MAX),
            bytes: bytes.value(row),
            phase,
            is_cast: inner_ops.get(row).map(|op| op == "aten::_to_copy"),
            place,
            ..Allocation::default()
        });
    }
    let batch = inputs.batch("summaries")?;
    let (rank, memory, device) =
        (ints(batch, "rank")?, names(batch, "memory")?, ints(batch, "device")?);
    let [start, end, peak, position, total] = [
        ints(batch, "start_bytes")?,
        ints(batch, "end_bytes")?,
        ints(batch, "peak_allocated_bytes")?,
        ints(batch, "peak_position")?,
        ints(batch, "total_memory_bytes")?,
    ];
    for row in 0..batch.num_rows() {
        let name = memory.get(row).unwrap_or_default();
        let mut allocations = found.remove(&(rank.value(row), name.to_owned())).unwrap_or_default();
        let released = total_bytes(allocations.iter().filter(|a| a.start < 0));
        let older = get(&start, row).unwrap_or(0).saturating_sub(released);
        let states = states.get(&rank.value(row)).copied();
        older_in_traces(&mut allocations, older, states);
        memories.push(Memory {
            rank: rank.value(row),
            snapshot: None,
            space: name.to_owned(),
            device: device.value(row),
            moments: vec![
                Moment::new("peak", position.value(row), peak.value(row), None),
                Moment::new("end", i64::MAX - 1, end.value(row), None),
            ],
            allocations,
            unused_bytes: None,
            segments: Segments::default(),
            device_bytes: get(&total, row),
            capacity_bytes: get(&total, row),
            has_history: true,
        });
    }
    Ok(())
}

/// A trace tells of older memory only how much it is. Parameters take as much as the gradients of a backward pass, and
/// optimizers keep as many values again, or twice as many.
fn older_in_traces(allocations: &mut Vec<Allocation>, older_bytes: i64, states: Option<i64>) {
    classify(allocations);
    let mut of_iteration: BTreeMap<u32, i64> = BTreeMap::new();
    for allocation in allocations.iter().filter(|a| a.owner == Owner::Gradient) {
        let bytes = of_iteration.entry(allocation.iteration).or_default();
        *bytes = bytes.saturating_add(allocation.bytes);
    }
    let parameters = of_iteration.values().copied().max().unwrap_or(0).min(older_bytes.max(0));
    let is_kept = |a: &&Allocation| a.owner == Owner::OptimizerState && a.end == i64::MAX;
    let kept = total_bytes(allocations.iter().filter(is_kept));
    let wanted = states.unwrap_or(0).saturating_mul(parameters).saturating_sub(kept).max(0);
    // Optimizers without values (plain SGD) leave nothing of that size.
    let others = older_bytes.saturating_sub(parameters);
    let of_optimizer = if others as f64 >= 0.9 * wanted as f64 { wanted.min(others) } else { 0 };
    let parts = [
        (Owner::Parameter, parameters, Evidence::Size),
        (Owner::OptimizerState, of_optimizer, Evidence::Size),
        (Owner::Older, others.saturating_sub(of_optimizer), Evidence::Lifetime),
    ];
    for (owner, bytes, evidence) in parts.into_iter().filter(|(_, bytes, _)| *bytes != 0) {
        allocations.push(Allocation { bytes, owner, evidence, ..Allocation::default() });
    }
}
