//! Registers two formats: memory snapshots, and memory timelines.

use trace_model::Capability;

use super::attachment::{ATTACHMENT, MemoryFile};
use super::snapshot::Encoding;
use super::{snapshot, timeline};
use crate::formats::head::Head;
use crate::formats::importer::{
    Content, Descriptor, FileError, FileInput, Importer, Match, SearchScope,
};
use crate::formats::pickle;
use crate::run::attachment::AttachmentKind;

/// State and history of the caching allocator, as a pickle of `torch.cuda.memory._dump_snapshot` or as a database.
pub(crate) struct MemorySnapshot(pub(crate) Encoding);

static SNAPSHOT: Descriptor = Descriptor {
    name: "memory snapshot",
    files: "memory snapshots of PyTorch",
    written_by: "torch.cuda.memory._dump_snapshot",
    docs_page: "memory.md",
    fuzz_target: "pickle",
    file_name: "snapshot.pickle",
    provides: &[Capability::MemorySnapshot, Capability::MemoryHistory],
    search: SearchScope::Beside,
};

/// Keys that distinguish a memory snapshot from any other pickle: the first entries of its dict or of its segments.
const SNAPSHOT_KEYS: [&str; 4] = ["segments", "device_traces", "total_size", "segment_type"];

/// The table that distinguishes a memory snapshot from any other database.
const SNAPSHOT_TABLE: &str = "device_traces";

impl Importer for MemorySnapshot {
    fn descriptor(&self) -> &'static Descriptor {
        &SNAPSHOT
    }

    fn sniff(&self, head: &Head<'_>) -> Match {
        Match::Likely.when(match self.0 {
            Encoding::Pickle => pickle::is_pickle(head.bytes()) && head.has_any(&SNAPSHOT_KEYS),
            Encoding::Sqlite => head.has_sqlite_table(SNAPSHOT_TABLE),
        })
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let dump =
            snapshot::read(self.0, input.text()?, input.advance).map_err(FileError::Unusable)?;
        Ok(Content::attached(&ATTACHMENT, MemoryFile::Snapshot(Box::new(dump))))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}

/// Bytes by category over time, as `export_memory_timeline` writes them.
pub(crate) struct MemoryTimeline;

static TIMELINE: Descriptor = Descriptor {
    name: "memory timeline",
    files: "memory timelines of PyTorch Profiler",
    written_by: "torch.profiler.profile.export_memory_timeline",
    docs_page: "memory.md",
    fuzz_target: "memory_timeline",
    file_name: "memory.json",
    provides: &[],
    search: SearchScope::Beside,
};

impl Importer for MemoryTimeline {
    fn descriptor(&self) -> &'static Descriptor {
        &TIMELINE
    }

    /// A list of lists of numbers: `[[1795290660024713, ...` or, empty, `[[], []]`. Lists of events hold objects.
    fn sniff(&self, head: &Head<'_>) -> Match {
        let inner = head.text().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
        let first = inner.and_then(|inner| inner.strip_prefix(b"[")).map(<[u8]>::trim_ascii_start);
        let is_number = |text: &[u8]| matches!(text.first(), Some(b'-' | b'0'..=b'9' | b']'));
        Match::Likely.when(first.is_some_and(is_number) && !head.has("\"ph\""))
    }

    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError> {
        let curve = timeline::read(input.text()?, input.advance)?;
        Ok(Content::attached(&ATTACHMENT, MemoryFile::Timeline(Box::new(curve))))
    }

    fn attachment(&self) -> Option<&'static AttachmentKind> {
        Some(&ATTACHMENT)
    }
}
