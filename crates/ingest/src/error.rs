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
