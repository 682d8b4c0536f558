//! Exports: a run as a folder of Parquet files, written rank by rank, and read like the traces.
//!
//! ```text
//! DIR/run.json                      the manifest: the run and its partitions; written last
//! DIR/<table>/rank-00003.parquet    rows of the timeline of rank 3
//! DIR/<table>/run.parquet           rows about the run, or from other files
//! ```
//!
//! Times are on the run's clock, whose zero is known only when all ranks are read. So each rank is first written on its
//! own clock, and its time columns are shifted at the end; all other columns are copied without decoding.

pub(crate) mod bounds;
pub(crate) mod checksum;
pub(crate) mod folder;
pub(crate) mod layout;
pub(crate) mod manifest;
pub(crate) mod partition;
pub(crate) mod partition_file;
mod read;
pub(crate) mod staged;
pub(crate) mod write;
pub(crate) mod writer;

pub(crate) use checksum::crc32;
pub use read::Export;
pub use write::{Exported, export, export_dataset, export_temporarily};
pub(crate) use write::{export_dataset_privately, export_privately};
