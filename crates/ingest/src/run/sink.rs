//! Destinations of the traces of ranks: memory here, Parquet in [`crate::parquet`].

use rayon::prelude::*;
use trace_model::TableSet;

use crate::error::Error;
use crate::timeline::outline::Detail;
use crate::timeline::placement::{Placement, Timeline, tables_at};
use crate::timeline::trace::Trace;

/// Takes the trace of each rank as soon as it is complete, and all of them once their placements are known.
pub(crate) trait RankSink: Sync {
    /// A trace in this sink.
    type Stored: Timeline;

    /// JSON of the files that are read side by side, in bytes; `None` if the sink holds all traces in memory anyway.
    const JSON_BYTES_AT_ONCE: Option<u64>;

    /// Level of detail at which each trace is read.
    const DETAIL: Detail = Detail::All;

    /// Returns whether the trace of a file is in the sink before the file is read. `number` is as for [`RankSink::store`].
    fn has(&self, _number: usize) -> bool {
        false
    }

    /// The trace that was in the sink before its file was read. It is returned once.
    fn take(&self, _number: usize) -> Option<Self::Stored> {
        None
    }

    /// Takes a complete trace, before its placement in the run is known. `number` is the position of its file in
    /// the run.
    ///
    /// # Errors
    /// If it cannot be stored.
    fn store(&self, number: usize, file: &str, trace: Trace) -> Result<Self::Stored, Error>;

    /// Places the traces, in order of their ranks. The result is the rows that remain in memory: at least those of
    /// `ranks`.
    ///
    /// # Errors
    /// If a trace cannot be moved to its place.
    fn place(&mut self, traces: Vec<(Self::Stored, Placement)>) -> Result<TableSet, Error>;
}

/// Keeps all traces in memory.
pub(crate) struct InMemory;

impl RankSink for InMemory {
    type Stored = Trace;

    const JSON_BYTES_AT_ONCE: Option<u64> = None;

    fn store(&self, _: usize, _: &str, trace: Trace) -> Result<Trace, Error> {
        Ok(trace)
    }

    fn place(&mut self, traces: Vec<(Trace, Placement)>) -> Result<TableSet, Error> {
        let by_rank: Vec<TableSet> =
            traces.into_par_iter().map(|(trace, placement)| tables_at(trace, placement)).collect();
        let mut tables = TableSet::default();
        for (name, batches) in by_rank.iter().flat_map(TableSet::iter) {
            for batch in batches {
                tables.push(name, batch.clone());
            }
        }
        Ok(tables)
    }
}
