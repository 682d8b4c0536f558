//! What ingest hands on: tables, where they came from, and what went wrong on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::tables::TABLES;

/// Arrow batches by table name: what the timelines of ranks say, rank by rank, each in one batch or several, then
/// what other files say.
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

/// A run, read.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The tables of all ranks.
    pub tables: TableSet,
    /// What was read.
    pub run: RunInfo,
    /// What could not be read, or only in part; each kind once a file, with a count.
    pub warnings: Vec<Warning>,
}

/// The run as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Path as the user gave it.
    pub path: String,
    /// Ranks present, ascending.
    pub ranks: Vec<i32>,
    /// Steps of the rank that has most; 0 if no trace marks any.
    pub steps: usize,
    /// From the first event of the run to the end of the last one.
    pub wall_ns: i64,
    /// Which part of the run was asked for, in words; empty for all of it.
    pub selection: String,
    /// Input files in order of reading.
    pub sources: Vec<Source>,
}

/// A name of ours. (Under a name of its own, or serde would borrow it from what is read.)
pub type Word = &'static str;

/// One input file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Path relative to the run, or as given for a single file.
    pub file: String,
    /// Format it was read as: `kineto`, `composer`, `execution trace`, `memory snapshot`, `memory timeline`,
    /// `determined metrics`.
    #[serde(deserialize_with = "lasting")]
    pub format: Word,
    /// Rank its events were given.
    pub rank: i32,
    /// Where the rank came from: `distributedInfo`, `global_rank`, `file name`, `order`; for what goes with a trace
    /// also `process id`, `the only trace`; for Determined's metrics `agent order`, the rank being that of the
    /// first agent in the file.
    #[serde(deserialize_with = "lasting")]
    pub rank_from: Word,
    /// Bytes of JSON, of the pickle, or of the table, after decompression.
    pub json_bytes: u64,
    /// Events read; nodes of an execution trace; moments or actions of a memory timeline; samples and timings of
    /// the trial that was read.
    pub events: u64,
    /// What was added to its times to put them on the run's clock.
    pub shift_ns: i64,
}

/// A partial failure: something was set aside, skipped or guessed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Stable kebab-case kind: `truncated-json`, `negative-duration`.
    #[serde(deserialize_with = "lasting")]
    pub code: Word,
    /// File concerned; empty for the run.
    pub file: String,
    /// One sentence, with what to do about it where something can be done.
    pub message: String,
    /// How often it happened.
    pub count: u64,
}

/// A word for as long as the program runs. There are few of them, names of formats and kinds of warnings: each is
/// kept once, and what is too long to be one is refused.
fn lasting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let word = String::deserialize(deserializer)?;
    if word.len() > 64 {
        return Err(D::Error::custom("a name of a format or a kind of warning is not that long"));
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&word) = known.get(word.as_str()) {
        return Ok(word);
    }
    let word: &'static str = Box::leak(word.into_boxed_str());
    known.insert(word);
    Ok(word)
}
