//! Composer Profiler traces: markers of the training loop and system metrics, alone or with a copy of the
//! PyTorch trace of the same cycle inside.
//!
//! The JSON is that of a Chrome trace and read as such. What differs: `pid` is the global rank and `tid` the
//! process id; times are Unix time, but those of the copied PyTorch trace count from a base that is not
//! copied; an end (`E`) is written for every batch, a begin (`B`) only for those that are recorded.

mod clock;
mod counters;
pub(crate) mod markers;
mod split;

use trace_model::Warning;

use crate::formats::Unreadable;
use crate::formats::kineto::columns::Columns;
use crate::formats::kineto::{self, Trace};
use crate::source::Input;

pub(crate) use clock::repaired_base;
pub(crate) use split::TORCH_INSTANTS;

/// Text of which a Composer trace holds at least one piece near its start. (The start of a second cycle may
/// be seconds of system metrics, taken while the first one was saved.)
pub(crate) const KEYS: [&str; 7] = [
    "\"cpu_percent\"",
    "\"memory/virtual\"",
    "\"callback/",
    "\"algorithm/",
    "\"event/",
    "\"clock_sync_timestamp_us\"",
    "training loop process\"",
];

/// One file: what each process in it wrote.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) file: String,
    pub(crate) json_bytes: u64,
    pub(crate) parts: Vec<Part>,
    warnings: Vec<Warning>,
}

/// What one process wrote into one file. All times are nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rank: i32,
    /// Process id as written.
    pub(crate) process: String,
    /// Entries of the file's event list that are its own.
    pub(crate) events: u64,
    /// Composer's markers, instants and counters.
    pub(crate) own: Columns,
    /// The copied PyTorch trace.
    pub(crate) torch: Option<Columns>,
    /// When the barrier by which Composer compares the clocks of ranks was passed, on the clock of this file.
    pub(crate) sync_ns: Option<i64>,
}

/// Reads a file.
pub(crate) fn read(
    file: &str,
    input: Input,
    advance: &dyn Fn(u64),
) -> Result<Recording, Unreadable> {
    kineto::parse(file, input, advance).map(|trace| Recording::new(file, trace))
}

impl Recording {
    /// Makes sense of the events of a file.
    pub(crate) fn new(file: &str, mut trace: Trace) -> Self {
        // A merge of ours may name its base.
        if let Some(base) = trace.base_time_ns().filter(|&base| base != 0) {
            trace.make_absolute(base);
        }
        let json_bytes = trace.json_bytes;
        let mut warnings = Vec::new();
        let mut columns = trace.into_columns();
        columns.halves_are("annotations");
        let mut parts = split::by_process(columns, file, &mut warnings);
        for part in &mut parts {
            if let Some(torch) = &mut part.torch
                && !clock::repair(torch, &part.own)
            {
                let message = "the clock of the PyTorch trace copied into this file could not be told: its \
                               times may be months off; keep the original files (torch_traces) beside it";
                warnings.push(Warning {
                    code: "unaligned-clocks",
                    file: file.to_owned(),
                    message: message.to_owned(),
                    count: 1,
                });
            }
            counters::name(&mut part.own);
        }
        Self { file: file.to_owned(), json_bytes, parts, warnings }
    }

    /// What went wrong in this file, beside what its columns count.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings)
    }
}

impl Part {
    /// The copied PyTorch trace is not used: what the file says of it goes nowhere.
    pub(crate) fn set_torch_aside(&mut self) {
        if self.torch.take().is_some() {
            self.own.only_halves_and_points_count();
        }
    }

    /// Markers, instants and samples of Composer's own.
    pub(crate) fn own_len(&self) -> usize {
        self.own.halves.len() + self.own.counters.len() + self.own.instants.len()
    }

    /// Batches that are marked.
    pub(crate) fn batches(&self) -> usize {
        let Some(batch) = self.own.strings.find(markers::BATCH) else { return 0 };
        self.own.halves.iter().filter(|half| half.begin && half.name == batch).count()
    }

    /// First and last moment of Composer's own events.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        extent(&self.own)
    }
}

fn extent(own: &Columns) -> Option<(i64, i64)> {
    let times = || {
        let halves = own.halves.iter().map(|half| half.ts_ns);
        halves
            .chain(own.counters.ts_ns.0.iter().copied())
            .chain(own.instants.ts_ns.0.iter().copied())
    };
    Some((times().min()?, times().max()?))
}
