//! Options of reading, and callbacks for its progress.

use std::time::Duration;

/// Options of reading a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Size of the decompressed JSON, in bytes, above which a compressed file is refused. With 0 the compression
    /// ratio decides: a file is refused if it expands more than 250 times and to more than 256 MiB. Also the length above
    /// which a trace on stdin is refused; with 0, that is 16 GiB.
    pub max_json_bytes: u64,
    /// The profile cycle of each rank to read, from 1. By default, and if a rank has fewer cycles, the last one.
    pub cycle: Option<usize>,
    /// The trial of Determined's metrics to read. By default the one that ran while the traces were recorded, else
    /// the newest.
    pub trial: Option<i64>,
    /// Time limit for a request to a store. By default what the environment sets, else 30 seconds.
    pub timeout: Option<Duration>,
}

/// Callbacks for the progress of reading and copying files, called from several threads.
pub trait Progress: Sync {
    /// Work on some files starts.
    fn begin(&self, work: FileWork);
    /// More JSON was read, in bytes.
    fn advance(&self, json_bytes: u64);
    /// A file is complete.
    fn file_done(&self, file: &str);
    /// Bytes received over the network so far.
    fn received(&self, _bytes: u64) {}
}

/// The files to work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileWork {
    /// Number of files.
    pub files: usize,
    /// Bytes of all files as stored; 0 if unknown.
    pub file_bytes: u64,
    /// Bytes of their text. Exact for text and for gzip files of less than 4 GiB of text on this machine, else an
    /// estimate.
    pub json_bytes: u64,
}

/// Ignores progress.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _: FileWork) {}
    fn advance(&self, _: u64) {}
    fn file_done(&self, _: &str) {}
}
