//! Registers the format: execution traces.

use trace_model::Capability;

use super::attachment::ATTACHMENT;
use super::read;
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::run::attachment::AttachmentKind;

/// Operators and their arguments without times, as PyTorch's `ExecutionTraceObserver` writes them.
pub(crate) struct ExecutionTrace;

static DESCRIPTOR: Descriptor = Descriptor {
    name: "execution trace",
    files: "execution traces of PyTorch",
    written_by: "torch.profiler.ExecutionTraceObserver",
    docs_page: "recording.md",
    fuzz_target: "execution_trace",
    file_name: "rank0_et.json",
    provides: &[Capability::ExecutionTrace],
    search: SearchScope::Beside,
};

/// Keys that distinguish an execution trace from any other graph with a schema and nodes.
const KEYS: [&str; 4] = ["\"start_ts\"", "\"rf_id\"", "\"op_schema\"", "\"ctrl_deps\""];

impl Importer for ExecutionTrace {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        let is_graph = head.begins_with(b'{') && head.has("\"nodes\"") && head.has("\"schema\"");
        Match::Certain.when(is_graph && head.has_any(&KEYS))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let recording = read(input.text()?, input.advance)?;
        Ok(Content::attached(&ATTACHMENT, recording))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
