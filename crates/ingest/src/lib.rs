//! Reads profiler traces into Arrow tables: the first stage of the pipeline, from bytes to tables.
//!
//! ```no_run
//! let dataset = ingest::read_run("run/".as_ref(), &ingest::Options::default(), &ingest::NoProgress)?;
//! println!("{} kernels on {} ranks", dataset.tables.rows("kernels"), dataset.run.ranks.len());
//! # Ok::<(), ingest::Error>(())
//! ```
//!
//! A run is a trace file or a folder of them (`.json` or `.json.gz`). It is on this machine or, with the feature
//! `cloud`, in an object store or behind a web address. The content of a file decides its format, not its name:
//!
//! * profiler traces (PyTorch, Composer, Perfetto's `.pftrace`): the timelines of the ranks;
//! * execution traces, linked to the profiler traces that they were recorded with;
//! * memory snapshots (`.pickle`) and memory timelines, put on the clock of the traces;
//! * metrics of Determined's profiler (JSON, CSV, `pg_dump` text) of one trial per run, on the same clock.
//!
//! Files are read in parallel, and so are slices of one file. [`export`] converts a run of any size to a folder of
//! Parquet files, which can be read as a run too. Problems with part of the input are counted as
//! [`trace_model::Warning`]s; an [`Error`] is returned only if nothing of a run can be used.

mod cache;
mod distinct_run;
mod enrich;
mod error;
mod formats;
mod input;
mod json;
mod mapped;
mod options;
mod output;
mod parquet;
mod quantity;
mod run;
mod timeline;
mod trace_writer;
mod warnings;

use std::path::Path;

use trace_model::Dataset;

pub use self::parquet::writer::write_parquet;
pub use self::parquet::{Export, Exported, export, export_dataset, export_temporarily};
pub use cache::{Cache, CacheEntry, CachedRun};
pub use distinct_run::DistinctRun;
pub use error::{Error, ExportProblem, StoreKind, StoreProblem};
pub use formats::importer::Descriptor as Format;
pub use formats::{formats, stated_rank};
pub use input::location::Location;
pub use input::raw_files::{RawFile, open_raw};
pub use mapped::{MapSummary, MappedRun, Mapper, Shard, TraceGroup, ViewRows, export_mapped};
pub use options::{FileWork, NoProgress, Options, Progress};
pub use output::{OutputFile, TemporaryFolder, is_work_name, remove_unfinished_outputs};
pub use run::discover::is_timeline_of_rank;
pub use run::open::{RunHandle, open, trace_names};
pub use run::outline::{RunOutline, outline};
pub use run::reach::{RunReach, is_below};
pub use run::version::run_version;
pub use trace_writer::{
    CATEGORY, Copy, Cut, CutOut, EventWriter, Lane, Merge, Merged, Packing, copy_with, cut, merge,
};

/// Reads a run: a trace file, a folder of them, or an [`Export`]. `path` is a path or an address, see [`Location`].
///
/// # Errors
/// If the path cannot be read, holds no trace, or none of its traces can be used.
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
