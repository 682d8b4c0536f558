//! Reads one file of a run.

use std::io;

use super::discover::InputFile;
use crate::error::{Error, Unreadable};
use crate::formats::composer;
use crate::formats::determined::{self, metrics::Metrics};
use crate::formats::execution;
use crate::formats::guess::Format;
use crate::formats::kineto::outline::Detail;
use crate::formats::kineto::trace::{self, Trace};
use crate::formats::{flight_recorder, memory_timeline, snapshot, torch_trace};
use crate::input::decompress::{self, JsonInput, Limit};
use crate::input::storage;
use crate::options::Progress;
use crate::run::memory::MemoryFile;

/// The content of a file.
pub(crate) enum ParsedFile {
    /// A trace that is not enriched yet.
    Timeline(Box<Trace>),
    Composer(Box<composer::Recording>),
    ExecutionTrace(Box<execution::Recording>),
    Memory(MemoryFile),
    Metrics(Box<Metrics>),
    CompileLog(Box<torch_trace::CompileLog>),
    FlightDump(Box<flight_recorder::Dump>),
}

/// Reason for which a file contributes nothing to the run.
#[derive(Debug)]
pub(crate) enum FileError {
    /// Its content cannot be used.
    Unusable(String),
    /// It could not be read.
    Unreadable(io::Error),
    /// The store does not answer: reading the other files would give an incomplete run.
    StoreUnavailable(io::Error),
    /// The sink failed: reading stops.
    Sink(Error),
}

impl FileError {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unusable(reason) => reason.clone(),
            Self::Unreadable(error) | Self::StoreUnavailable(error) => {
                format!("cannot be read: {error}")
            }
            Self::Sink(error) => error.to_string(),
        }
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        if storage::is_outage(&error) {
            Self::StoreUnavailable(error)
        } else {
            Self::Unreadable(error)
        }
    }
}

/// Reads a file in the format that its first bytes suggested.
pub(crate) fn parse_file(
    file: &InputFile,
    limit: Limit,
    progress: &dyn Progress,
    detail: Detail,
) -> Result<ParsedFile, FileError> {
    let input = decompress::open(&file.stored, limit)?;
    let failure = match &input {
        JsonInput::Whole(_) => None,
        JsonInput::Stream(stream) => Some(stream.failure()),
    };
    let advance = |bytes| progress.advance(bytes);
    let unusable = |error: Unreadable| error.reason().to_owned();
    let content = match file.format {
        Format::Kineto => trace::parse(&file.file, input, &advance, detail)
            .map(|trace| {
                if trace.is_composers() {
                    let recording = composer::Recording::new(&file.file, trace);
                    ParsedFile::Composer(Box::new(recording))
                } else {
                    ParsedFile::Timeline(Box::new(trace))
                }
            })
            .map_err(unusable),
        Format::Composer => composer::read(&file.file, input, &advance)
            .map(|recording| ParsedFile::Composer(Box::new(recording)))
            .map_err(unusable),
        Format::ExecutionTrace => execution::read(input, &advance)
            .map(|nodes| ParsedFile::ExecutionTrace(Box::new(nodes)))
            .map_err(unusable),
        Format::MemoryTimeline => memory_timeline::read(input, &advance)
            .map(|curve| ParsedFile::Memory(MemoryFile::Timeline(Box::new(curve))))
            .map_err(unusable),
        Format::MemorySnapshot => snapshot::read(input, &advance)
            .map(|dump| ParsedFile::Memory(MemoryFile::Snapshot(Box::new(dump)))),
        Format::TorchTrace => torch_trace::read(input, &advance)
            .map(|log| ParsedFile::CompileLog(Box::new(log)))
            .map_err(unusable),
        Format::FlightRecorder(encoding) => flight_recorder::read(encoding, input, &advance)
            .map(|dump| ParsedFile::FlightDump(Box::new(dump))),
        Format::Determined(form) => determined::read(form, input, &advance)
            .map(|metrics| ParsedFile::Metrics(Box::new(metrics)))
            .map_err(unusable),
    };
    progress.file_done(&file.file);
    if let Some(error) = failure.and_then(|failure| failure.take()) {
        return Err(error.into());
    }
    content.map_err(FileError::Unusable)
}
