//! Derived columns that are awkward in SQL: call trees, source lines, steps, links from launch to device work,
//! queue order. Computed once per file, in time near-linear in the number of events.

pub(crate) mod begin_end;
mod call_tree;
mod data_flow;
mod device;
mod enclosing_work;
mod far_events;
mod forward;
mod graph_edges;
pub(crate) mod graphs;
mod legacy;
mod operator_sequence;
mod passes;
mod ranges;
mod repetition;
mod shared_correlations;
mod source;
pub(crate) mod steps;

pub(crate) use operator_sequence::RecurringOperators;

use crate::timeline::columns::Columns;
use crate::timeline::trace::{Trace, extent};

/// Links the events of a complete trace with each other: begins and ends, the call tree, steps, launches.
pub(crate) fn enrich(mut trace: Trace) -> Trace {
    let columns = &mut trace.columns;
    far_events::drop(columns);
    far_events::limit_totals(columns);
    enclosing_work::drop(columns);
    begin_end::pair(columns);
    let launches = legacy::link(columns);
    let around = call_tree::build(columns);
    (trace.start_ns, trace.end_ns) = extent(columns);
    // Where nothing marks steps, the operators' extent is the step, as in TensorBoard: frames of the
    // profiler itself lie outside.
    let recording = operator_extent(columns).unwrap_or((trace.start_ns, trace.end_ns));
    trace.found = steps::find(columns, recording);
    let lookup = steps::Lookup::new(&trace.found.steps);
    steps::assign(columns, &lookup);
    device::link(columns, &around, &lookup);
    legacy::set_launches(columns, &launches, &lookup);
    graphs::link(columns, &around, &trace.file);
    graph_edges::link(columns);
    steps::find_ready(columns, &mut trace.found.steps);
    trace.unpaired = ranges::pair(columns, &around, &lookup);
    trace
}

/// First start and last end of operators; `None` if most launches are outside of that time.
fn operator_extent(columns: &Columns) -> Option<(i64, i64)> {
    let t = &columns.cpu_ops;
    let start = *t.ts_ns.0.iter().min()?;
    let end = t.ts_ns.0.iter().zip(&t.dur_ns.0).map(|(ts, dur)| ts + dur).max()?;
    let calls = &columns.runtime_calls;
    let is_launch: Vec<bool> =
        columns.strings.iter().map(|(_, name)| name.contains("Launch")).collect();
    let (mut inside, mut outside) = (0_usize, 0_usize);
    for (name, ts_ns) in calls.name.0.iter().zip(&calls.ts_ns.0) {
        if is_launch.get(name.index()) == Some(&true) {
            let count = if (start..=end).contains(ts_ns) { &mut inside } else { &mut outside };
            *count += 1;
        }
    }
    (outside <= inside).then_some((start, end))
}
