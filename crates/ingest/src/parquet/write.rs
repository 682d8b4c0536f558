//! Writes exports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use private_files::Access;
use rayon::prelude::*;
use trace_model::{Dataset, RunInfo, TableSet, TableSpec, Warning};

use super::folder::Folder;
use super::layout::{RUN_TABLES, partition_path};
use super::manifest::{Manifest, Partition};
use super::partition;
use super::read::Export;
use super::staged::{StagedTrace, contents};
use crate::error::{Error, ExportProblem};
use crate::input::location::Location;
use crate::options::{Options, Progress};
use crate::output::work_folder::TemporaryFolder;
use crate::run::discover::{self, InputFile};
use crate::run::read;
use crate::run::sink::RankSink;
use crate::timeline::placement::Placement;
use crate::timeline::trace::Trace;

/// Summary of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Number of ranks.
    pub ranks: usize,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of JSON, pickles and tables that were read.
    pub json_bytes: u64,
    /// Bytes of Parquet.
    pub bytes: u64,
    /// Problems while reading.
    pub warnings: Vec<Warning>,
}

/// Converts a run to a folder of Parquet files that can be read as the run. `to` must not exist, be an empty folder
/// or, with `overwrite`, an export; it is replaced once the new export is complete.
///
/// Timelines are read and written in batches of bounded size, so that memory does not grow with the number of ranks.
/// The timelines of runs with Composer's files or execution traces stay in memory until all files are read, because
/// these files need each other.
///
/// # Errors
/// As [`crate::read_location`]; if `to` exists and must not be overwritten, or cannot be
/// written.
pub fn export(
    run: &Location,
    options: &Options,
    to: &Path,
    overwrite: bool,
    progress: &dyn Progress,
) -> Result<Exported, Error> {
    export_to(Folder::create(to, overwrite, Access::Umask)?, run, options, overwrite, progress)
}

/// Converts a run to an export that only its owner can read, in the cache for example.
///
/// # Errors
/// As [`export`].
pub(crate) fn export_privately(
    run: &Location,
    options: &Options,
    to: &Path,
    progress: &dyn Progress,
) -> Result<Exported, Error> {
    export_to(Folder::create(to, true, Access::Owner)?, run, options, true, progress)
}

/// Converts a run to an export in a temporary folder, which has to be kept as long as the export is read.
///
/// # Errors
/// As [`export`].
pub fn export_temporarily(
    run: &Location,
    options: &Options,
    progress: &dyn Progress,
) -> Result<(Arc<Export>, TemporaryFolder), Error> {
    let folder = TemporaryFolder::create()?;
    let to = folder.path().join("run");
    export_privately(run, options, &to, progress)?;
    Ok((Export::open(&to)?, folder))
}

fn export_to(
    folder: Folder,
    run: &Location,
    options: &Options,
    overwrite: bool,
    progress: &dyn Progress,
) -> Result<Exported, Error> {
    let found = discover::find(run, options)?;
    if found.files.export.is_some() {
        return Err(Error::Export { path: found.name, problem: ExportProblem::AlreadyExport });
    }
    let splits_by_rank = has_files_in_rank_order(&found.files.traces);
    let mut sink = ParquetSink::new(&folder);
    let dataset = read::read(found, options, progress, &mut sink)?;
    let mut partitions = sink.finish()?;
    partitions.extend(write_rest(&folder, dataset.tables, splits_by_rank, &partitions)?);
    complete(folder, &dataset.run, dataset.warnings, partitions, overwrite)
}

/// Writes a run that is in memory as [`export`] writes it.
///
/// # Errors
/// If `to` exists and must not be overwritten, or cannot be written.
pub fn export_dataset(dataset: &Dataset, to: &Path, overwrite: bool) -> Result<Exported, Error> {
    write_dataset(Folder::create(to, overwrite, Access::Umask)?, dataset, overwrite)
}

/// Writes a run that is in memory as an export that only its owner can read.
///
/// # Errors
/// As [`export_dataset`].
pub(crate) fn export_dataset_privately(dataset: &Dataset, to: &Path) -> Result<Exported, Error> {
    write_dataset(Folder::create(to, true, Access::Owner)?, dataset, true)
}

fn write_dataset(folder: Folder, dataset: &Dataset, overwrite: bool) -> Result<Exported, Error> {
    let partitions = write_rest(&folder, dataset.tables.clone(), true, &[])?;
    complete(folder, &dataset.run, dataset.warnings.clone(), partitions, overwrite)
}

/// Subfolder for timelines whose placement is not known yet.
pub(crate) const STAGING: &str = "staging";

/// Writes each timeline as soon as it is read, and moves it onto the run's clock at the end.
struct ParquetSink<'a> {
    folder: &'a Folder,
    staging: PathBuf,
    partitions: Vec<Partition>,
}

impl<'a> ParquetSink<'a> {
    fn new(folder: &'a Folder) -> Self {
        Self { folder, staging: folder.path().join(STAGING), partitions: Vec::new() }
    }

    fn staging_folder(&self, number: usize) -> PathBuf {
        self.staging.join(number.to_string())
    }

    /// Removes staged files of cycles that are not read. Returns the partitions of all timelines, in order of ranks.
    fn finish(self) -> Result<Vec<Partition>, Error> {
        if self.staging.exists() {
            std::fs::remove_dir_all(&self.staging).map_err(|e| Error::write(&self.staging, e))?;
        }
        Ok(self.partitions)
    }
}

impl RankSink for ParquetSink<'_> {
    type Stored = StagedTrace;

    const JSON_BYTES_AT_ONCE: Option<u64> = Some(96 << 20);

    fn store(&self, number: usize, file: &str, trace: Trace) -> Result<StagedTrace, Error> {
        let (mut staged, tables) = StagedTrace::new(number, file, trace);
        staged.write_tables(&self.staging_folder(number), tables, self.folder.access())?;
        Ok(staged)
    }

    fn place(&mut self, traces: Vec<(StagedTrace, Placement)>) -> Result<TableSet, Error> {
        let mut tables = TableSet::default();
        for (trace, placement) in &traces {
            if let Some(row) = trace.row_at(*placement) {
                tables.push("ranks", row);
            }
        }
        let placed: Vec<Vec<Partition>> = traces
            .into_par_iter()
            .map(|(trace, placement)| {
                let from = self.staging_folder(trace.number);
                trace.finalize(&from, self.folder, placement)
            })
            .collect::<Result<_, Error>>()?;
        self.partitions = placed.into_iter().flatten().collect();
        Ok(tables)
    }
}

/// Returns whether the run has files, besides timelines, whose rows are in order of ranks. Those of memory files may not
/// be.
pub(crate) fn has_files_in_rank_order(files: &[InputFile]) -> bool {
    let mut kinds = files.iter().filter_map(|file| file.importer.attachment());
    kinds.any(|kind| kind.adds_rows_by_rank)
}

/// Writes tables that are in memory. With `splits_by_rank`, batches of one rank each go to the file of that rank, as
/// long as ranks ascend and the file is not among those `written`; everything else goes to one file per table.
pub(crate) fn write_rest(
    folder: &Folder,
    tables: TableSet,
    splits_by_rank: bool,
    written: &[Partition],
) -> Result<Vec<Partition>, Error> {
    let written: BTreeSet<(&str, Option<i32>)> =
        written.iter().map(|partition| (partition.table.as_str(), partition.rank)).collect();
    let mut files: Vec<(&TableSpec, Option<i32>, Vec<RecordBatch>)> = Vec::new();
    for (spec, batches) in contents(tables) {
        let by_rank = splits_by_rank && !RUN_TABLES.contains(&spec.name);
        let mut last = None;
        for batch in batches {
            let rank = partition::rank_of(&batch)
                .filter(|&rank| by_rank && !written.contains(&(spec.name, Some(rank))));
            match files.last_mut().filter(|(of, ..)| of.name == spec.name) {
                Some((_, current, batches)) if current.is_none() || *current == rank => {
                    batches.push(batch);
                }
                _ if rank.is_some() && rank > last => {
                    files.push((spec, rank, vec![batch]));
                }
                _ => files.push((spec, None, vec![batch])),
            }
            last = rank.max(last);
        }
    }
    files
        .into_par_iter()
        .map(|(spec, rank, batches)| {
            let path = folder.path().join(partition_path(spec.name, rank));
            partition::write(spec, rank, &batches, &path, folder.access())
        })
        .collect()
}

pub(crate) fn complete(
    folder: Folder,
    run: &RunInfo,
    warnings: Vec<Warning>,
    partitions: Vec<Partition>,
    overwrite: bool,
) -> Result<Exported, Error> {
    let exported = Exported {
        ranks: run.ranks.len(),
        rows: partitions.iter().map(|partition| partition.rows).sum(),
        json_bytes: run.sources.iter().map(|source| source.json_bytes).sum(),
        bytes: partitions.iter().map(|partition| partition.bytes).sum(),
        warnings,
    };
    folder.complete(&Manifest::new(run, &exported.warnings, partitions), overwrite)?;
    Ok(exported)
}
