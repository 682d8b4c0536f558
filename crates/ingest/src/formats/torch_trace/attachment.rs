//! Logs of `torch.compile` in a run: the rank of each, and its place on the run's clock.

use trace_model::column::NULL_I64;
use trace_model::{Capability, Source, Warning};

use crate::error::Error;
use crate::formats::torch_trace::CompileLog;
use crate::run::attachment::{
    Attachment, AttachmentKind, GuessedRanks, RankFile, RunBuilder, RunContext, TimelineState,
    rank_of_file,
};
use crate::run::clock::unaligned_clocks;
use crate::run::rank_trace::{RankData, RankTrace};

/// The logs of a run. A rank may have several: one for each of its processes.
pub(crate) struct CompileLogs {
    files: Vec<(String, CompileLog)>,
    assigned: Vec<AssignedLog>,
}

/// A log with the rank that it was given.
struct AssignedLog {
    log: CompileLog,
    file: String,
    rank: i32,
    rank_from: &'static str,
}

impl AssignedLog {
    fn as_rank_file(&self) -> RankFile<'_> {
        let (extent, events) = (self.log.extent(), self.log.records);
        RankFile { rank: self.rank, file: &self.file, extent, events }
    }
}

/// The attachment that joins logs of torch.compile with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "logs of torch.compile",
    needs: TimelineState::Stored,
    adds_rows_by_rank: true,
    create: |files| Box::new(CompileLogs { files: files.contents(), assigned: Vec::new() }),
};

impl Attachment for CompileLogs {
    /// Gives each log its rank: the one that its records or its name state, else that of the only trace, else the lowest.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        _: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let mut guessed = GuessedRanks::new(traces);
        for (file, log) in std::mem::take(&mut self.files) {
            warnings.extend(log.warnings(&file));
            let stated = log.rank.map(|rank| (rank, "records"));
            let (rank, rank_from) =
                guessed.or_guess(stated.or_else(|| rank_of_file(&file, traces)));
            self.assigned.push(AssignedLog { log, file, rank, rank_from });
        }
        self.assigned.sort_by_key(|log| log.rank);
        warnings.extend(guessed.warning_if_unclear(traces, "logs of torch.compile"));
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        let logs = self.assigned;
        let files: Vec<RankFile<'_>> = logs.iter().map(AssignedLog::as_rank_file).collect();
        let message = "the run has logs of torch.compile, but no timeline: they show what was compiled, but not how \
                       time was spent; add the profiler's traces of the same run to analyze time";
        run.begin_with(&files, message);
        for AssignedLog { log, file, rank, rank_from } in logs {
            if run.zero_ns.is_none() && log.extent().is_some() {
                let message = "the traces do not state when they were recorded: the times of this log of \
                               torch.compile are left out";
                run.warnings.push(unaligned_clocks(file.clone(), message));
            }
            run.info.sources.push(Source {
                file,
                format: "torch.compile log".into(),
                is_timeline: false,
                rank,
                rank_from: rank_from.into(),
                json_bytes: log.bytes,
                events: log.records,
                shift_ns: run.zero_ns.map_or(0, |zero| -zero),
            });
            run.capabilities.insert((rank, Capability::CompileLog));
            let CompileLog { mut frames, mut breaks, mut kernels, strings, .. } = log;
            frames.rank.0.fill(rank);
            breaks.rank.0.fill(rank);
            kernels.rank.0.fill(rank);
            for ts_ns in frames.ts_ns.0.iter_mut().filter(|ts_ns| **ts_ns != NULL_I64) {
                *ts_ns = run.zero_ns.map_or(NULL_I64, |zero| *ts_ns - zero);
            }
            run.tables.push("compiled_frames", frames.into_batch(&strings));
            run.tables.push("graph_breaks", breaks.into_batch(&strings));
            run.tables.push("compiled_kernels", kernels.into_batch(&strings));
        }
    }
}
