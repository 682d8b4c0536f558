//! HTA's critical path: its graph of the host's calls and the device's activities, and the longest path
//! through it, as HTA 0.5.0 builds them, on exact nanoseconds and with a defined order of what happens
//! at the same time.

mod device;
mod frame;
mod graph;
mod host;
mod load;
mod moments;
mod names;
mod rows;

use query::rust_view::Result;
use trace_model::RecordBatch;

use load::{Loaded, RankFrame, load};
use moments::Moments;
use query::rust_view::ViewInputs;
use rows::PathEdge;

/// What both views read.
pub(super) const READS: &[(&str, &str)] = &[
    ("events", load::EVENTS),
    ("waits", load::WAITS),
    ("lanes", load::LANES),
    ("ranks", load::RANKS),
];

/// `hta_critical_path`: one row a rank.
pub(super) fn summary(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut rows = rows::Summaries::default();
    let loaded = load(inputs)?;
    loaded.solve(inputs, |rank, moments, path| rows.push(rank, moments, path, &loaded.shorts))?;
    rows.finish()
}

/// `hta_critical_path_edges`: one row an edge of the path.
pub(super) fn edges(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let mut rows: Vec<PathEdge<'_>> = Vec::new();
    let loaded = load(inputs)?;
    loaded.solve(inputs, |rank, moments, path| {
        let edges = path.unwrap_or_default().iter().enumerate();
        rows.extend(edges.map(|(position, &edge)| {
            let edge = &moments.graph.edges[edge];
            PathEdge::new(rank, position, moments, edge, &loaded.shorts)
        }));
    })?;
    PathEdge::batch(&rows)
}

impl Loaded {
    /// Calls `found` for each rank that has the asked region, with the graph and the edges of the path; none if
    /// the graph has a cycle.
    fn solve(
        &self,
        inputs: &ViewInputs<'_>,
        mut found: impl FnMut(i32, &Moments<'_>, Option<&[usize]>),
    ) -> Result<()> {
        let annotation = inputs.text("hta_annotation")?;
        // HTA's None is the first one.
        let instance = match inputs.int("hta_instance")? {
            -1 => Some(0),
            instance => usize::try_from(instance).ok(),
        };
        let wanted: Vec<bool> = self.names.iter().map(|name| name.contains(annotation)).collect();
        for RankFrame { rank, frame, waits, processes } in &self.ranks {
            let region = if annotation.is_empty() {
                Some((i64::MIN, i64::MAX))
            } else {
                instance.and_then(|instance| frame.instance(&wanted, instance))
            };
            let Some(region) = region else { continue };
            let inside = frame.clip(region);
            let mut moments = Moments::new(frame, &inside);
            host::connect(&mut moments, &inside);
            device::connect(&mut moments, &inside, waits, processes);
            moments.graph.settle();
            let path = moments.graph.longest_path();
            found(*rank, &moments, path.as_deref());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
