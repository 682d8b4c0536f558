//! The file that a trace is written to.

use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::input::storage;

/// Returns an error if `to` exists and must not be overwritten. A source is never replaced by its copy, because a
/// second copy would then contain the added events twice.
pub(super) fn refuse_overwriting(
    from: &[storage::File],
    to: &Path,
    overwrite: bool,
) -> Result<(), Error> {
    let Ok(there) = fs::canonicalize(to) else { return Ok(()) };
    let is_there = |p: &Path| fs::canonicalize(p).is_ok_and(|p| p == there);
    let is_source = from.iter().filter_map(storage::File::path).any(is_there);
    if is_source || !overwrite {
        return Err(Error::Exists { path: to.to_owned(), is_source });
    }
    Ok(())
}
