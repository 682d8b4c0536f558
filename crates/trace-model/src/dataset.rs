//! The result of ingest: tables, their input files, and warnings.

use std::borrow::Cow;
use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::command_line::CommandOptions;
use crate::tables::TABLES;

/// Arrow batches by table name: first the rows of the timelines, rank by rank, one or more batches per rank, then the
/// rows of other files.
#[derive(Debug, Clone)]
pub struct TableSet {
    batches: BTreeMap<&'static str, Vec<RecordBatch>>,
}

impl Default for TableSet {
    fn default() -> Self {
        Self { batches: TABLES.iter().map(|t| (t.name, Vec::new())).collect() }
    }
}

impl TableSet {
    /// Adds a batch to a table; empty batches are dropped.
    ///
    /// # Panics
    /// If `table` is not one of [`TABLES`].
    pub fn push(&mut self, table: &str, batch: RecordBatch) {
        let batches = self.batches.get_mut(table).expect("a declared table");
        if batch.num_rows() > 0 {
            batches.push(batch);
        }
    }

    /// Takes the batches of one table out of the set.
    pub fn take(&mut self, table: &str) -> Vec<RecordBatch> {
        self.batches.get_mut(table).map(std::mem::take).unwrap_or_default()
    }

    /// The batches of one table; empty if it has no rows or does not exist.
    pub fn get(&self, table: &str) -> &[RecordBatch] {
        self.batches.get(table).map_or(&[], Vec::as_slice)
    }

    /// All tables with their batches, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &[RecordBatch])> {
        self.batches.iter().map(|(name, batches)| (*name, batches.as_slice()))
    }

    /// Rows in a table.
    pub fn rows(&self, table: &str) -> usize {
        self.get(table).iter().map(RecordBatch::num_rows).sum()
    }

    /// Bytes that the batches hold in memory.
    pub fn memory_bytes(&self) -> usize {
        self.batches.values().flatten().map(RecordBatch::get_array_memory_size).sum()
    }
}

/// A run in memory.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The tables of all ranks.
    pub tables: TableSet,
    /// The run as a whole, and its input files.
    pub run: RunInfo,
    /// Problems while reading: one entry per file and kind, with a count.
    pub warnings: Vec<Warning>,
}

/// The run as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Path as the user gave it.
    pub path: String,
    /// Ranks present, ascending.
    pub ranks: Vec<i32>,
    /// Largest number of steps of a rank; 0 if no trace marks steps.
    pub steps: usize,
    /// From the first event of the run to the end of the last one.
    pub wall_ns: i64,
    /// The selected part of the run, for people; empty for the complete run.
    pub selection: String,
    /// Options of the command that read the run, for commands that are printed.
    #[serde(skip)]
    pub command_options: CommandOptions,
    /// Input files in order of reading.
    pub sources: Vec<Source>,
}

/// One input file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Path relative to the run, or as given for a single file.
    pub file: String,
    /// Format it was read as: `kineto`, `composer`, `execution trace`, `memory snapshot`, `memory timeline`,
    /// `determined metrics`.
    pub format: Cow<'static, str>,
    /// The file is a timeline, not a file that adds to one.
    #[serde(default)]
    pub is_timeline: bool,
    /// Rank of its events.
    pub rank: i32,
    /// Origin of the rank: `distributedInfo`, `global_rank`, `file name`, `order`; for files that belong to a trace
    /// also `process id`, `the only trace`; for Determined's metrics `agent order` (the rank is that of the first
    /// agent in the file).
    pub rank_from: Cow<'static, str>,
    /// Bytes of JSON, of the pickle, or of the table, after decompression.
    pub json_bytes: u64,
    /// Events read; nodes of an execution trace; times or actions of a memory timeline; samples and timings of the
    /// trial that was read.
    pub events: u64,
    /// Added to its times, in nanoseconds, to put them on the run's clock.
    pub shift_ns: i64,
}

/// The kind of the warning that a file was skipped which holds activities that the file of the same rank lacks.
pub const SPLIT_RANK: &str = "split-rank";

/// A partial failure: something was dropped, skipped or guessed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Stable kebab-case kind: `truncated-json`, `negative-duration`.
    pub code: Cow<'static, str>,
    /// File concerned; empty for the run.
    pub file: String,
    /// One sentence, with what to do about it where something can be done.
    pub message: String,
    /// Number of occurrences.
    pub count: u64,
}
