//! Tables that are not in memory: read in pieces, only the columns that are asked for.

use std::error::Error;
use std::fmt;

use arrow_array::RecordBatch;

/// Why rows could not be had.
pub type ScanError = Box<dyn Error + Send + Sync>;

/// Rows of a table, piece by piece.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ScanError>> + Send>;

/// Rows of a table that are stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// The rank that all of them are of, if that is known.
    pub rank: Option<i32>,
    /// How many they are, at most.
    pub rows: usize,
    /// Bytes that they take in memory, at most.
    pub bytes: u64,
}

/// The tables of a run that are read while they are asked about, instead of before.
pub trait TableSource: fmt::Debug + Send + Sync {
    /// The partitions of a table; one after the other they are the table. None if it has no rows or does not exist.
    fn partitions(&self, table: &str) -> Vec<Partition>;

    /// Begins to read a partition: these columns, by their position in the table's spec, in ascending order.
    ///
    /// # Errors
    /// If there is no such partition, or it cannot be read; also later, from the batches.
    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError>;
}
