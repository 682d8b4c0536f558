//! Links backward operators to their forward operators.
//!
//! Autograd numbers the nodes of its graph, a series of its own on each thread. An operator carries the
//! number that the next node will get: of the forward operators with a number, the last to start made the
//! node. A backward operator carries the number of its node, and the forward thread as a number that
//! PyTorch made up (`Fwd thread id`), which arrows from forward to backward (`fwdbwd`) translate.

use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::column::NULL_I64;

use crate::timeline::columns::Columns;

/// Fills `cpu_ops.forward_op`. The result holds the row of the forward operator by row, where known;
/// nothing if the trace links none.
pub(crate) fn link(columns: &mut Columns) -> Vec<Option<u32>> {
    let ops = &columns.cpu_ops;
    let is_backward = |row: usize| ops.fwd_thread.get(row) > 0 && ops.sequence.get(row) >= 0;
    if !(0..ops.len()).any(is_backward) {
        return Vec::new();
    }
    // The last operator to start, by thread and number.
    let mut last: FxHashMap<(i32, i64), u32> = FxHashMap::default();
    let mut lanes: Vec<i32> = Vec::new();
    for row in 0..ops.len() {
        let (thread, sequence) = (ops.thread.get(row), ops.sequence.get(row));
        if sequence < 0 || ops.fwd_thread.get(row) > 0 {
            continue;
        }
        if !lanes.contains(&thread) {
            lanes.push(thread);
        }
        let known = last.entry((thread, sequence)).or_insert(row as u32);
        let start = |row: u32| (ops.ts_ns.get(row as usize), ops.event_id.get(row as usize));
        if start(row as u32) > start(*known) {
            *known = row as u32;
        }
    }
    let translated = if lanes.len() > 1 { translate(columns) } else { FxHashMap::default() };
    let mut forward = vec![None; ops.len()];
    for row in (0..ops.len()).filter(|&row| is_backward(row)) {
        let sequence = ops.sequence.get(row);
        let process = columns.process(ops.thread.get(row));
        let find = |lane: i32| {
            let found = *last.get(&(lane, sequence))?;
            (ops.ts_ns.get(found as usize) <= ops.ts_ns.get(row)).then_some(found)
        };
        forward[row] = if let Some(&lane) = translated.get(&(process, ops.fwd_thread.get(row))) {
            find(lane)
        } else {
            // Without arrows, only if no second thread has an operator of that number.
            let own = lanes.iter().filter(|&&lane| columns.process(lane) == process);
            let mut found = own.filter_map(|&lane| find(lane));
            found.next().filter(|_| found.next().is_none())
        };
    }
    columns.cpu_ops.forward_op.pad(forward.len());
    for (row, found) in forward.iter().enumerate() {
        let ops = &mut columns.cpu_ops;
        ops.forward_op.set(row, found.map_or(NULL_I64, |found| ops.event_id.get(found as usize)));
    }
    forward
}

/// The lane of each `Fwd thread id` of a process, from the first arrow to one of its backward operators.
fn translate(columns: &Columns) -> FxHashMap<(StrId, i64), i32> {
    let (flows, ops) = (&columns.flows, &columns.cpu_ops);
    let is = |row: usize, phase: &str| {
        let category = columns.strings.get(flows.category.get(row));
        matches!(category, "fwdbwd" | "forward_backward")
            && columns.strings.get(flows.phase.get(row)) == phase
    };
    // Each process numbers its arrows.
    let key = |row: usize| (columns.process(flows.thread.get(row)), flows.id.get(row));
    let starts: FxHashMap<(StrId, i64), i32> = (0..flows.len())
        .filter(|&row| is(row, "s"))
        .map(|row| (key(row), flows.thread.get(row)))
        .collect();
    let mut ends: FxHashMap<(i32, i64), i32> = FxHashMap::default();
    for row in (0..flows.len()).filter(|&row| is(row, "f")) {
        if let Some(&lane) = starts.get(&key(row)) {
            ends.insert((flows.thread.get(row), flows.ts_ns.get(row)), lane);
        }
    }
    let mut translated = FxHashMap::default();
    for row in 0..ops.len() {
        let id = ops.fwd_thread.get(row);
        if id > 0
            && let Some(&lane) = ends.get(&(ops.thread.get(row), ops.ts_ns.get(row)))
        {
            let process = columns.process(ops.thread.get(row));
            translated.entry((process, id)).or_insert(lane);
        }
    }
    translated
}
