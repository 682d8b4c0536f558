//! Registers the format: traces of PyTorch Profiler.

use trace_model::Capability;

use super::{metadata, parallel_reader};
use crate::error::Unreadable;
use crate::formats::composer;
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::input::decompress::JsonInput;
use crate::timeline::outline::Detail;
use crate::timeline::trace::Trace;

/// Chrome traces as PyTorch Profiler (Kineto) writes them.
pub(crate) struct Kineto;

static DESCRIPTOR: Descriptor = Descriptor {
    name: "kineto",
    files: "traces of PyTorch Profiler (Kineto)",
    written_by: "torch.profiler",
    docs_page: "recording.md",
    fuzz_target: "kineto",
    file_name: "trace.json",
    provides: &[
        Capability::Timeline,
        Capability::HostOperators,
        Capability::OperatorShapes,
        Capability::PythonStacks,
        Capability::ModuleNames,
        Capability::MemoryEvents,
        Capability::DeviceActivity,
        Capability::RuntimeCalls,
        Capability::LaunchLinks,
        Capability::GraphNodes,
        Capability::LaunchSizes,
        Capability::KernelOccupancy,
        Capability::CopyDirections,
        Capability::DeviceProperties,
        Capability::ProcessorProperties,
        Capability::Steps,
        Capability::ForwardBackwardLinks,
        Capability::CollectiveSizes,
        Capability::Counters,
        Capability::HardwareCounters,
    ],
    search: SearchScope::Timelines,
};

/// Keys that stand in front of the events. Large metadata may push the events out of the head.
const METADATA_KEYS: [&str; 3] =
    ["\"schemaVersion\"", "\"deviceProperties\"", "\"distributedInfo\""];

impl Importer for Kineto {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        if head.begins_with(b'{') {
            if head.has("\"traceEvents\"") {
                return Match::Certain;
            }
            return Match::Likely.when(head.has_any(&METADATA_KEYS));
        }
        Match::Likely.when(head.begins_with(b'[') && head.has("\"ph\""))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let trace = read(input.file, input.text()?, input.advance, input.detail)?;
        if composer::wrote(&trace) {
            return Ok(composer::content(input.file, trace));
        }
        Ok(Content::timeline(trace))
    }
}

/// Reads a Chrome trace. It must be enriched once all files of its rank are read.
pub(crate) fn read(
    file: &str,
    input: JsonInput,
    advance: &dyn Fn(u64),
    detail: Detail,
) -> Result<Trace, Unreadable> {
    let document = parallel_reader::read(input, advance, detail)?;
    let metadata = metadata::parse(&document.metadata);
    let trace = Trace::new(DESCRIPTOR.name, file, document.columns, metadata, document.json_bytes);
    trace.check_streams()?;
    Ok(trace)
}
