//! Reads profiler traces into Arrow tables: the first arrow of the pipeline, bytes to tables.
//!
//! ```no_run
//! let dataset = ingest::read_run("run/".as_ref(), &ingest::Options::default(), &ingest::NoProgress)?;
//! println!("{} kernels on {} ranks", dataset.tables.rows("kernels"), dataset.run.ranks.len());
//! # Ok::<(), ingest::Error>(())
//! ```
//!
//! A run is a trace file or a folder of them, `.json` or `.json.gz`; what a file is, is decided by
//! its content. It is on this machine or, with the feature `cloud`, in an object store or behind a web
//! address. Execution traces are linked to the profiler traces they were recorded with; memory snapshots
//! (`.pickle`) and memory timelines are put on their clock, and so are metrics of Determined's profiler (JSON,
//! CSV, `pg_dump` text), of one trial a run. Files are read in parallel, and so are slices of
//! one file. [`export`] makes a folder of Parquet of a run of any size, which is read as a run too. What is wrong with part of the input comes back as counted [`trace_model::Warning`]s; only a
//! run of which nothing can be used is an [`Error`].

mod augment;
mod cache;
mod companions;
mod composer_files;
mod discover;
mod enrich;
mod error;
mod export;
mod formats;
mod json;
mod location;
mod memory_files;
mod merge;
mod metrics_files;
mod number;
mod opened;
#[cfg(feature = "cloud")]
mod remote;
mod run;
mod sink;
mod source;
mod storage;
mod stored;
mod timeline;
mod warnings;

use std::path::Path;
use std::time::Duration;

use trace_model::{Dataset, RunInfo};

pub use augment::{Copy, Packing, copy_with};
pub use cache::{Cache, CacheEntry};
pub use error::{Error, ExportProblem, StoreKind, StoreProblem};
pub use export::{Export, Exported, export, export_dataset};
pub use formats::kineto::{CATEGORY, EventWriter, Lane};
pub use location::Location;
pub use merge::{Merge, Merged, merge};
pub use opened::{Opened, open};
pub use sink::write_parquet;
pub use stored::{Stored, stored, traces};

/// How to read a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bytes of JSON above which a compressed file is refused. 0: judged by its compression ratio
    /// (more than 250 times, and more than 256 MiB).
    pub max_json_bytes: u64,
    /// Which profile cycle of each rank to read, from 1; the last if there are fewer, and by default.
    pub cycle: Option<usize>,
    /// Which trial of Determined's metrics to read; by default the one that ran while the traces were recorded,
    /// else the newest.
    pub trial: Option<i64>,
    /// How long a store may take to answer; 30 seconds, or what the environment says, by default.
    pub timeout: Option<Duration>,
}

/// Told how reading goes on. Called from several threads.
pub trait Progress: Sync {
    /// Reading starts: number of files, and their size on disk.
    fn begin(&self, files: usize, file_bytes: u64);
    /// So many more bytes of JSON were read.
    fn advance(&self, json_bytes: u64);
    /// A file is done.
    fn file_done(&self, file: &str);
    /// So many bytes came over the network so far.
    fn received(&self, _bytes: u64) {}
    /// Whoever opened the run knows what it is; nothing has been asked of it yet.
    fn opened(&self, _run: &RunInfo) {}
}

/// Tells nobody.
#[derive(Debug, Clone, Copy)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _: usize, _: u64) {}
    fn advance(&self, _: u64) {}
    fn file_done(&self, _: &str) {}
}

/// Reads a run: a trace file, a folder of them, or an [`Export`]; a path or an address, see [`Location`].
///
/// # Errors
/// If the path cannot be read, holds no trace, or none of its traces is usable.
pub fn read_run(path: &Path, options: &Options, progress: &dyn Progress) -> Result<Dataset, Error> {
    read_location(&Location::parse(path)?, options, progress)
}

/// Reads the run at a location.
///
/// # Errors
/// As [`read_run`].
pub fn read_location(
    run: &Location,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Dataset, Error> {
    open(run, options)?.read(options, progress)
}
