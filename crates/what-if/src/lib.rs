//! The critical path of each rank, and predictions of its length if parts of the work cost less.
//!
//! The events of a rank become a graph (`graph`): nodes are instants, edges are dependencies with a minimum
//! duration. Time passes on host threads (`timeline`, `host`) and on device streams (`device`). Each node is
//! bound by the last of its predecessors, so walking back from the end of the window gives a path whose segments tile
//! the window exactly (`path`). The same graph with other weights predicts another run (`what_if`). Ranks are
//! independent of one another here: the time that a collective waits for other ranks is part of its duration.

mod device;
mod edits;
mod graph;
mod host;
mod input;
mod memo;
mod model;
mod output;
mod overhead;
mod path;
mod replay;
mod retime;
mod streams;
#[cfg(test)]
mod tests;
mod timeline;
mod what_if;

use query::rust_view::{Result, ViewInputs};
use query::{RustView, per_item, view_error};
use trace_model::RecordBatch;

use self::graph::Graph;
use self::input::{LoadedRanks, RankTrace};

pub use self::retime::{Retimed, RetimingRanks, retime, retiming_queries};

/// The edges of the graph.
pub const EDGES: RustView = RustView::new("critical_edges", INPUTS, edges);

/// The segments of the path.
pub const PATH: RustView = RustView::new("critical_path", INPUTS, path);

/// Predictions.
pub const PREDICTIONS: RustView = RustView::new("critical_what_if", INPUTS, what_if);

/// The size of each rank's graph.
pub const WINDOWS: RustView = RustView::new("critical_windows", INPUTS, windows);

/// Inputs of all views.
const INPUTS: &[(&str, &str)] = &[
    ("ranks", "SELECT rank FROM ranks ORDER BY rank"),
    ("cpu_ops", "SELECT rank, event_id, ts_ns, dur_ns, thread, name FROM cpu_ops"),
    (
        "runtime_calls",
        "SELECT rank, event_id, ts_ns, dur_ns, thread, name, correlation FROM runtime_calls",
    ),
    (
        "annotations",
        // A trainer's mark of loading is a wait, up to where the wait ends, on ranks where torch has none.
        "SELECT a.rank, a.event_id, a.ts_ns, coalesce(w.end_ns - a.ts_ns, a.dur_ns) AS dur_ns, a.thread, a.name,
             w.end_ns IS NOT NULL AS is_loading
         FROM annotations a
         LEFT JOIN (SELECT DISTINCT rank, thread, name, ts_ns, end_ns FROM host_waits WHERE cause = 'dataloader') w
             ON w.rank = a.rank AND w.thread = a.thread AND w.name = a.name AND w.ts_ns = a.ts_ns
         WHERE NOT a.on_device",
    ),
    ("python_frames", "SELECT rank, event_id, ts_ns, dur_ns, thread, name FROM python_frames"),
    (
        "kernels",
        "SELECT rank, event_id, ts_ns, dur_ns, thread, name, kind, device, stream, launch, step FROM kernels",
    ),
    (
        "memcpys",
        "SELECT rank, event_id, ts_ns, dur_ns, thread, name, device, stream, launch, step FROM memcpys",
    ),
    (
        "memsets",
        "SELECT rank, event_id, ts_ns, dur_ns, thread, name, device, stream, launch, step FROM memsets",
    ),
    (
        "device_syncs",
        "SELECT rank, name, device, stream, launch, wait_on_stream, wait_on_record FROM device_syncs",
    ),
    ("graph_edges", "SELECT rank, source, target, is_complete FROM graph_edges"),
    (
        "steps",
        "SELECT s.rank, s.step, s.ts_ns, s.dur_ns, s.thread, CASE WHEN c.is_counted THEN c.dur_ns END AS counted_ns
         FROM steps s
         LEFT JOIN complete_steps c ON c.rank = s.rank AND c.host_ts_ns = s.ts_ns AND c.step = s.step
         ORDER BY s.rank, s.ts_ns, s.step",
    ),
];

fn path(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = LoadedRanks::new(inputs)?;
    let segments = per_rank(&loaded.ranks, |rank| {
        path::split_by_step(&path::path_segments(&rank.graph()), &rank.events.steps)
    });
    output::path(&loaded, &segments)
}

fn edges(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = LoadedRanks::new(inputs)?;
    let graphs = per_rank(&loaded.ranks, RankTrace::graph);
    output::edges(&loaded, &graphs)
}

fn windows(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = LoadedRanks::new(inputs)?;
    let graphs = per_rank(&loaded.ranks, RankTrace::graph);
    output::windows(&loaded, &graphs)
}

fn what_if(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let custom = inputs.text("what_if")?;
    let mut scenarios: Vec<(&str, &str)> = what_if::BUILT_IN_SCENARIOS.to_vec();
    if !custom.trim().is_empty() {
        scenarios.push(("custom", custom));
    }
    let scenarios: Result<Vec<_>> = scenarios
        .into_iter()
        .map(|(name, text)| {
            let scenario = what_if::Scenario::parse(text).map_err(|e| view_error!("{e}"))?;
            Ok((name, text, scenario))
        })
        .collect();
    let scenarios = scenarios?;
    let loaded = LoadedRanks::new(inputs)?;
    let predictions = per_rank(&loaded.ranks, |rank| {
        let graph = rank.graph();
        let clock = what_if::StepClock::new(&graph, &rank.events);
        scenarios
            .iter()
            .map(|(name, text, scenario)| what_if::predict(&graph, &clock, name, text, scenario))
            .collect::<Vec<_>>()
    });
    output::what_if(&loaded, &predictions)
}

impl RankTrace {
    fn graph(&self) -> Graph {
        Graph::new(&self.events, self.window)
    }
}

/// Applies `compute` to each rank on all cores; the results are in the order of the ranks.
fn per_rank<T: Send>(ranks: &[RankTrace], compute: impl Fn(&RankTrace) -> T + Sync) -> Vec<T> {
    per_item(ranks.iter().collect(), compute)
}
