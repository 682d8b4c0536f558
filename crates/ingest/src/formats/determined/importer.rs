//! Registers the format: metrics of Determined's profiler, in three encodings.

use trace_model::Capability;

use super::attachment::ATTACHMENT;
use super::read;
use super::sniff::{Form, sniff};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::run::attachment::AttachmentKind;

/// Metrics of Determined's profiler, in one of the forms in which users get them.
pub(crate) struct Determined(pub(crate) Form);

static DESCRIPTOR: Descriptor = Descriptor {
    name: "determined metrics",
    files: "metrics of Determined's profiler",
    written_by: "Determined's profiler",
    docs_page: "from-determined.md",
    fuzz_target: "determined",
    file_name: "metrics",
    provides: &[Capability::MachineMetrics, Capability::Steps],
    search: SearchScope::Metrics,
};

impl Importer for Determined {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Fallback.when(sniff(head.text()) == Some(self.0))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let metrics = read(self.0, input.text()?, input.advance)?;
        Ok(Content::attached(&ATTACHMENT, metrics))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
