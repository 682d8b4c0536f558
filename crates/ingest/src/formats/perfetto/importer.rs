//! Registers the format: Perfetto's traces.

use trace_model::Capability;

use super::{packets, reader};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::timeline::metadata::{DeviceProperties, Metadata};
use crate::timeline::trace::Trace;

/// Traces in Perfetto's format.
pub(crate) struct Perfetto;

static DESCRIPTOR: Descriptor = Descriptor {
    name: "perfetto",
    files: "traces in Perfetto's format (.pftrace)",
    written_by: "torch.profiler of PyTorch 2.15, rocprofv3, Perfetto's SDK",
    docs_page: "pftrace.md",
    fuzz_target: "perfetto",
    file_name: "trace.pftrace",
    provides: &[
        Capability::Timeline,
        Capability::HostOperators,
        Capability::OperatorShapes,
        Capability::PythonStacks,
        Capability::ModuleNames,
        Capability::DeviceActivity,
        Capability::RuntimeCalls,
        Capability::LaunchLinks,
        Capability::GraphNodes,
        Capability::LaunchSizes,
        Capability::Steps,
        Capability::CollectiveSizes,
        Capability::Counters,
    ],
    search: SearchScope::Timelines,
};

impl Importer for Perfetto {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Certain.when(packets::begin_with_packets(head.bytes()))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let document = reader::read(input.text()?, input.max_text_bytes()?, input.advance)?;
        if document.columns.events == 0 {
            return Err(FileError::Unusable(
                "it contains no track events and no activities of a GPU".to_owned(),
            ));
        }
        let metadata = Metadata {
            base_time_ns: document.base_time_ns,
            devices: document.architectures.iter().filter_map(device).collect(),
            ..Metadata::default()
        };
        let (columns, bytes) = (document.columns, document.bytes);
        let trace = Trace::new(DESCRIPTOR.name, input.file, columns, metadata, bytes);
        trace.check_streams()?;
        Ok(Content::timeline(trace))
    }
}

/// Returns the properties of a GPU of which only the architecture is known, for example `sm_90`.
fn device((gpu, architecture): &(i64, Vec<u8>)) -> Option<DeviceProperties> {
    let name = String::from_utf8_lossy(architecture).into_owned();
    let digits =
        name.strip_prefix("sm_").map(|rest| rest.trim_end_matches(|c: char| !c.is_ascii_digit()));
    let number: Option<i32> = digits.and_then(|digits| digits.parse().ok());
    Some(DeviceProperties {
        id: i32::try_from(*gpu).ok()?,
        compute_major: number.map(|number| number / 10),
        compute_minor: number.map(|number| number % 10),
        name,
        ..DeviceProperties::default()
    })
}
