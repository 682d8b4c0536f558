//! Timelines that are stored before their place in the run is known.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, types::Int32Type};
use private_files::Access;
use rayon::prelude::*;
use trace_model::tables::{self, Steps, TABLES};
use trace_model::{TableSet, TableSpec, Warning};

use super::folder::Folder;
use super::layout::partition_path;
use super::manifest::Partition;
use super::partition::{self, Change};
use crate::error::Error;
use crate::run::identity::TraceIdentity;
use crate::run::rank_from_name::rank_from_file_name;
use crate::timeline::placement::{Placement, Timeline, tables_at};
use crate::timeline::trace::Trace;

/// A timeline whose tables are on disk or in a store, on a clock that starts with its own first event.
#[derive(Debug)]
pub(crate) struct StagedTrace {
    /// Number of its file in the run.
    pub(crate) number: usize,
    /// Rank in the staged tables.
    pub(crate) rank: i32,
    /// Offset that was added to the times as written.
    pub(crate) shift_ns: i64,
    /// Files named `<table>.parquet`, in the folder that they were written to.
    pub(crate) partitions: Vec<Partition>,
    /// Its row of `ranks`.
    pub(crate) row: Option<RecordBatch>,
    /// Name of its format.
    pub(crate) format: &'static str,
    pub(crate) stated_rank: Option<(i32, &'static str)>,
    pub(crate) world_size: Option<i32>,
    pub(crate) base_time_ns: Option<i64>,
    pub(crate) extent: (i64, i64),
    pub(crate) events: u64,
    pub(crate) lane_count: i32,
    pub(crate) step_count: usize,
    /// Rows of `steps`, with times as written.
    pub(crate) steps: Steps,
    pub(crate) json_bytes: u64,
    pub(crate) identity: TraceIdentity,
    pub(crate) warnings: Vec<Warning>,
}

impl Timeline for StagedTrace {
    fn format(&self) -> &'static str {
        self.format
    }

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
    /// Converts a trace to tables that can be staged. `number` is the position of its file in the run.
    pub(crate) fn new(number: usize, file: &str, trace: Trace) -> (Self, TableSet) {
        let stated_rank = trace.rank();
        let rank = stated_rank.map(|(rank, _)| rank).or_else(|| rank_from_file_name(file));
        let rank = rank.unwrap_or(0);
        let mut staged = Self {
            number,
            rank,
            shift_ns: -trace.start_ns,
            partitions: Vec::new(),
            row: None,
            format: trace.format,
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
        let mut tables = tables_at(trace, placement);
        staged.row = tables.take("ranks").pop();
        (staged, tables)
    }

    /// Writes the tables to a folder.
    pub(crate) fn write_tables(
        &mut self,
        folder: &Path,
        tables: TableSet,
        access: Access,
    ) -> Result<(), Error> {
        let write = |(spec, batches): (&'static TableSpec, Vec<RecordBatch>)| {
            let path = folder.join(file_name(spec.name));
            partition::write(spec, Some(self.rank), &batches, &path, access)
        };
        self.partitions = contents(tables).into_par_iter().map(write).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// The difference between rows at a placement and the staged rows.
    pub(crate) fn change(&self, placement: Placement) -> Change {
        let Placement { rank, shift_ns, .. } = placement;
        Change {
            rank: Some(rank).filter(|&rank| rank != self.rank),
            shift_ns: shift_ns - self.shift_ns,
        }
    }

    /// The row of `ranks` at a placement.
    pub(crate) fn row_at(&self, placement: Placement) -> Option<RecordBatch> {
        let row = self.row.as_ref()?;
        let spec = tables::Ranks::SPEC;
        let change = Change { rank: Some(placement.rank), ..self.change(placement) };
        let columns = row.columns().iter().enumerate().map(|(at, array)| -> ArrayRef {
            match spec.columns[at].name {
                "base_time_ns" => Arc::new(Int64Array::from(vec![placement.base_time_ns])),
                "clock" => Arc::new(DictionaryArray::<Int32Type>::from_iter([placement.clock])),
                _ => change.apply(&spec, at, array).unwrap_or_else(|| array.clone()),
            }
        });
        let columns: Vec<ArrayRef> = columns.collect();
        Some(RecordBatch::try_new(row.schema(), columns).unwrap_or_else(|_| row.clone()))
    }

    /// Moves the tables from the folder that they were written to to their place in an export, with their rank and times in
    /// the run.
    pub(super) fn finalize(
        self,
        from: &Path,
        folder: &Folder,
        placement: Placement,
    ) -> Result<Vec<Partition>, Error> {
        let change = self.change(placement);
        let place = |partition: Partition| {
            let from = from.join(file_name(&partition.table));
            let to = folder.path().join(partition_path(&partition.table, Some(placement.rank)));
            let partition = Partition { rank: Some(placement.rank), ..partition };
            partition::place(partition, &from, &to, change, folder.access())
        };
        self.partitions.into_iter().map(place).collect()
    }
}

/// The name of the file of a staged table.
pub(crate) fn file_name(table: &str) -> String {
    format!("{table}.parquet")
}

/// Tables with rows, the largest first, so that cores are busy until the end.
pub(crate) fn contents(mut tables: TableSet) -> Vec<(&'static TableSpec, Vec<RecordBatch>)> {
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
