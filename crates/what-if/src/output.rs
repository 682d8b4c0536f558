//! Builds the rows of the views from graphs, paths and predictions.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array};
use query::rust_view::Result;
use trace_model::RecordBatch;

use super::graph::{Edge, EdgeKind, Graph};
use super::input::{LoadedRanks, RankTrace};
use super::model::EventTable;
use super::path::{self, PathSegment, SegmentOwner};
use super::what_if::Prediction;
use query::dictionary_array;

/// Rows of `critical_path`.
pub(crate) fn path<'a>(
    loaded: &'a LoadedRanks,
    segments: &[Vec<(PathSegment, Option<i64>)>],
) -> Result<RecordBatch> {
    let rows =
        || loaded.ranks.iter().zip(segments).flat_map(|(r, s)| s.iter().map(move |s| (r, s)));
    let position = segments.iter().flat_map(|s| 0..s.len() as i64);
    let activity =
        |(rank, (segment, _)): (&'a RankTrace, &(PathSegment, Option<i64>))| match segment.owner {
            SegmentOwner::Activity(at) => rank.events.activities.get(at as usize),
            _ => None,
        };
    let mut names: Vec<Option<&str>> = Vec::new();
    let mut lanes: Vec<Option<i32>> = Vec::new();
    let mut events: Vec<Option<i64>> = Vec::new();
    let mut tables: Vec<Option<&str>> = Vec::new();
    for (rank, (segment, _)) in rows() {
        let of = match segment.owner {
            SegmentOwner::HostEvent(at) => {
                let e = &rank.events.host[at as usize];
                Some((e.table, e.row, e.id, e.lane))
            }
            SegmentOwner::Activity(at) => {
                let a = &rank.events.activities[at as usize];
                Some((a.table, a.row, a.id, a.lane))
            }
            SegmentOwner::Thread(_) | SegmentOwner::Unattributed => None,
        };
        names.push(of.and_then(|(table, row, ..)| loaded.names(table).get(row as usize)));
        tables.push(of.map(|(table, ..)| table.name()));
        events.push(of.map(|(_, _, id, _)| id));
        lanes.push(of.map(|(.., lane)| lane));
    }
    batch([
        ("rank", ranks(rows().map(|(r, _)| r))),
        ("position", Arc::new(position.collect::<Int64Array>())),
        ("ts_ns", Arc::new(rows().map(|(_, (s, _))| s.ts_ns).collect::<Int64Array>())),
        ("dur_ns", Arc::new(rows().map(|(_, (s, _))| s.dur_ns).collect::<Int64Array>())),
        ("bound_by", dictionary_array(rows().map(|(_, (s, _))| Some(s.class.bound_by())))),
        ("host_kind", dictionary_array(rows().map(|(_, (s, _))| s.class.host_kind()))),
        ("name", dictionary_array(names.into_iter())),
        ("event_id", Arc::new(Int64Array::from(events))),
        ("stored_in", dictionary_array(tables.into_iter())),
        ("thread", Arc::new(Int32Array::from(lanes))),
        ("device", Arc::new(rows().map(|r| Some(activity(r)?.device)).collect::<Int32Array>())),
        ("stream", Arc::new(rows().map(|r| Some(activity(r)?.stream)).collect::<Int32Array>())),
        ("step", Arc::new(rows().map(|(_, (_, step))| *step).collect::<Int64Array>())),
        (
            "after_sync",
            Arc::new(
                rows()
                    .map(|(r, (s, _))| Some(r.events.host[s.after_sync? as usize].id))
                    .collect::<Int64Array>(),
            ),
        ),
    ])
}

/// An edge of a rank's graph: its index, and that of its target.
type EdgeRow<'a> = (&'a RankTrace, &'a Graph, usize, usize);

/// Rows of `critical_edges`.
pub(crate) fn edges(loaded: &LoadedRanks, graphs: &[Graph]) -> Result<RecordBatch> {
    let mut rows: Vec<EdgeRow<'_>> = Vec::new();
    let mut on_path: Vec<bool> = Vec::new();
    for (rank, graph) in loaded.ranks.iter().zip(graphs) {
        let first = rows.len();
        for target in 0..graph.nodes.len() {
            rows.extend(graph.edge_range(target).map(|edge| (rank, graph, edge, target)));
        }
        on_path.resize(rows.len(), false);
        for (edge, _) in path::path_edges(graph) {
            on_path[first + edge as usize] = true;
        }
    }
    let edge = |&(_, graph, edge, _): &EdgeRow<'_>| graph.edges[edge];
    let source = |row: &EdgeRow<'_>| edge(row).source as usize;
    let lane = |&(rank, graph, ..): &EdgeRow<'_>, node: usize| {
        let node = &graph.nodes[node];
        if node.on_device {
            rank.events.activities[node.subject as usize].lane
        } else {
            graph.host.timelines[node.subject as usize].lane
        }
    };
    let subject = |row: &EdgeRow<'_>| {
        let (rank, graph, ..) = *row;
        edge_owner(rank, graph, &edge(row), graph.nodes[source(row)].ts_ns)
    };
    let int = |of: &dyn Fn(&EdgeRow<'_>) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int64Array>())
    };
    let lanes = |of: &dyn Fn(&EdgeRow<'_>) -> i32| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Int32Array>())
    };
    batch([
        ("rank", ranks(rows.iter().map(|r| r.0))),
        ("edge", int(&|r| r.2 as i64)),
        ("kind", dictionary_array(rows.iter().map(|r| Some(edge(r).kind.name())))),
        ("bound_by", dictionary_array(rows.iter().map(|r| Some(edge(r).class.bound_by())))),
        ("source", int(&|r| source(r) as i64)),
        ("target", int(&|r| r.3 as i64)),
        ("source_ts_ns", int(&|r| r.1.nodes[source(r)].ts_ns)),
        ("target_ts_ns", int(&|r| r.1.nodes[r.3].ts_ns)),
        ("source_thread", lanes(&|r| lane(r, source(r)))),
        ("target_thread", lanes(&|r| lane(r, r.3))),
        ("event_id", Arc::new(rows.iter().map(|r| Some(subject(r)?.1)).collect::<Int64Array>())),
        ("stored_in", dictionary_array(rows.iter().map(|r| Some(subject(r)?.0.name())))),
        ("weight_ns", int(&|r| edge(r).weight)),
        ("slack_ns", int(&|r| r.1.nodes[r.3].ts_ns - r.1.nodes[source(r)].ts_ns - edge(r).weight)),
        (
            "is_binding",
            Arc::new(
                rows.iter()
                    .map(|r| Some(r.1.nodes[r.3].binding_edge == r.2 as u32))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("on_path", Arc::new(BooleanArray::from(on_path))),
    ])
}

/// The event that the time of an edge belongs to; on host threads, the innermost event open at its start.
fn edge_owner(
    rank: &RankTrace,
    graph: &Graph,
    edge: &Edge,
    ts_ns: i64,
) -> Option<(EventTable, i64)> {
    let host = |at: u32| rank.events.host.get(at as usize).map(|e| (e.table, e.id));
    match edge.kind {
        EdgeKind::Host | EdgeKind::Thread => {
            let line = &graph.host.timelines[edge.subject as usize];
            host(line.pieces[line.at(ts_ns)?].event)
        }
        EdgeKind::Sync | EdgeKind::QueueFull => host(edge.subject),
        _ => rank.events.activities.get(edge.subject as usize).map(|a| (a.table, a.id)),
    }
}

/// Rows of `critical_windows`.
pub(crate) fn windows(loaded: &LoadedRanks, graphs: &[Graph]) -> Result<RecordBatch> {
    let int = |of: &dyn Fn(&Graph) -> i64| -> ArrayRef {
        Arc::new(graphs.iter().map(of).collect::<Int64Array>())
    };
    let main = |g: &Graph| Some(g.host.timelines[g.host.main?].lane);
    batch([
        ("rank", ranks(loaded.ranks.iter())),
        ("ts_ns", int(&|g| g.window.begin_ns)),
        ("end_ns", int(&|g| g.window.end_ns)),
        ("dur_ns", int(&|g| g.window.end_ns - g.window.begin_ns)),
        ("main_thread", Arc::new(graphs.iter().map(main).collect::<Int32Array>())),
        ("node_count", int(&|g| g.nodes.len() as i64)),
        ("edge_count", int(&|g| g.edges.len() as i64)),
        ("waiting_call_count", int(&|g| g.device.waiting_call_count as i64)),
        ("recorded_wait_count", int(&|g| g.device.stream_waits.len() as i64)),
        (
            "inferred_wait_count",
            int(&|g| (g.device.inferred.len() + g.device.crowded.len()) as i64),
        ),
        ("unlinked_count", int(&|g| g.device.unlinked_count as i64)),
        ("early_count", int(&|g| g.device.early_start_count as i64)),
        ("dropped_count", int(&|g| g.dropped_edge_count as i64)),
        (
            "launch_floor_ns",
            Arc::new(graphs.iter().map(|g| g.device.launch_floor_ns).collect::<Int64Array>()),
        ),
    ])
}

/// Rows of `critical_what_if`.
pub(crate) fn what_if(
    loaded: &LoadedRanks,
    predictions: &[Vec<Prediction>],
) -> Result<RecordBatch> {
    let rows =
        || loaded.ranks.iter().zip(predictions).flat_map(|(r, p)| p.iter().map(move |p| (r, p)));
    let int = |of: &dyn Fn(&Prediction) -> Option<i64>| -> ArrayRef {
        Arc::new(rows().map(|(_, p)| of(p)).collect::<Int64Array>())
    };
    let ratio = |p: &Prediction| {
        (p.window_ns > 0).then(|| (p.window_ns - p.predicted_window_ns) as f64 / p.window_ns as f64)
    };
    batch([
        ("rank", ranks(rows().map(|(r, _)| r))),
        ("scenario", dictionary_array(rows().map(|(_, p)| Some(p.scenario.as_str())))),
        ("factors", dictionary_array(rows().map(|(_, p)| Some(p.factors.as_str())))),
        ("window_ns", int(&|p| Some(p.window_ns))),
        ("predicted_window_ns", int(&|p| Some(p.predicted_window_ns))),
        ("gain_ns", int(&|p| Some(p.window_ns - p.predicted_window_ns))),
        ("gain_ratio", Arc::new(rows().map(|(_, p)| ratio(p)).collect::<Float64Array>())),
        ("step_count", int(&|p| Some(p.step_count as i64))),
        ("step_ns", int(&|p| Some(p.step_ns?.round() as i64))),
        ("predicted_step_ns", int(&|p| Some(p.predicted_step_ns?.round() as i64))),
        ("step_gain_ns", int(&|p| Some((p.step_ns? - p.predicted_step_ns?).round() as i64))),
    ])
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<RecordBatch> {
    // Nullability must not depend on the rows of this run.
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}

fn ranks<'a>(rows: impl Iterator<Item = &'a RankTrace>) -> ArrayRef {
    Arc::new(rows.map(|r| r.events.rank).collect::<Int32Array>())
}
