//! Decides, from the formats of the files, which traces must stay in memory until other files are read.

use super::discover::{InputFile, may_hold_captures};
use crate::formats::guess::Format;

/// Dependencies between the files of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadPlan {
    /// PyTorch traces are joined with Composer's files of the same process, and complete only then.
    pub(crate) joins_composer: bool,
    /// Execution traces are linked to the events of the traces.
    links_execution_traces: bool,
    /// Some traces may hold the captures of the graphs that others replay.
    pub(crate) links_captures: bool,
}

impl ReadPlan {
    pub(crate) fn new(files: &[InputFile]) -> Self {
        let has = |format| files.iter().any(|file| file.format == format);
        Self {
            joins_composer: has(Format::Composer),
            links_execution_traces: has(Format::ExecutionTrace),
            links_captures: files.len() > 1
                && files.iter().any(|file| may_hold_captures(&file.file)),
        }
    }

    /// The plan of a run in which a file turned out to be Composer's only when it was read.
    pub(crate) fn with_composer(self) -> Self {
        Self { joins_composer: true, ..self }
    }

    /// Returns whether a trace is complete as soon as its own file is read. Otherwise it stays in memory until the files
    /// that it needs are read.
    pub(crate) fn reads_ranks_alone(self) -> bool {
        !self.joins_composer && !self.links_execution_traces && !self.links_captures
    }
}
