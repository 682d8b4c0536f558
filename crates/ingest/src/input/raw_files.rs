//! Files of a run as they are stored, for those who hand them on.

use std::fmt;
use std::io::Read;

use crate::discover;
use crate::error::Error;
use crate::formats::Format;
use crate::location::Location;
use crate::{Options, storage};

/// A file as it is stored, byte for byte.
pub struct Stored {
    /// Its length.
    pub bytes: u64,
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The names of the timelines of a run, by name; their content is not read.
///
/// # Errors
/// If the location cannot be read, or holds no trace.
pub fn traces(run: &Location, options: &Options) -> Result<Vec<String>, Error> {
    let found = discover::discover(run.place(options.timeout)?, &run.to_string())?;
    if found.export.is_some() {
        return Err(Error::only_tables(run.to_string()));
    }
    let is_timeline = |format| matches!(format, Format::Kineto | Format::Composer);
    let timelines = found.traces.into_iter().filter(|t| is_timeline(t.format));
    Ok(timelines.map(|trace| trace.file).collect())
}

/// Opens a file of a run: one of its sources, or of [`traces`].
///
/// # Errors
/// If it cannot be read.
pub fn stored(run: &Location, file: &str) -> Result<Stored, Error> {
    let stored: storage::File = run.file(file)?;
    let name = || format!("{run}: {file}");
    let bytes = stored.bytes().map_err(|e| Error::read(name(), e))?;
    let reader = stored.reader().map_err(|e| Error::read(name(), e))?;
    Ok(Stored { bytes, reader })
}
