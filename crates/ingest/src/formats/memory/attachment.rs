//! Memory snapshots and memory timelines of a run: the rank of each, and its place on the run's clock.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::{Capability, Source, Warning};

use super::snapshot::Dump;
use super::timeline::Curve;
use crate::error::Error;
use crate::run::attachment::{
    Attachment, AttachmentKind, GuessedRanks, RankFile, RunBuilder, RunContext, TimelineState,
    rank_of_file,
};
use crate::run::clock::unaligned_clocks;
use crate::run::rank_trace::{RankData, RankTrace};
use crate::warnings::run_warning;

/// Content of a memory file.
pub(crate) enum MemoryFile {
    Snapshot(Box<Dump>),
    Timeline(Box<Curve>),
}

/// A file with the rank it was given.
struct AssignedFile {
    memory: MemoryFile,
    file: String,
    rank: i32,
    rank_from: &'static str,
}

impl AssignedFile {
    fn as_rank_file(&self) -> RankFile<'_> {
        let (extent, events) = (self.memory.extent(), self.memory.event_count());
        RankFile { rank: self.rank, file: &self.file, extent, events }
    }
}

impl MemoryFile {
    fn extent(&self) -> Option<(i64, i64)> {
        match self {
            Self::Snapshot(dump) => dump.extent,
            Self::Timeline(curve) => curve.extent(),
        }
    }

    /// Actions of a snapshot, times or actions of a timeline.
    fn event_count(&self) -> u64 {
        match self {
            Self::Snapshot(dump) => dump.event_count(),
            Self::Timeline(curve) => curve.entries(),
        }
    }

    fn is_snapshot(&self) -> bool {
        matches!(self, Self::Snapshot(_))
    }
}

/// The memory files of a run.
pub(crate) struct MemoryFiles {
    files: Vec<(String, MemoryFile)>,
    assigned: Vec<AssignedFile>,
}

/// The attachment that joins memory snapshots or timelines with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "memory snapshots or timelines",
    needs: TimelineState::Stored,
    adds_rows_by_rank: false,
    create: |files| Box::new(MemoryFiles { files: files.contents(), assigned: Vec::new() }),
};

impl Attachment for MemoryFiles {
    /// Gives each file its rank: the one that its name states, else that of the only trace, else the lowest.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        _: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let mut guessed = GuessedRanks::new(traces);
        let mut guessed_kinds = Vec::new();
        let files = std::mem::take(&mut self.files);
        self.assigned = files
            .into_iter()
            .map(|(file, memory)| {
                warnings.extend(match &memory {
                    MemoryFile::Snapshot(dump) => dump.warnings(&file),
                    MemoryFile::Timeline(curve) => curve.warnings(&file),
                });
                let known = rank_of_file(&file, traces);
                if known.is_none() {
                    guessed_kinds.push(memory.is_snapshot());
                }
                let (rank, rank_from) = guessed.or_guess(known);
                AssignedFile { memory, file, rank, rank_from }
            })
            .collect();
        // A single file of its kind without a rank most likely comes from a run of one process.
        let snapshots = guessed_kinds.iter().filter(|&&is_snapshot| is_snapshot).count();
        let timelines = guessed_kinds.len() - snapshots;
        if traces.len() > 1 && !guessed_kinds.is_empty() || snapshots > 1 || timelines > 1 {
            warnings.push(guessed.warning("memory snapshots or timelines"));
        }
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        let mut files = self.assigned;
        let start = |file: &AssignedFile| file.memory.extent().map(|(start, _)| start);
        let zero_ns =
            if run.has_clock { run.zero_ns } else { files.iter().filter_map(start).min() };
        if !run.has_clock && !files.is_empty() {
            run.zero_ns = zero_ns;
            let ranks: BTreeSet<i32> = files.iter().map(|file| file.rank).collect();
            run.add_ranks(files.iter().map(AssignedFile::as_rank_file), ranks.len() == 1);
            let message = "the run has only memory snapshots or memory timelines: they show what held memory, \
                           but not how time was spent; add the profiler's traces of the same run to analyze \
                           time";
            run.warnings.push(run_warning("no-timeline", String::new(), message.to_owned()));
        }
        let all_timed =
            files.iter().filter(|file| file.memory.is_snapshot()).all(|file| start(file).is_some());
        files.sort_by_cached_key(|file| {
            let end = file.memory.extent().filter(|_| all_timed && file.memory.is_snapshot());
            (file.rank, end.map(|(_, end)| end), file.file.clone())
        });
        let mut numbers: BTreeMap<(i32, bool), i32> = BTreeMap::new();
        for AssignedFile { memory, file, rank, rank_from } in files {
            let number = numbers.entry((rank, memory.is_snapshot())).or_default();
            let key = (rank, *number);
            *number += 1;
            let shift_ns = match (memory.extent(), zero_ns) {
                (Some(_), Some(zero)) => -zero,
                (Some((start, _)), None) => {
                    let message = "the traces do not state when they were recorded: times of this file start \
                                   at its own first event";
                    run.warnings.push(unaligned_clocks(file.clone(), message));
                    -start
                }
                (None, _) => 0,
            };
            let events = memory.event_count();
            let (format, bytes) = match &memory {
                MemoryFile::Snapshot(dump) => ("memory snapshot", dump.bytes),
                MemoryFile::Timeline(curve) => ("memory timeline", curve.json_bytes),
            };
            run.info.sources.push(Source {
                file: file.clone(),
                format: format.into(),
                is_timeline: false,
                rank,
                rank_from: rank_from.into(),
                json_bytes: bytes,
                events,
                shift_ns,
            });
            match memory {
                MemoryFile::Snapshot(dump) => {
                    run.capabilities.insert((rank, Capability::MemorySnapshot));
                    if dump.event_count() > 0 {
                        run.capabilities.insert((rank, Capability::MemoryHistory));
                    }
                    dump.into_tables(&mut run.tables, key, &file, shift_ns);
                }
                MemoryFile::Timeline(curve) => {
                    curve.into_tables(&mut run.tables, key, &file, shift_ns);
                }
            }
        }
    }
}
