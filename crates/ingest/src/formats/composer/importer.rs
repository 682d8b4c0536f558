//! Registers the format: traces of Composer's profiler.

use trace_model::Capability;

use super::attachment::ATTACHMENT;
use super::content;
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::formats::kineto;
use crate::run::attachment::AttachmentKind;
use crate::timeline::outline::Detail;

/// Chrome traces as Composer's profiler writes them.
pub(crate) struct Composer;

static DESCRIPTOR: Descriptor = Descriptor {
    name: "composer",
    files: "traces of Composer's profiler",
    written_by: "composer.profiler",
    docs_page: "from-composer.md",
    fuzz_target: "composer",
    file_name: "ep0-ba20-rank0.json",
    provides: &[
        Capability::Timeline,
        Capability::Steps,
        Capability::TrainerMarkers,
        Capability::MachineMetrics,
        Capability::Counters,
    ],
    search: SearchScope::SpreadTimelines,
};

/// Texts of which a trace of Composer has at least one near its start. (The start of a second cycle may be seconds of
/// system metrics, sampled while the first one was saved.)
const KEYS: [&str; 7] = [
    "\"cpu_percent\"",
    "\"memory/virtual\"",
    "\"callback/",
    "\"algorithm/",
    "\"event/",
    "\"clock_sync_timestamp_us\"",
    "training loop process\"",
];

impl Importer for Composer {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        let is_events = head.begins_with(b'[') && head.has("\"ph\"");
        Match::Certain.when(is_events && head.has_any(&KEYS))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let trace = kineto::read(input.file, input.text()?, input.advance, Detail::All)?;
        Ok(content(input.file, trace))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
