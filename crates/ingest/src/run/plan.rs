//! Decides, from the formats of the files, which traces must stay in memory until other files are read.

use super::attachment::{AttachmentKind, TimelineState};
use super::discover::{InputFile, may_hold_captures};

/// Dependencies between the files of a run.
#[derive(Clone, Copy)]
pub(crate) struct ReadPlan {
    /// State in which timelines wait for other files.
    pub(crate) timelines: TimelineState,
    /// The attachment that asks for this state, if one does.
    pub(crate) waits_for: Option<&'static AttachmentKind>,
    /// Some traces may hold the captures of the graphs that others replay.
    pub(crate) links_captures: bool,
}

impl ReadPlan {
    pub(crate) fn new(files: &[InputFile]) -> Self {
        let plan = Self {
            timelines: TimelineState::default(),
            waits_for: None,
            links_captures: files.len() > 1
                && files.iter().any(|file| may_hold_captures(&file.file)),
        };
        files.iter().filter_map(|file| file.importer.attachment()).fold(plan, Self::with)
    }

    /// The plan of a run that has files of this kind, too.
    pub(crate) fn with(self, kind: &'static AttachmentKind) -> Self {
        if kind.needs > self.timelines {
            Self { timelines: kind.needs, waits_for: Some(kind), ..self }
        } else {
            self
        }
    }

    /// Returns whether timelines stay as they are written until all files are read.
    pub(crate) fn keeps_as_written(self) -> bool {
        self.timelines == TimelineState::AsWritten
    }

    /// Returns whether a trace is complete as soon as its own file is read. Otherwise it stays in memory until the files
    /// that it needs are read.
    pub(crate) fn reads_ranks_alone(self) -> bool {
        self.timelines == TimelineState::Stored && !self.links_captures
    }
}
