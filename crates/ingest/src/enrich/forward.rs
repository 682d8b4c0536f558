//! Which forward operator a backward operator undoes.
//!
//! Autograd numbers the nodes of its graph, a series of its own on each thread. An operator carries the
//! number that the next node will get: of the forward operators with a number, the last to start made the
//! node. A backward operator carries the number of its node, and the forward thread as a number that
//! PyTorch made up (`Fwd thread id`), which arrows from forward to backward (`fwdbwd`) translate.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;

use crate::formats::kineto::columns::Columns;

/// Fills `cpu_ops.forward_op`. The result holds the row of the forward operator by row, where known;
/// nothing if the trace links none.
pub(crate) fn link(columns: &mut Columns) -> Vec<Option<u32>> {
    let ops = &columns.cpu_ops;
    let is_backward = |row: usize| ops.fwd_thread.0[row] > 0 && ops.sequence.0[row] >= 0;
    if !(0..ops.len()).any(is_backward) {
        return Vec::new();
    }
    // The last operator to start, by thread and number.
    let mut last: FxHashMap<(i32, i64), u32> = FxHashMap::default();
    let mut lanes: Vec<i32> = Vec::new();
    for row in 0..ops.len() {
        let (thread, sequence) = (ops.thread.0[row], ops.sequence.0[row]);
        if sequence < 0 || ops.fwd_thread.0[row] > 0 {
            continue;
        }
        if !lanes.contains(&thread) {
            lanes.push(thread);
        }
        let known = last.entry((thread, sequence)).or_insert(row as u32);
        let start = |row: u32| (ops.ts_ns.0[row as usize], ops.event_id.0[row as usize]);
        if start(row as u32) > start(*known) {
            *known = row as u32;
        }
    }
    let translated = if lanes.len() > 1 { translate(columns) } else { FxHashMap::default() };
    let mut forward = vec![None; ops.len()];
    for row in (0..ops.len()).filter(|&row| is_backward(row)) {
        let sequence = ops.sequence.0[row];
        let find = |lane: i32| {
            let found = *last.get(&(lane, sequence))?;
            (ops.ts_ns.0[found as usize] <= ops.ts_ns.0[row]).then_some(found)
        };
        forward[row] = if let Some(&lane) = translated.get(&ops.fwd_thread.0[row]) {
            find(lane)
        } else {
            // Without arrows, only if no second thread has an operator of that number.
            let mut found = lanes.iter().filter_map(|&lane| find(lane));
            found.next().filter(|_| found.next().is_none())
        };
    }
    for (row, found) in forward.iter().enumerate() {
        columns.cpu_ops.forward_op.0[row] =
            found.map_or(NULL_I64, |found| columns.cpu_ops.event_id.0[found as usize]);
    }
    forward
}

/// The lane of each `Fwd thread id`, as the first arrow to one of its backward operators says.
fn translate(columns: &Columns) -> FxHashMap<i64, i32> {
    let (flows, ops) = (&columns.flows, &columns.cpu_ops);
    let is = |row: usize, phase: &str| {
        let category = columns.strings.get(flows.category.0[row]);
        matches!(category, "fwdbwd" | "forward_backward")
            && columns.strings.get(flows.phase.0[row]) == phase
    };
    let starts: FxHashMap<i64, i32> = (0..flows.len())
        .filter(|&row| is(row, "s"))
        .map(|row| (flows.id.0[row], flows.thread.0[row]))
        .collect();
    let mut ends: FxHashMap<(i32, i64), i32> = FxHashMap::default();
    for row in (0..flows.len()).filter(|&row| is(row, "f")) {
        if let Some(&lane) = starts.get(&flows.id.0[row]) {
            ends.insert((flows.thread.0[row], flows.ts_ns.0[row]), lane);
        }
    }
    let mut translated = FxHashMap::default();
    for row in 0..ops.len() {
        let id = ops.fwd_thread.0[row];
        if id > 0
            && let Some(&lane) = ends.get(&(ops.thread.0[row], ops.ts_ns.0[row]))
        {
            translated.entry(id).or_insert(lane);
        }
    }
    translated
}
