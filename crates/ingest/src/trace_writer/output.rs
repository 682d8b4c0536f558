//! The file that a trace is written to, which has another name until it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::input::storage::{self, PARTIAL_SUFFIX};

/// The name of a file until it is complete. Files with such names are not read as part of a run.
pub fn partial_path(to: &Path) -> PathBuf {
    let mut partial = to.as_os_str().to_owned();
    partial.push(PARTIAL_SUFFIX);
    partial.into()
}

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

/// Removes the traces in a folder, and in the folders in it, that are not complete.
pub fn remove_partial_files(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    let is_partial = |path: &Path| {
        let name = path.to_string_lossy();
        name.strip_suffix(PARTIAL_SUFFIX).is_some_and(|name| name.ends_with(".json.gz"))
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            remove_partial_files(&path);
        } else if is_partial(&path) {
            // What cannot be removed cannot be reported either: this runs when the program is interrupted.
            let _ = fs::remove_file(&path);
        }
    }
}
