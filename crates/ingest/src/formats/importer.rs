//! What the program knows of a format of files: how files are recognized, read, and joined with the rest of a run.

use std::any::Any;
use std::cell::RefCell;
use std::io;

use trace_model::Capability;

use super::head::Head;
use crate::error::{Error, Unreadable};
use crate::input::decompress::{self, Failure, JsonInput, Limit};
use crate::input::storage::{self, File};
use crate::run::attachment::AttachmentKind;
use crate::timeline::outline::Detail;
use crate::timeline::trace::Trace;

/// A format that can be read. [`super::IMPORTERS`] lists all of them.
pub(crate) trait Importer: Sync {
    /// Name and properties of the format. Importers of several encodings of one format share a descriptor.
    fn descriptor(&self) -> &'static Descriptor;

    /// Judges whether a file is of this format.
    fn sniff(&self, head: &Head<'_>) -> Match;

    /// Reads a file.
    ///
    /// # Errors
    /// If nothing of its content can be used.
    fn read(&self, input: &FileInput<'_>) -> Result<Content, FileError>;

    /// The attachment that joins files of the format with the timelines of a run; `None` if each file is a timeline.
    fn attachment(&self) -> Option<&'static AttachmentKind> {
        None
    }
}

/// Name and properties of a format.
#[derive(Debug)]
pub struct Descriptor {
    /// Name of the format in `sources.format`: `kineto`.
    pub name: &'static str,
    /// The files, as a noun phrase in the plural: `traces of PyTorch Profiler (Kineto)`.
    pub files: &'static str,
    /// What writes such files, as a user calls it: `torch.profiler`.
    pub written_by: &'static str,
    /// Page of the book about the format: `recording.md`.
    pub docs_page: &'static str,
    /// Fuzz target that reads any bytes as a file of the format, and the folder of its seeds below `fuzz/seeds`.
    pub fuzz_target: &'static str,
    /// Name under which the fuzz target saves a file.
    pub file_name: &'static str,
    /// What a file of the format can provide. Which of these a recording holds is in the table `capabilities`.
    pub provides: &'static [Capability],
    /// Folders of a run in which files of the format are searched for.
    pub(crate) search: SearchScope,
}

/// Folders of a run in which files of a format are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchScope {
    /// Timelines: not below folders that hold timelines.
    Timelines,
    /// Timelines whose files lie in several folders side by side, such as one folder for each cycle.
    SpreadTimelines,
    /// Files that lie beside timelines.
    Beside,
    /// Files that lie beside timelines or one folder below.
    BesideOrBelow,
    /// Metrics: as [`SearchScope::BesideOrBelow`], but not below folders that hold metrics.
    Metrics,
}

impl Descriptor {
    /// Returns whether each file of the format is a timeline.
    pub(crate) fn is_timeline(&self) -> bool {
        matches!(self.search, SearchScope::Timelines | SearchScope::SpreadTimelines)
    }
}

/// How well a file matches a format. The best match decides; of equals, the first in [`super::IMPORTERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Match {
    /// The file is of another format.
    No,
    /// The file may be of the format if it is of no other, readable or not.
    Fallback,
    /// The file has the structure of the format, which other formats may share.
    Likely,
    /// The file has what only this format has.
    Certain,
}

impl Match {
    /// This match if the condition holds.
    pub(crate) fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::No }
    }
}

/// A file to read.
pub(crate) struct FileInput<'a> {
    /// Path relative to the run.
    pub(crate) file: &'a str,
    /// The file as it is stored, for formats that are not text.
    pub(crate) stored: &'a File,
    /// Level of detail that is needed of timelines.
    pub(crate) detail: Detail,
    /// To be called with the number of bytes of text read since the last call.
    pub(crate) advance: &'a dyn Fn(u64),
    limit: Limit,
    failure: RefCell<Option<Failure>>,
}

impl<'a> FileInput<'a> {
    /// A file that is not open yet.
    pub(crate) fn new(
        file: &'a str,
        stored: &'a File,
        limit: Limit,
        advance: &'a dyn Fn(u64),
        detail: Detail,
    ) -> Self {
        Self { file, stored, detail, advance, limit, failure: RefCell::new(None) }
    }

    /// Opens the file as text, decompressed.
    ///
    /// # Errors
    /// If the file cannot be accessed.
    pub(crate) fn text(&self) -> io::Result<JsonInput> {
        let input = decompress::open(self.stored, self.limit)?;
        if let JsonInput::Stream(stream) = &input {
            *self.failure.borrow_mut() = Some(stream.failure());
        }
        Ok(input)
    }

    /// Returns the maximum bytes of text that one layer of compression may expand to. Larger files are refused.
    ///
    /// # Errors
    /// If the file cannot be accessed.
    pub(crate) fn max_text_bytes(&self) -> io::Result<u64> {
        Ok(self.limit.bytes(self.stored.bytes()?))
    }

    /// The error of the disk or the store that ended the text early, if any.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.borrow().as_ref().and_then(Failure::take)
    }
}

/// The content of a file.
pub(crate) enum Content {
    /// The timeline of a rank, not enriched yet.
    Timeline(Box<Trace>),
    /// A file that an attachment joins with timelines. All importers of the kind return one type of content.
    Attached(&'static AttachmentKind, Box<dyn Any + Send>),
}

impl Content {
    /// A timeline.
    pub(crate) fn timeline(trace: Trace) -> Self {
        Self::Timeline(Box::new(trace))
    }

    /// A file for the attachment of this kind.
    pub(crate) fn attached(kind: &'static AttachmentKind, content: impl Any + Send) -> Self {
        Self::Attached(kind, Box::new(content))
    }
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

impl From<Unreadable> for FileError {
    fn from(error: Unreadable) -> Self {
        Self::Unusable(error.reason().to_owned())
    }
}
