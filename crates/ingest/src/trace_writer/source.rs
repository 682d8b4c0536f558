//! The files that a trace is made from.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::input::storage;

/// Returns an error if `to` is one of the sources. A source is never replaced by its copy, because a second copy would
/// then contain the added events twice.
pub(super) fn refuse_sources(from: &[storage::File], to: &Path) -> Result<(), Error> {
    let Ok(there) = fs::canonicalize(to) else { return Ok(()) };
    let is_there = |p: &Path| fs::canonicalize(p).is_ok_and(|p| p == there);
    if from.iter().filter_map(storage::File::path).any(is_there) {
        return Err(Error::Exists { path: to.to_owned(), is_source: true });
    }
    Ok(())
}
