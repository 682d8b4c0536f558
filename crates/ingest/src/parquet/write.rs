//! Writing an export.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, types::Int32Type};
use rayon::prelude::*;
use trace_model::tables::{self, TABLES};
use trace_model::{Dataset, TableSet, TableSpec, Warning};

use super::folder::Folder;
use super::manifest::{Manifest, Partition};
use super::partition::{self, Change};
use super::{RUN_TABLES, partition_path};
use crate::discover;
use crate::error::Error;
use crate::formats::kineto::Trace;
use crate::location::Location;
use crate::run;
use crate::timeline::{self, Placement, Timeline};
use crate::{Options, Progress};

/// What an export wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Ranks in it.
    pub ranks: usize,
    /// Rows of all tables.
    pub rows: u64,
    /// Bytes of JSON, of pickles and of tables that were read.
    pub json_bytes: u64,
    /// Bytes of Parquet that were written.
    pub bytes: u64,
    /// What could not be read, or only in part.
    pub warnings: Vec<Warning>,
}

/// Converts a run to a folder of Parquet that can be read as the run. What is at `to` must be an empty folder or,
/// with `overwrite`, an export; it is replaced once the new one is complete.
///
/// Timelines are read and written one after the other, so that memory does not grow with the number of ranks. Runs of
/// Composer, with execution traces or with Determined's metrics are read as a whole, since their files need each
/// other.
///
/// # Errors
/// As [`crate::read_location`]; if `to` is taken, or cannot be written.
pub fn export(
    run: &Location,
    options: &Options,
    to: &Path,
    overwrite: bool,
    progress: &dyn Progress,
) -> Result<Exported, Error> {
    let folder = Folder::create(to, overwrite)?;
    let mut found = run::find(run, options)?;
    if found.found.export.is_some() {
        let reason = "it is one already: copy its folder instead".to_owned();
        return Err(Error::Export { path: found.name, reason });
    }
    if run::is_separable(&found) {
        let away = folder.path().join(AWAY);
        let put_away = |number: usize, file: &str, trace: Trace| {
            put_away(&away.join(number.to_string()), file, trace)
        };
        let mut placed = Vec::new();
        let place = |members: Vec<(Away, Placement)>| {
            let mut tables = TableSet::default();
            for (away, placement) in &members {
                if let Some(row) = &away.row {
                    tables.push("ranks", moved_row(row, away, *placement));
                }
            }
            placed = members;
            tables
        };
        if let Some(dataset) = run::read_apart(found, options, progress, put_away, place)? {
            let mut partitions = place_all(&folder, placed)?;
            if away.exists() {
                // Cycles that are not read, and folders that are empty now.
                std::fs::remove_dir_all(&away).map_err(|e| Error::write(&away, e))?;
            }
            partitions.extend(write_rest(&folder, dataset.tables, true)?);
            return complete(folder, &dataset.run, dataset.warnings, partitions, overwrite);
        }
        found = run::find(run, options)?;
    }
    let dataset = run::read(found, options, progress)?;
    let partitions = write_rest(&folder, dataset.tables, false)?;
    complete(folder, &dataset.run, dataset.warnings, partitions, overwrite)
}

/// Writes a run that is in memory as [`export`] writes it.
///
/// # Errors
/// If `to` is taken, or cannot be written.
pub fn export_dataset(dataset: &Dataset, to: &Path, overwrite: bool) -> Result<Exported, Error> {
    let folder = Folder::create(to, overwrite)?;
    let partitions = write_rest(&folder, dataset.tables.clone(), false)?;
    complete(folder, &dataset.run, dataset.warnings.clone(), partitions, overwrite)
}

/// Where timelines lie until they get their place.
const AWAY: &str = "away";

/// A timeline that was put away: its tables are on disk, on a clock that begins with its own first event.
struct Away {
    folder: PathBuf,
    /// As written there.
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
    steps: usize,
    json_bytes: u64,
    warnings: Vec<Warning>,
}

impl Timeline for Away {
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

    fn steps(&self) -> usize {
        self.steps
    }

    fn json_bytes(&self) -> u64 {
        self.json_bytes
    }

    fn warnings(&self) -> Vec<Warning> {
        self.warnings.clone()
    }
}

/// Writes the tables of a timeline before its place in the run is known.
fn put_away(folder: &Path, file: &str, trace: Trace) -> Result<Away, Error> {
    let stated_rank = trace.rank();
    let rank = stated_rank.map(|(rank, _)| rank).or_else(|| discover::stated_rank(file));
    let rank = rank.unwrap_or(0);
    let mut away = Away {
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
        steps: trace.steps(),
        json_bytes: trace.json_bytes,
        warnings: trace.warnings(),
    };
    let placement = Placement { rank, shift_ns: away.shift_ns, base_time_ns: None, clock: "" };
    let mut tables = timeline::tables(trace, placement);
    away.row = tables.take("ranks").pop();
    let tables = contents(tables);
    away.partitions = tables
        .into_par_iter()
        .map(|(spec, batches)| {
            let path = folder.join(format!("{}.parquet", spec.name));
            partition::write(spec, Some(rank), &batches, &path)
        })
        .collect::<Result<_, _>>()?;
    Ok(away)
}

/// Gives timelines their place in the run: rank by rank, as they follow each other in the tables.
fn place_all(folder: &Folder, placed: Vec<(Away, Placement)>) -> Result<Vec<Partition>, Error> {
    let placed: Vec<Vec<Partition>> = placed
        .into_par_iter()
        .map(|(away, placement)| {
            let Placement { rank, shift_ns, .. } = placement;
            let change = Change {
                rank: Some(rank).filter(|&rank| rank != away.rank),
                shift_ns: shift_ns - away.shift_ns,
            };
            let place = |partition: Partition| {
                let from = away.folder.join(format!("{}.parquet", partition.table));
                let to = folder.path().join(partition_path(&partition.table, Some(rank)));
                if let Some(table) = to.parent() {
                    std::fs::create_dir_all(table).map_err(|e| Error::write(table, e))?;
                }
                let partition = Partition { rank: Some(rank), ..partition };
                partition::place(partition, &from, &to, change)
            };
            away.partitions.into_iter().map(place).collect::<Result<_, _>>()
        })
        .collect::<Result<_, Error>>()?;
    Ok(placed.into_iter().flatten().collect())
}

/// The row of `ranks` of a timeline, in its place.
fn moved_row(row: &RecordBatch, away: &Away, placement: Placement) -> RecordBatch {
    let spec = tables::Ranks::SPEC;
    let change =
        Change { rank: Some(placement.rank), shift_ns: placement.shift_ns - away.shift_ns };
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

/// Writes tables that are in memory: a file a rank, as far as batches are of one rank each, in ascending order, and
/// one for what follows. If timelines were written before, there is only the latter.
fn write_rest(
    folder: &Folder,
    tables: TableSet,
    has_timelines: bool,
) -> Result<Vec<Partition>, Error> {
    let mut files: Vec<(&TableSpec, Option<i32>, Vec<RecordBatch>)> = Vec::new();
    for (spec, batches) in contents(tables) {
        let by_rank = !has_timelines && !RUN_TABLES.contains(&spec.name);
        let mut last = None;
        for batch in batches {
            let rank = partition::rank_of(&batch).filter(|_| by_rank);
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
    run: &trace_model::RunInfo,
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
