//! The critical path of each rank, and how long it would be if something cost less.
//!
//! From the events of a rank comes a graph ([`graph`]): its nodes are instants, its edges say what had to
//! come before. Time passes on host threads ([`timeline`], [`host`]) and on device streams ([`device`]).
//! Each node was held by the last of its predecessors, so walking back from the end of the window gives a
//! path whose segments tile the window exactly ([`path`]). With other weights the same graph gives the
//! times of another run ([`what_if`]). Ranks are independent of one another here: what a collective waited
//! for on other ranks is part of its time.

mod device;
mod graph;
mod host;
mod input;
mod model;
mod output;
mod path;
mod streams;
#[cfg(test)]
mod tests;
mod timeline;
mod what_if;

use std::thread;

use query::rust_view::Result;
use query::view_error;
use trace_model::RecordBatch;

use self::graph::Graph;
use self::input::{Loaded, Rank};
use query::rust_view::ViewInputs;

/// What all views of this area read.
pub(super) const READS: &[(&str, &str)] = &[
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
    ("steps", "SELECT rank, step, ts_ns, dur_ns, thread FROM steps ORDER BY rank, ts_ns, step"),
];

/// `critical_path`: the segments.
pub(super) fn path(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = Loaded::new(inputs)?;
    let segments = per_rank(&loaded.ranks, |rank| {
        path::by_step(&path::segments(&rank.graph()), &rank.events.steps)
    })?;
    output::path(&loaded, &segments)
}

/// `critical_edges`: the graph.
pub(super) fn edges(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = Loaded::new(inputs)?;
    let graphs = per_rank(&loaded.ranks, Rank::graph)?;
    output::edges(&loaded, &graphs)
}

/// `critical_windows`: what the graph of each rank is made of.
pub(super) fn windows(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let loaded = Loaded::new(inputs)?;
    let graphs = per_rank(&loaded.ranks, Rank::graph)?;
    output::windows(&loaded, &graphs)
}

/// `critical_what_if`: predictions.
pub(super) fn what_if(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let custom = inputs.text("what_if")?;
    let mut scenarios: Vec<(&str, &str)> = what_if::SCENARIOS.to_vec();
    if !custom.trim().is_empty() {
        scenarios.push(("custom", custom));
    }
    let scenarios: Result<Vec<_>> = scenarios
        .into_iter()
        .map(|(name, text)| {
            let factors = what_if::Factors::parse(text).map_err(|e| view_error!("{e}"))?;
            Ok((name, text, factors))
        })
        .collect();
    let scenarios = scenarios?;
    let loaded = Loaded::new(inputs)?;
    let predictions = per_rank(&loaded.ranks, |rank| {
        let graph = rank.graph();
        let clock = what_if::StepClock::new(&graph, &rank.events);
        scenarios
            .iter()
            .map(|(name, text, factors)| what_if::predict(&graph, &clock, name, text, factors))
            .collect::<Vec<_>>()
    })?;
    output::what_if(&loaded, &predictions)
}

impl Rank {
    fn graph(&self) -> Graph {
        Graph::new(&self.events, self.window)
    }
}

/// `of` for each rank, on all cores.
fn per_rank<T: Send>(ranks: &[Rank], of: impl Fn(&Rank) -> T + Sync) -> Result<Vec<T>> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(ranks.len());
    if cores <= 1 {
        return Ok(ranks.iter().map(of).collect());
    }
    let share = ranks.len().div_ceil(cores);
    let results = thread::scope(|scope| {
        let workers: Vec<_> = ranks
            .chunks(share)
            .map(|ranks| scope.spawn(|| ranks.iter().map(&of).collect::<Vec<T>>()))
            .collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Result<Vec<_>, _>>()
    });
    let results = results.map_err(|_| view_error!("a worker thread failed"))?;
    Ok(results.into_iter().flatten().collect())
}
