//! Why a run could not be read at all. What could be read in part is a warning instead.

use std::io;
use std::path::PathBuf;

/// A run that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was being read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A store or a server could not be read from.
    #[error("cannot read {address}: {message}")]
    Store {
        /// What was being read, without anything secret.
        address: String,
        /// What kind of problem it is.
        problem: StoreProblem,
        /// What went wrong, in words.
        message: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file to be written is there already.
    #[error("{} {}", path.display(), if *is_source { "is the trace itself" } else { "exists" })]
    Exists {
        /// Where it was to be written.
        path: PathBuf,
        /// It is the very trace that was to be copied.
        is_source: bool,
    },
    /// The folder to write to is no folder, or holds something that is no export.
    #[error("{} is there and is no export", path.display())]
    Occupied {
        /// Where the export was to be written.
        path: PathBuf,
    },
    /// An export, or part of it, is of no use.
    #[error("the export {path}: {reason}")]
    Export {
        /// The export, without anything secret.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The folder holds no file that is a profiler trace.
    #[error("{}: no profiler trace found{}", path.display(), seen(skipped))]
    NoTrace {
        /// Folder or file.
        path: PathBuf,
        /// Files that were looked at, with what they are instead.
        skipped: Vec<String>,
    },
    /// All traces found are unusable.
    #[error("{file}: {reason}")]
    Unusable {
        /// File, relative to the run.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// What can be wrong with a store, by what is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreProblem {
    /// There is no such bucket, folder or object.
    NotFound,
    /// The store does not let us read.
    Forbidden,
    /// There is nobody at the address, or the connection breaks again and again.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The object was replaced or deleted while it was being read.
    Changed,
    /// The address is malformed, or asks for something that cannot be done there.
    Unsupported,
    /// Anything else.
    Other,
}

impl Error {
    /// An export cannot take the place of the traces it was made from.
    pub fn only_tables(path: String) -> Self {
        let reason =
            "it holds tables, not the traces themselves: give the folder that it was made from";
        Self::Export { path, reason: reason.to_owned() }
    }

    /// Writing failed.
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Write { path: path.into(), source }
    }

    /// Reading failed; errors of stores say so.
    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        #[cfg(feature = "cloud")]
        if let Some(error) = crate::remote::StoreError::of(&source) {
            return error.at(path.to_string_lossy().into_owned());
        }
        Self::Io { path, source }
    }
}

fn seen(skipped: &[String]) -> String {
    const SHOWN: usize = 5;
    if skipped.is_empty() {
        return String::new();
    }
    let shown = skipped[..skipped.len().min(SHOWN)].join(", ");
    match skipped.len().saturating_sub(SHOWN) {
        0 => format!(" (looked at {shown})"),
        more => format!(" (looked at {shown} and {more} more)"),
    }
}
