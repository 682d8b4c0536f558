//! Writes exports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, types::Int32Type};
use rayon::prelude::*;
use trace_model::tables::{self, Steps, TABLES};
use trace_model::{Dataset, RunInfo, TableSet, TableSpec, Warning};

use super::folder::Folder;
use super::layout::{RUN_TABLES, partition_path};
use super::manifest::{Manifest, Partition};
use super::partition::{self, Change};
use crate::error::{Error, ExportProblem};
use crate::formats::guess::Format;
use crate::formats::kineto::trace::Trace;
use crate::input::location::Location;
use crate::options::{Options, Progress};
use crate::run::discover::{self, InputFile, rank_from_file_name};
use crate::run::identity::TraceIdentity;
use crate::run::read;
use crate::run::sink::RankSink;
use crate::run::timeline::{self, Placement, Timeline};

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
    let folder = Folder::create(to, overwrite)?;
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
    let folder = Folder::create(to, overwrite)?;
    let partitions = write_rest(&folder, dataset.tables.clone(), true, &[])?;
    complete(folder, &dataset.run, dataset.warnings.clone(), partitions, overwrite)
}

/// Subfolder for timelines whose placement is not known yet.
const STAGING: &str = "staging";

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
        StagedTrace::write(&self.staging.join(number.to_string()), file, trace)
    }

    fn place(&mut self, traces: Vec<(StagedTrace, Placement)>) -> Result<TableSet, Error> {
        let mut tables = TableSet::default();
        for (trace, placement) in &traces {
            if let Some(row) = &trace.row {
                tables.push("ranks", moved_row(row, trace, *placement));
            }
        }
        let placed: Vec<Vec<Partition>> = traces
            .into_par_iter()
            .map(|(trace, placement)| trace.finalize(self.folder, placement))
            .collect::<Result<_, Error>>()?;
        self.partitions = placed.into_iter().flatten().collect();
        Ok(tables)
    }
}

/// A timeline whose tables are on disk, on a clock that starts with its own first event.
struct StagedTrace {
    folder: PathBuf,
    /// Rank in the staged tables.
    rank: i32,
    shift_ns: i64,
    partitions: Vec<Partition>,
    /// Its row of `ranks`.
    row: Option<RecordBatch>,
    stated_rank: Option<(i32, &'static str)>,
    world_size: Option<i32>,
    base_time_ns: Option<i64>,
    extent: (i64, i64),
    events: u64,
    lane_count: i32,
    step_count: usize,
    /// Rows of `steps`, with times as written.
    steps: Steps,
    json_bytes: u64,
    identity: TraceIdentity,
    warnings: Vec<Warning>,
}

impl Timeline for StagedTrace {
    fn rank(&self) -> Option<(i32, &'static str)> {
        self.stated_rank
    }

    fn world_size(&self) -> Option<i32> {
        self.world_size
    }

    fn base_time_ns(&self) -> Option<i64> {
        self.base_time_ns
    }

    fn extent(&self) -> (i64, i64) {
        self.extent
    }

    fn events(&self) -> u64 {
        self.events
    }

    fn lane_count(&self) -> i32 {
        self.lane_count
    }

    fn step_count(&self) -> usize {
        self.step_count
    }

    fn steps(&self) -> &Steps {
        &self.steps
    }

    fn json_bytes(&self) -> u64 {
        self.json_bytes
    }

    fn identity(&self) -> TraceIdentity {
        self.identity.clone()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}

impl StagedTrace {
    /// Writes the tables of a timeline before its placement is known.
    fn write(folder: &Path, file: &str, trace: Trace) -> Result<Self, Error> {
        let stated_rank = trace.rank();
        let rank = stated_rank.map(|(rank, _)| rank).or_else(|| rank_from_file_name(file));
        let rank = rank.unwrap_or(0);
        let mut staged = Self {
            folder: folder.to_owned(),
            rank,
            shift_ns: -trace.start_ns,
            partitions: Vec::new(),
            row: None,
            stated_rank,
            world_size: trace.world_size(),
            base_time_ns: trace.base_time_ns(),
            extent: (trace.start_ns, trace.end_ns),
            events: trace.events(),
            lane_count: trace.lane_count(),
            step_count: trace.step_count(),
            steps: trace.steps().clone(),
            json_bytes: trace.json_bytes,
            identity: TraceIdentity::new(&trace),
            warnings: trace.warnings(),
        };
        let placement =
            Placement { rank, shift_ns: staged.shift_ns, base_time_ns: None, clock: "" };
        let mut tables = timeline::tables(trace, placement);
        staged.row = tables.take("ranks").pop();
        staged.partitions = contents(tables)
            .into_par_iter()
            .map(|(spec, batches)| {
                let path = folder.join(format!("{}.parquet", spec.name));
                partition::write(spec, Some(rank), &batches, &path)
            })
            .collect::<Result<_, _>>()?;
        Ok(staged)
    }

    /// Moves the tables to their place in the export, with their rank and times in the run.
    fn finalize(self, folder: &Folder, placement: Placement) -> Result<Vec<Partition>, Error> {
        let Placement { rank, shift_ns, .. } = placement;
        let change = Change {
            rank: Some(rank).filter(|&rank| rank != self.rank),
            shift_ns: shift_ns - self.shift_ns,
        };
        let place = |partition: Partition| {
            let from = self.folder.join(format!("{}.parquet", partition.table));
            let to = folder.path().join(partition_path(&partition.table, Some(rank)));
            if let Some(table) = to.parent() {
                std::fs::create_dir_all(table).map_err(|e| Error::write(table, e))?;
            }
            let partition = Partition { rank: Some(rank), ..partition };
            partition::place(partition, &from, &to, change)
        };
        self.partitions.into_iter().map(place).collect()
    }
}

/// The row of `ranks` of a timeline, at its placement.
fn moved_row(row: &RecordBatch, staged: &StagedTrace, placement: Placement) -> RecordBatch {
    let spec = tables::Ranks::SPEC;
    let change =
        Change { rank: Some(placement.rank), shift_ns: placement.shift_ns - staged.shift_ns };
    let columns = row.columns().iter().enumerate().map(|(at, array)| -> ArrayRef {
        match spec.columns[at].name {
            "base_time_ns" => Arc::new(Int64Array::from(vec![placement.base_time_ns])),
            "clock" => Arc::new(DictionaryArray::<Int32Type>::from_iter([placement.clock])),
            _ => change.apply(&spec, at, array).unwrap_or_else(|| array.clone()),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect();
    RecordBatch::try_new(row.schema(), columns).unwrap_or_else(|_| row.clone())
}

/// Tables with rows, the largest first, so that cores are busy until the end.
fn contents(mut tables: TableSet) -> Vec<(&'static TableSpec, Vec<RecordBatch>)> {
    let mut contents: Vec<_> = TABLES
        .iter()
        .map(|&spec| (spec, tables.take(spec.name)))
        .filter(|(_, batches)| !batches.is_empty())
        .collect();
    let bytes = |batches: &[RecordBatch]| -> usize {
        batches.iter().map(RecordBatch::get_array_memory_size).sum()
    };
    contents.sort_by_cached_key(|(_, batches)| std::cmp::Reverse(bytes(batches)));
    contents
}

/// Returns whether the run has files, besides timelines, whose rows are in order of ranks. Those of memory files may not
/// be.
fn has_files_in_rank_order(files: &[InputFile]) -> bool {
    files.iter().any(|file| {
        !matches!(file.format, Format::Kineto | Format::MemorySnapshot | Format::MemoryTimeline)
    })
}

/// Writes tables that are in memory. With `splits_by_rank`, batches of one rank each go to the file of that rank, as
/// long as ranks ascend and the file is not among those `written`; everything else goes to one file per table.
fn write_rest(
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
            partition::write(spec, rank, &batches, &path)
        })
        .collect()
}

fn complete(
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
