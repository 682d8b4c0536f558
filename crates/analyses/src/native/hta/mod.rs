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

use datafusion::error::Result;
use trace_model::RecordBatch;

use super::Inputs;
use load::{RankFrame, load};
use moments::Moments;
use names::Short;

/// What both views read.
pub(super) const READS: &[(&str, &str)] = &[
    ("events", load::EVENTS),
    ("waits", load::WAITS),
    ("lanes", load::LANES),
    ("ranks", load::RANKS),
];

/// `hta_critical_path`: one row a rank.
pub(super) fn summary(inputs: &Inputs<'_>) -> Result<RecordBatch> {
    let mut rows = rows::Summaries::default();
    solve(inputs, |rank, moments, path, names| rows.push(rank, moments, path, names))?;
    rows.finish()
}

/// `hta_critical_path_edges`: one row an edge of the path.
pub(super) fn edges(inputs: &Inputs<'_>) -> Result<RecordBatch> {
    let mut rows = rows::Edges::default();
    solve(inputs, |rank, moments, path, names| {
        for (position, &edge) in path.unwrap_or_default().iter().enumerate() {
            rows.push(rank, position, moments, edge, names);
        }
    })?;
    rows.finish()
}

/// Calls `found` for each rank that has the asked region, with the graph, the edges of the path (none if
/// the graph has a cycle), and all names in their short form.
fn solve(
    inputs: &Inputs<'_>,
    mut found: impl FnMut(i32, &Moments<'_>, Option<&[usize]>, &[Short]),
) -> Result<()> {
    let annotation = inputs.text("hta_annotation")?;
    // HTA's None is the first one.
    let instance = match inputs.int("hta_instance")? {
        -1 => Some(0),
        instance => usize::try_from(instance).ok(),
    };
    let (ranks, names) = load(inputs)?;
    let shorts: Vec<Short> = names.iter().map(|name| Short::of(name)).collect();
    let wanted: Vec<bool> = names.iter().map(|name| name.contains(annotation)).collect();
    for RankFrame { rank, frame, waits, processes } in &ranks {
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
        found(*rank, &moments, path.as_deref(), &shorts);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
