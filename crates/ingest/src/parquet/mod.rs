//! A run as a folder of Parquet: written rank by rank, read as if it were the traces.
//!
//! ```text
//! DIR/run.json                      what was read, and which partitions there are; written last
//! DIR/<table>/rank-00003.parquet    what the timeline of rank 3 says
//! DIR/<table>/run.parquet           what is about the run, or comes from other files
//! ```
//!
//! Times lie on the run's clock, whose zero is known when all ranks were read. So a rank is written on a clock of its
//! own, and its columns of times are moved at the end; the others are copied as they are encoded.

mod folder;
pub(crate) mod manifest;
mod partition;
mod read;
mod write;

pub use read::Export;
pub(crate) use read::crc32;
pub use write::{Exported, export, export_dataset};

/// The folder of a table, and the file in it, below the folder of the export.
fn partition_path(table: &str, rank: Option<i32>) -> String {
    match rank {
        Some(rank) => format!("{table}/rank-{rank:05}.parquet"),
        None => format!("{table}/run.parquet"),
    }
}

/// Tables whose rows are about the run as a whole: one file, whatever rank a row speaks of.
const RUN_TABLES: [&str; 2] = ["ranks", "reading_warnings"];
