//! Writes mapped runs as exports.

use std::fs;
use std::path::Path;

use private_files::Access;
use rayon::prelude::*;

use super::read::{MappedRun, StoredTable};
use crate::error::Error;
use crate::input::location::Location;
use crate::options::{Options, Progress};
use crate::parquet::folder::Folder;
use crate::parquet::layout::{RUN_TABLES, partition_path};
use crate::parquet::manifest::Partition;
use crate::parquet::partition;
use crate::parquet::staged::file_name;
use crate::parquet::write::{Exported, STAGING, complete, write_rest};

/// Writes a run that was mapped to `from`, with the same `views`, as [`crate::export`] writes the run itself: the same rows in
/// the same files. Its timelines are not read again.
///
/// # Errors
/// As [`MappedRun::open`], and as [`crate::export`] about `to`.
pub fn export_mapped(
    run: &Location,
    from: &Location,
    options: &Options,
    views: &str,
    to: &Path,
    overwrite: bool,
    progress: &dyn Progress,
) -> Result<Exported, Error> {
    let folder = Folder::create(to, overwrite, Access::Umask)?;
    let (dataset, mapped) = MappedRun::open(run, from, options, views, progress)?;
    let staging = folder.path().join(STAGING);
    let write = |table: &StoredTable| {
        let StoredTable { spec, rank, change, memory_bytes, trace, .. } = *table;
        let rows = mapped.stored_rows(table).map_err(|error| match error.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::Mapped { path: from.to_string(), reason: other.to_string() },
        })?;
        let staged = staging.join(trace.to_string()).join(file_name(spec.name));
        let partition = partition::write(spec, Some(rank), &rows, &staged, folder.access())?;
        let to = folder.path().join(partition_path(spec.name, Some(rank)));
        let partition = Partition { memory_bytes, ..partition };
        partition::place(partition, &staged, &to, change, folder.access())
    };
    let mut partitions: Vec<Partition> =
        mapped.stored_tables().par_iter().map(write).collect::<Result<_, Error>>()?;
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(|e| Error::write(&staging, e))?;
    }
    let mut rest = mapped.rest.clone();
    for table in RUN_TABLES {
        rest.take(table);
        dataset.tables.get(table).iter().for_each(|batch| rest.push(table, batch.clone()));
    }
    partitions.extend(write_rest(&folder, rest, mapped.splits_by_rank, &partitions)?);
    complete(folder, &dataset.run, dataset.warnings, partitions, overwrite)
}
