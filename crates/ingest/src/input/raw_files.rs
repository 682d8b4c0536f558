//! Files of a run as they are stored, to copy or serve them.

use std::fmt;
use std::io::Read;

use super::location::Location;
use crate::error::Error;

/// A file as it is stored, byte for byte.
pub struct RawFile {
    /// Its length.
    pub bytes: u64,
    /// Its bytes.
    pub reader: Box<dyn Read + Send>,
}

impl fmt::Debug for RawFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawFile").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Opens a file of a run: one of its sources, or of [`crate::trace_names`].
///
/// # Errors
/// If it cannot be read.
pub fn open_raw(run: &Location, file: &str) -> Result<RawFile, Error> {
    let stored = run.file(file)?;
    let name = || format!("{run}: {file}");
    let bytes = stored.bytes().map_err(|e| Error::read(name(), e))?;
    let reader = stored.reader().map_err(|e| Error::read(name(), e))?;
    Ok(RawFile { bytes, reader })
}
