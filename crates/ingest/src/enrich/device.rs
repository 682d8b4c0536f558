//! Links device activities to the calls that launched them, and orders them on their streams.

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};

use super::call_tree::{LaunchContext, ops_by_external_id};
use super::shared_correlations::{ActivityTable, CallsById};
use super::steps::Lookup;
use crate::timeline::columns::Columns;

/// Fills what device tables know through their launch: the call, the operator, annotation, module
/// and frame around it, the step; and the number of activities each call caused.
pub(crate) fn link(columns: &mut Columns, around: &[LaunchContext], steps: &Lookup) {
    let launches = CallsById::new(columns);
    let calls = &columns.runtime_calls;
    let mut caused = vec![0_i32; calls.len()];
    macro_rules! link {
        ($($table:ident = $activity:ident),+) => { $(
            let t = &mut columns.$table;
            let rows = t.len();
            t.launch.pad(rows);
            t.launch_name.pad(rows);
            t.launch_ts_ns.pad(rows);
            t.launch_dur_ns.pad(rows);
            t.launch_thread.pad(rows);
            t.op.pad(rows);
            t.op_name.pad(rows);
            for row in 0..rows {
                let id = t.correlation.get(row);
                let start_ns = t.ts_ns.get(row);
                let call = launches.call_of(ActivityTable::$activity, row, id, start_ns);
                let Some(call) = call else { continue };
                caused[call] += 1;
                let ts_ns = calls.ts_ns.get(call);
                t.launch.set(row, calls.event_id.get(call));
                t.launch_name.set(row, calls.name.get(call));
                t.launch_ts_ns.set(row, ts_ns);
                t.launch_dur_ns.set(row, calls.dur_ns.get(call));
                t.launch_thread.set(row, calls.thread.get(call));
                t.step.set(row, steps.at(ts_ns));
                let around = &around[call];
                t.op.set(row, around.op);
                t.op_name.set(row, around.op_name);
                t.annotation.set(row, around.annotation);
                // A module with which the program marked the graph node takes precedence.
                if t.module.get(row).is_null() {
                    t.module.set(row, around.module);
                }
                t.python_frame.set(row, around.python_frame);
                t.source.set(row, around.source);
            }
        )+ };
    }
    link!(kernels = Kernels, memcpys = Memcpys, memsets = Memsets);
    let t = &mut columns.device_syncs;
    for row in 0..t.len() {
        let id = t.correlation.get(row);
        let call = launches.call_of(ActivityTable::DeviceSyncs, row, id, t.ts_ns.get(row));
        let Some(call) = call else { continue };
        t.launch.set(row, calls.event_id.get(call));
        t.launch_ts_ns.set(row, calls.ts_ns.get(call));
        t.step.set(row, steps.at(calls.ts_ns.get(call)));
    }
    columns.runtime_calls.device_events.0 = caused;
    by_external_id(columns);
    queue_order(columns);
}

/// Device activities whose launch the trace does not hold may still name their operator.
fn by_external_id(columns: &mut Columns) {
    let t = &columns.kernels;
    let is_unlinked = |row| t.launch.get(row) == NULL_I64 && t.external_id.get(row) > 0;
    if !(0..t.len()).any(is_unlinked) {
        return;
    }
    let ops = &columns.cpu_ops;
    let mut by_id: FxHashMap<i64, Option<usize>> = FxHashMap::default();
    #[expect(
        clippy::iter_over_hash_type,
        reason = "an id of several processes gets no operator in any order"
    )]
    for ((_, id), op) in ops_by_external_id(columns) {
        by_id.entry(id).and_modify(|known| *known = None).or_insert(Some(op));
    }
    let t = &mut columns.kernels;
    for row in 0..t.len() {
        if t.launch.get(row) == NULL_I64
            && let Some(&Some(op)) = by_id.get(&t.external_id.get(row))
            && ops.ts_ns.get(op) <= t.ts_ns.get(row)
        {
            t.op.set(row, ops.event_id.get(op));
            t.op_name.set(row, ops.name.get(op));
            t.source.set(row, ops.source.get(op));
        }
    }
}

/// One activity to be ordered: where and when it ran, and its row among all three tables.
struct Entry {
    device: i32,
    stream: i32,
    ts_ns: i64,
    event_id: i64,
    row: usize,
}

/// Position of each activity on its stream, over kernels, copies and fills together.
fn queue_order(columns: &mut Columns) {
    let mut entries = Vec::new();
    let mut total = 0;
    macro_rules! gather {
        ($table:ident) => {
            let t = &columns.$table;
            for row in 0..t.len() {
                if t.stream.get(row) != NULL_I32 {
                    entries.push(Entry {
                        device: t.device.get(row),
                        stream: t.stream.get(row),
                        ts_ns: t.ts_ns.get(row),
                        event_id: t.event_id.get(row),
                        row: total + row,
                    });
                }
            }
            total += t.len();
        };
    }
    gather!(kernels);
    gather!(memcpys);
    gather!(memsets);
    entries.sort_by_key(|e| (e.device, e.stream, e.ts_ns, e.event_id));
    let mut order = vec![NULL_I64; total];
    let mut lane = None;
    let mut next = 0;
    for entry in &entries {
        if lane != Some((entry.device, entry.stream)) {
            lane = Some((entry.device, entry.stream));
            next = 0;
        }
        order[entry.row] = next;
        next += 1;
    }
    let (kernels, rest) = order.split_at(columns.kernels.len());
    let (memcpys, memsets) = rest.split_at(columns.memcpys.len());
    columns.kernels.queue_order.0 = kernels.to_vec();
    columns.memcpys.queue_order.0 = memcpys.to_vec();
    columns.memsets.queue_order.0 = memsets.to_vec();
}
