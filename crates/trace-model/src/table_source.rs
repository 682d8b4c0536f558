//! Tables that are not in memory: they are read in batches, and only the requested columns.

use std::error::Error;
use std::fmt;

use arrow_array::RecordBatch;

/// Reason for which rows could not be read.
pub type ScanError = Box<dyn Error + Send + Sync>;

/// Rows of a table in batches.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ScanError>> + Send>;

/// Rows of a table that are stored together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// The rank of all rows, if known.
    pub rank: Option<i32>,
    /// Number of rows, at most.
    pub rows: usize,
    /// Size in memory in bytes, at most.
    pub bytes: u64,
}

/// The tables of a run, read on demand.
pub trait TableSource: fmt::Debug + Send + Sync {
    /// The partitions of a table, in order of its rows. Empty if it has no rows or does not exist.
    fn partitions(&self, table: &str) -> Vec<Partition>;

    /// Starts to read columns of a partition. `columns` are ascending positions in the table's spec.
    ///
    /// # Errors
    /// If the partition does not exist or cannot be read; the batches may return errors too.
    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError>;

    /// The rows of a view of single ranks, if they were computed together with the tables and with the defaults of all
    /// parameters: of all ranks, in ascending order. They are valid if all partitions of the tables that the view reads are
    /// of one rank. Without rows, there may be no batch.
    fn computed_rows(&self, _view: &str) -> Option<Result<Batches, ScanError>> {
        None
    }
}
