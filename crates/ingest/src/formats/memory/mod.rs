//! What PyTorch records of memory besides the timeline: snapshots of the caching allocator, and memory timelines.

mod attachment;
mod importer;
pub(crate) mod snapshot;
mod timeline;

pub(crate) use importer::{MemorySnapshot, MemoryTimeline};
pub(crate) use snapshot::Encoding;
