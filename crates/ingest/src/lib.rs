//! Reads profiler traces into Arrow tables: the first arrow of the pipeline, bytes to tables.
//!
//! ```no_run
//! let dataset = ingest::read_run("run/".as_ref(), &ingest::Options::default(), &ingest::NoProgress)?;
//! println!("{} kernels on {} ranks", dataset.tables.rows("kernels"), dataset.run.ranks.len());
//! # Ok::<(), ingest::Error>(())
//! ```
//!
//! A run is a trace file or a folder of them, `.json` or `.json.gz`; what a file is, is decided by
//! its content. Execution traces are linked to the profiler traces they were recorded with; memory snapshots
//! (`.pickle`) and memory timelines are put on their clock. Files are read in parallel, and so are slices of one file. What is wrong with part
//! of the input comes back as counted [`trace_model::Warning`]s; only a run of which nothing can be
//! used is an [`Error`].

mod augment;
mod companions;
mod discover;
mod enrich;
mod error;
mod formats;
mod json;
mod memory_files;
mod number;
mod run;
mod sink;
mod source;
mod warnings;

use std::path::Path;

use trace_model::Dataset;

pub use augment::{Copy, Packing, copy_with};
pub use error::Error;
pub use formats::kineto::{CATEGORY, EventWriter, Lane};
pub use sink::write_parquet;

/// How to read a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bytes of JSON above which a compressed file is refused. 0: judged by its compression ratio
    /// (more than 250 times, and more than 256 MiB).
    pub max_json_bytes: u64,
    /// Which profile cycle of each rank to read, from 1; the last if there are fewer, and by default.
    pub cycle: Option<usize>,
}

/// Told how reading goes on. Called from several threads.
pub trait Progress: Sync {
    /// Reading starts: number of files, and their size on disk.
    fn begin(&self, files: usize, file_bytes: u64);
    /// So many more bytes of JSON were read.
    fn advance(&self, json_bytes: u64);
    /// A file is done.
    fn file_done(&self, file: &str);
}

/// Tells nobody.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _: usize, _: u64) {}
    fn advance(&self, _: u64) {}
    fn file_done(&self, _: &str) {}
}

/// Reads a run: a trace file, or a folder of them.
///
/// # Errors
/// If the path cannot be read, holds no trace, or none of its traces is usable.
pub fn read_run(path: &Path, options: &Options, progress: &dyn Progress) -> Result<Dataset, Error> {
    run::read(path, options, progress)
}
