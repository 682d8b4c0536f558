//! Tables that are not in memory: read in pieces, only the columns that are asked for.

use std::error::Error;
use std::fmt;

use arrow_array::RecordBatch;

/// Why rows could not be had.
pub type ScanError = Box<dyn Error + Send + Sync>;

/// Rows of a table, piece by piece.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ScanError>> + Send>;

/// The tables of a run that are read while they are asked about, instead of before.
pub trait TableSource: fmt::Debug + Send + Sync {
    /// Rows of each partition of a table, at most; one after the other they are the table. Empty if it has no rows or
    /// does not exist.
    fn partitions(&self, table: &str) -> Vec<usize>;

    /// Begins to read a partition: these columns, by their position in the table's spec, in ascending order.
    ///
    /// # Errors
    /// If there is no such partition, or it cannot be read; also later, from the batches.
    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError>;
}
