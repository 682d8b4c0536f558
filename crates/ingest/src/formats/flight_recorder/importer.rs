//! Registers the format: dumps of the Flight Recorder, in two encodings.

use trace_model::Capability;

use super::attachment::ATTACHMENT;
use super::{Encoding, has_keys, read};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::formats::pickle;
use crate::run::attachment::AttachmentKind;

/// Collectives that a rank called last, as PyTorch's Flight Recorder pickles them, or as JSON.
pub(crate) struct FlightRecorder(pub(crate) Encoding);

static DESCRIPTOR: Descriptor = Descriptor {
    name: "flight recorder",
    files: "dumps of PyTorch's Flight Recorder",
    written_by: "TORCH_FR_BUFFER_SIZE=2000",
    docs_page: "flight-recorder.md",
    fuzz_target: "flight_recorder",
    file_name: "nccl_trace_rank_0",
    provides: &[Capability::FlightRecords],
    search: SearchScope::BesideOrBelow,
};

impl Importer for FlightRecorder {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        match self.0 {
            Encoding::Json => Match::Likely.when(head.begins_with(b'{') && has_keys(head.text())),
            Encoding::Pickle => {
                Match::Certain.when(pickle::is_pickle(head.bytes()) && has_keys(head.bytes()))
            }
        }
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let dump = read(self.0, input.text()?, input.advance).map_err(FileError::Unusable)?;
        Ok(Content::attached(&ATTACHMENT, dump))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
