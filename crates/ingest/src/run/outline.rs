//! Outlines a run: its ranks, clock and steps, and which calls launched what, in memory that does not grow with the
//! length of the recording.

use trace_model::{Dataset, TableSet};

use super::discover;
use super::read;
use super::sink::{InMemory, RankSink};
use crate::error::Error;
use crate::input::location::Location;
use crate::options::{Options, Progress};
use crate::timeline::outline::{Detail, Outline};
use crate::timeline::placement::Placement;
use crate::timeline::trace::Trace;

/// A run without its events.
#[derive(Debug)]
pub struct RunOutline {
    /// Of the tables, `ranks`, `steps` and `reading_warnings` are complete.
    pub dataset: Dataset,
    /// `steps` is known, too: steps that nothing marks are found only if all events are read.
    pub has_steps: bool,
    has_absolute_times: bool,
    pub(crate) ranks: Vec<(i32, Outline)>,
}

impl RunOutline {
    /// Returns true if the times of all ranks count from a moment that the traces state.
    pub fn has_absolute_times(&self) -> bool {
        self.has_absolute_times
    }
}

/// Outlines the run at a location.
///
/// # Errors
/// As [`crate::read_location`]; if the run is an export.
pub fn outline(
    run: &Location,
    options: &Options,
    progress: &dyn Progress,
) -> Result<RunOutline, Error> {
    let found = discover::find(run, options)?;
    if found.files.export.is_some() {
        return Err(Error::only_tables(found.name));
    }
    let mut sink = OutlineSink { has_steps: true, has_absolute_times: true, ranks: Vec::new() };
    let dataset = read::read(found, options, progress, &mut sink)?;
    let OutlineSink { has_steps, has_absolute_times, ranks } = sink;
    Ok(RunOutline { dataset, has_steps, has_absolute_times, ranks })
}

/// Drops the rows of each trace as soon as it is read.
struct OutlineSink {
    has_steps: bool,
    has_absolute_times: bool,
    ranks: Vec<(i32, Outline)>,
}

impl RankSink for OutlineSink {
    type Stored = Trace;

    const JSON_BYTES_AT_ONCE: Option<u64> = Some(96 << 20);
    const DETAIL: Detail = Detail::Outline;

    fn store(&self, _: usize, _: &str, mut trace: Trace) -> Result<Trace, Error> {
        trace.columns.thin();
        Ok(trace)
    }

    fn place(&mut self, traces: Vec<(Trace, Placement)>) -> Result<TableSet, Error> {
        let mut placed = Vec::with_capacity(traces.len());
        for (mut trace, placement) in traces {
            let outline = trace.columns.outline.take().map_or_else(Outline::default, |o| *o);
            let source = trace.found.steps.source.0.first();
            let source = source.map(|&source| trace.columns.strings.get(source));
            let is_marked = !matches!(source, None | Some("repetition" | "pass" | "trace"));
            self.has_steps &= is_marked || !outline.is_thinned;
            self.has_absolute_times &= placement.base_time_ns.is_some();
            self.ranks.push((placement.rank, outline));
            placed.push((trace, placement));
        }
        InMemory.place(placed)
    }
}
