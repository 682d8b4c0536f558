//! Composer Profiler traces: markers of the training loop and system metrics, alone or with a copy of the
//! PyTorch trace of the same cycle inside.
//!
//! The JSON is that of a Chrome trace and read as such. What differs: `pid` is the global rank and `tid` the
//! process id; times are Unix time, but those of the copied PyTorch trace count from a base that is not
//! copied; an end (`E`) is written for every batch, a begin (`B`) only for those that are recorded.

mod attachment;
mod clock;
mod counters;
mod importer;
pub(crate) mod markers;
pub(crate) mod part;
mod split;

use trace_model::Warning;
use trace_model::tables::TableId;

use self::part::Part;
use crate::formats::importer::Content;
use crate::timeline::trace::Trace;

pub(crate) use clock::repaired_base;
pub(crate) use importer::Composer;
pub(crate) use split::TORCH_INSTANTS;

/// One file, by process.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) json_bytes: u64,
    pub(crate) parts: Vec<Part>,
    warnings: Vec<Warning>,
}

/// Returns whether Composer wrote a trace: its processes describe themselves.
pub(crate) fn wrote(trace: &Trace) -> bool {
    let strings = &trace.columns.strings;
    let is_sync = |what| strings.get(what) == "clock_sync_timestamp_us";
    trace.columns.labels.iter().any(|&(_, _, what, _)| is_sync(what))
}

/// A trace that Composer wrote, as content of its file.
pub(crate) fn content(file: &str, trace: Trace) -> Content {
    Content::attached(&attachment::ATTACHMENT, Recording::new(file, trace))
}

impl Recording {
    /// Interprets the events of a file.
    pub(crate) fn new(file: &str, mut trace: Trace) -> Self {
        // A merge of ours may name its base.
        if let Some(base) = trace.base_time_ns().filter(|&base| base != 0) {
            trace.make_absolute(base);
        }
        let json_bytes = trace.json_bytes;
        let mut warnings = Vec::new();
        let mut columns = trace.into_columns();
        columns.store_begin_end_in(TableId::Annotations);
        let mut parts = split::by_process(columns, file, &mut warnings);
        for part in &mut parts {
            if let Some(torch) = &mut part.torch
                && !clock::repair(torch, &part.own)
            {
                let message = "the clock of the PyTorch trace copied into this file could not be determined: its \
                               times may be months off; keep the original files (torch_traces) beside it";
                warnings.push(Warning {
                    code: "unaligned-clocks".into(),
                    file: file.to_owned(),
                    message: message.to_owned(),
                    count: 1,
                });
            }
            counters::name(&mut part.own);
        }
        Self { file: file.to_owned(), json_bytes, parts, warnings }
    }

    /// Problems in this file, other than those that its columns count.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}
