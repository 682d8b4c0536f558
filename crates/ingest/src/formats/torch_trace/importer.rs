//! Registers the format: logs of `torch.compile`.

use trace_model::Capability;

use super::attachment::ATTACHMENT;
use super::{read, starts_log};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::run::attachment::AttachmentKind;

/// Records of `torch.compile`, as `TORCH_TRACE` writes them.
pub(crate) struct TorchTrace;

static DESCRIPTOR: Descriptor = Descriptor {
    name: "torch.compile log",
    files: "logs of torch.compile",
    written_by: "TORCH_TRACE",
    docs_page: "compiled-code.md",
    fuzz_target: "compile_log",
    file_name: "torch_trace.log",
    provides: &[Capability::CompileLog],
    search: SearchScope::BesideOrBelow,
};

impl Importer for TorchTrace {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Certain.when(starts_log(head.text()))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let log = read(input.text()?, input.advance)?;
        Ok(Content::attached(&ATTACHMENT, log))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
