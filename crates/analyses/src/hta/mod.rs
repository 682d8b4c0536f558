//! HTA's critical path: its graph of host calls and device activities, and the longest path through the graph, as
//! HTA 0.5.0 builds them, but with exact nanoseconds and a defined order of events at the same time.

mod device;
mod endpoints;
mod frame;
mod graph;
mod host;
mod load;
mod names;
mod rows;

use query::rust_view::{InputQueries, Result, RustView, ViewInputs};
use trace_model::RecordBatch;

use endpoints::Endpoints;
use load::{RankFrame, RankFrames, load_frames};
use rows::PathEdge;

pub(super) const CRITICAL_PATH: RustView = RustView::new("hta_critical_path", INPUTS, summary);
pub(super) const CRITICAL_PATH_EDGES: RustView =
    RustView::new("hta_critical_path_edges", INPUTS, edges);

/// Inputs of both views.
const INPUTS: InputQueries = &[
    ("events", load::EVENTS),
    ("waits", load::WAITS),
    ("lanes", load::LANES),
    ("ranks", load::RANKS),
];

/// `hta_critical_path`: one row per rank.
fn summary(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut rows = rows::SummaryRows::default();
    let frames = load_frames(inputs)?;
    frames
        .solve(inputs, |rank, endpoints, path| rows.push(rank, endpoints, path, &frames.shorts))?;
    rows.finish()
}

/// `hta_critical_path_edges`: one row per edge of the path, then one per other edge if all are wanted.
fn edges(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut rows: Vec<PathEdge<'_>> = Vec::new();
    let frames = load_frames(inputs)?;
    let all_edges = inputs.flag("hta_all_edges")?;
    frames.solve(inputs, |rank, endpoints, path| {
        let path = path.unwrap_or_default();
        let edges = &endpoints.graph.edges;
        let mut on_path = vec![false; edges.len()];
        for (position, &edge) in path.iter().enumerate() {
            on_path[edge] = true;
            let (position, edge) = (Some(position), &edges[edge]);
            rows.push(PathEdge::new(rank, position, endpoints, edge, &frames.shorts));
        }
        if all_edges {
            let others = edges.iter().zip(&on_path).filter(|&(_, &on_path)| !on_path);
            rows.extend(
                others.map(|(edge, _)| PathEdge::new(rank, None, endpoints, edge, &frames.shorts)),
            );
        }
    })?;
    PathEdge::batch(&rows)
}

impl RankFrames {
    /// Calls `visit` for each rank that has the selected region, with the graph and the edges of the path. There is no
    /// path if the graph has a cycle.
    fn solve(
        &self,
        inputs: &ViewInputs<'_>,
        mut visit: impl FnMut(i32, &Endpoints<'_>, Option<&[usize]>),
    ) -> Result<()> {
        let annotation = inputs.text("hta_annotation")?;
        // HTA takes None for the first instance.
        let first = inputs.int("hta_instance")?;
        let first = if first == -1 { 0 } else { first };
        let last = inputs.int("hta_last_instance")?;
        let last = if last == -1 { first } else { last };
        let instances = usize::try_from(first).and_then(|first| Ok(first..=usize::try_from(last)?));
        let is_selected: Vec<bool> =
            self.names.iter().map(|name| name.contains(annotation)).collect();
        for RankFrame { rank, frame, waits, processes } in &self.ranks {
            let region = if annotation.is_empty() {
                Some((i64::MIN, i64::MAX))
            } else {
                instances.as_ref().ok().and_then(|at| frame.extent(&is_selected, at))
            };
            let Some(region) = region else { continue };
            let inside = frame.clip(region);
            let mut endpoints = Endpoints::new(frame, &inside);
            host::connect(&mut endpoints, &inside);
            device::connect(&mut endpoints, &inside, waits, processes);
            endpoints.graph.sort_edges();
            let path = endpoints.graph.longest_path();
            visit(*rank, &endpoints, path.as_deref());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
