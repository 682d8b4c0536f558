//! The formats that can be read: one folder each, with what reads its files and what joins them with the rest of a run.
//!
//! A format is registered by one line in [`IMPORTERS`]. Recognizing files, reading and joining them, the names of
//! `sources.format`, the fuzz targets and the page of formats in the book follow from this list.

pub(crate) mod composer;
mod determined;
mod execution;
mod flight_recorder;
pub(crate) mod head;
pub(crate) mod importer;
mod kernel_annotations;
pub(crate) mod kineto;
mod memory;
mod perfetto;
mod pickle;
pub(crate) mod recognize;
#[cfg(test)]
mod sample;
mod torch_trace;
pub(crate) mod unsupported;

pub use kineto::stated_rank;

use importer::{Descriptor, Importer};

/// All formats that can be read. Attachments join a run in this order: metrics may determine its clock, on which memory
/// files are placed then.
pub(crate) static IMPORTERS: &[&dyn Importer] = &[
    &kineto::Kineto,
    &composer::Composer,
    &perfetto::Perfetto,
    &execution::ExecutionTrace,
    &determined::Determined(determined::Form::Json),
    &determined::Determined(determined::Form::Csv),
    &determined::Determined(determined::Form::Dump),
    &memory::MemorySnapshot(memory::Encoding::Pickle),
    &memory::MemorySnapshot(memory::Encoding::Sqlite),
    &memory::MemoryTimeline,
    &torch_trace::TorchTrace,
    &flight_recorder::FlightRecorder(flight_recorder::Encoding::Pickle),
    &flight_recorder::FlightRecorder(flight_recorder::Encoding::Json),
    &kernel_annotations::KernelAnnotations(kernel_annotations::Encoding::Json),
    &kernel_annotations::KernelAnnotations(kernel_annotations::Encoding::Pickle),
    #[cfg(test)]
    &sample::Sample,
];

/// The formats that can be read, each once.
pub fn formats() -> Vec<&'static Descriptor> {
    let mut formats: Vec<&'static Descriptor> = Vec::new();
    for importer in IMPORTERS {
        let format = importer.descriptor();
        if formats.iter().all(|known| known.name != format.name) {
            formats.push(format);
        }
    }
    formats
}

/// The format of this name.
pub(crate) fn format_named(name: &str) -> Option<&'static Descriptor> {
    IMPORTERS.iter().map(|importer| importer.descriptor()).find(|format| format.name == name)
}
