//! Rows that are computed once and read by several queries: in memory, or spilled to a temporary file.

use std::io::{BufReader, BufWriter};
use std::sync::Arc;

use arrow::array::{Array as _, RecordBatchOptions};
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::{DataFusionError, Result};
use private_files::{TemporaryFile, TemporaryFileWriter};
use trace_model::{Batches, Partition, RecordBatch, ScanError, TableSource};

use crate::row_order::{OrderCheck, ascending};
use crate::scan::ScannedTable;
use crate::storage::TableStorage;

/// Rows in memory, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Rows {
    /// Rows as a plan returns them, without the memory that joins and filters reserve for batches of full length.
    pub(crate) fn returned(schema: SchemaRef, batches: Vec<RecordBatch>) -> Result<Self> {
        let shrunk = |batch: RecordBatch| {
            let (schema, mut columns, rows) = batch.into_parts();
            for column in &mut columns {
                column.shrink_to_fit();
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            RecordBatch::try_new_with_options(schema, columns, &options)
        };
        let batches = batches.into_iter().map(shrunk).collect::<Result<_, _>>()?;
        Ok(Self { schema, batches })
    }

    /// The rows with other names, metadata and nullability of columns.
    ///
    /// # Errors
    /// If a column has another type, or nulls that it may not have.
    pub(crate) fn with_schema(self, schema: SchemaRef) -> Result<Self> {
        let with_schema = |batch: RecordBatch| {
            RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())
        };
        let batches = self.batches.into_iter().map(with_schema).collect::<Result<_, _>>()?;
        Ok(Self { schema, batches })
    }

    /// Keeps the rows, which are sorted by `order`, where rows over tables of this storage are kept.
    pub(crate) fn store(self, storage: TableStorage, order: &[String]) -> Result<StoredRows> {
        match storage {
            TableStorage::Memory => Ok(StoredRows::Memory(self)),
            TableStorage::Streamed => {
                let mut writer = SpillWriter::new(&self.schema, order)?;
                self.batches.iter().try_for_each(|batch| writer.write(batch))?;
                writer.finish()
            }
        }
    }
}

/// Rows of a view or of a shared common table expression.
#[derive(Debug)]
pub(crate) enum StoredRows {
    Memory(Rows),
    Spilled(Arc<SpilledRows>),
}

impl StoredRows {
    pub(crate) fn is_empty(&self) -> bool {
        self.row_count() == 0
    }

    pub(crate) fn row_count(&self) -> usize {
        match self {
            Self::Memory(rows) => rows.batches.iter().map(RecordBatch::num_rows).sum(),
            Self::Spilled(rows) => rows.partition.rows,
        }
    }

    /// A table over the rows, which are sorted by `order`.
    pub(crate) fn table(&self, order: &[String]) -> Result<Arc<dyn TableProvider>> {
        Ok(match self {
            Self::Memory(rows) => {
                let table =
                    MemTable::try_new(Arc::clone(&rows.schema), vec![rows.batches.clone()])?;
                Arc::new(if order.is_empty() {
                    table
                } else {
                    table.with_sort_order(vec![ascending(order)])
                })
            }
            // One stream: views that compare ranks have few rows per rank.
            Self::Spilled(rows) => {
                let table =
                    ScannedTable::new(Arc::clone(rows) as _, "", Arc::clone(&rows.schema), 1);
                Arc::new(table.with_sort_order(&rows.order))
            }
        })
    }

    /// The rows batch by batch, in the order in which they were stored.
    pub(crate) fn batches(&self) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let batches: Batches = match self {
            Self::Memory(rows) => Box::new(rows.batches.clone().into_iter().map(Ok)),
            Self::Spilled(rows) => {
                let all: Vec<usize> = (0..rows.schema.fields().len()).collect();
                rows.scan("", 0, &all).map_err(DataFusionError::External)?
            }
        };
        Ok(batches.map(|batch| batch.map_err(DataFusionError::External)))
    }

    /// All rows, in the order in which they were stored.
    pub(crate) fn collect(&self) -> Result<Rows> {
        let schema = match self {
            Self::Memory(rows) => &rows.schema,
            Self::Spilled(rows) => &rows.schema,
        };
        Ok(Rows { schema: Arc::clone(schema), batches: self.batches()?.collect::<Result<_>>()? })
    }
}

/// A schema of the same columns, all of which may have nulls.
pub(crate) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Fields>()))
}

/// Rows in a temporary file that lives as long as this value.
#[derive(Debug)]
pub(crate) struct SpilledRows {
    schema: SchemaRef,
    file: Arc<TemporaryFile>,
    partition: Partition,
    /// The columns by which the rows are sorted. Rows of several groups, or from a store, may not be.
    order: Vec<String>,
}

/// Writes rows to a temporary file.
pub(crate) struct SpillWriter {
    schema: SchemaRef,
    file: StreamWriter<BufWriter<TemporaryFileWriter>>,
    partition: Partition,
    order: Vec<String>,
    order_check: OrderCheck,
}

impl SpillWriter {
    /// For rows that should be sorted by `order`.
    pub(crate) fn new(schema: &SchemaRef, order: &[String]) -> Result<Self> {
        // Rank groups may differ in whether a column has nulls: Rust views derive that from their rows.
        let schema = nullable(schema);
        let file = BufWriter::new(TemporaryFile::create()?.writer()?);
        let partition = Partition { rank: None, rows: 0, bytes: 0 };
        let (order, order_check) = (order.to_vec(), OrderCheck::new(&schema, order));
        let file = StreamWriter::try_new(file, &schema)?;
        Ok(Self { schema, file, partition, order, order_check })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        self.partition.rows += batch.num_rows();
        self.partition.bytes += batch.get_array_memory_size() as u64;
        self.order_check.add(&batch)?;
        Ok(self.file.write(&batch)?)
    }

    /// Returns whether all rows so far are sorted.
    pub(crate) fn is_sorted(&self) -> bool {
        self.order_check.is_sorted()
    }

    pub(crate) fn finish(mut self) -> Result<StoredRows> {
        self.file.finish()?;
        let file = self.file.into_inner()?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?.into_file();
        let order = if self.order_check.is_sorted() { self.order } else { Vec::new() };
        let rows = SpilledRows { schema: self.schema, file, partition: self.partition, order };
        Ok(StoredRows::Spilled(Arc::new(rows)))
    }
}

impl TableSource for SpilledRows {
    fn partitions(&self, _: &str) -> Vec<Partition> {
        vec![self.partition]
    }

    fn scan(&self, _: &str, _: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let file = BufReader::new(self.file.reader());
        let rows = StreamReader::try_new(file, Some(columns.to_vec()))?;
        Ok(Box::new(rows.map(|batch| batch.map_err(ScanError::from))))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn is_sorted_in_file(batches: &[&[(i64, Option<i64>)]], order: &[&str]) -> bool {
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("rank"), field("x")]));
        let order: Vec<String> = order.iter().map(ToString::to_string).collect();
        let mut writer = SpillWriter::new(&schema, &order).unwrap();
        for rows in batches {
            let ranks: Int64Array = rows.iter().map(|(rank, _)| Some(*rank)).collect();
            let values: Int64Array = rows.iter().map(|(_, x)| *x).collect();
            let columns: Vec<ArrayRef> = vec![Arc::new(ranks), Arc::new(values)];
            writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()).unwrap();
        }
        let StoredRows::Spilled(rows) = writer.finish().unwrap() else { unreachable!() };
        !rows.order.is_empty()
    }

    #[test]
    fn returned_rows_give_up_reserved_memory() {
        let mut values = Vec::with_capacity(32_768);
        values.extend(0..100_i64);
        let reserved = Int64Array::new(values.into(), None);
        let shared = reserved.clone();
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let rows = |column: Int64Array| {
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(column)]).unwrap();
            let rows = Rows::returned(Arc::clone(&schema), vec![batch]).unwrap();
            (rows.batches[0].get_array_memory_size(), rows.batches[0].num_rows())
        };
        // What a table owns too stays as it is.
        assert!(rows(reserved).0 > 32_768 * 8);
        let (bytes, count) = rows(shared);
        assert!(bytes < 2_000, "{bytes} bytes");
        assert_eq!(count, 100);
        // Rows without columns are counted, too.
        let options = RecordBatchOptions::new().with_row_count(Some(3));
        let empty = Arc::new(Schema::empty());
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&empty), vec![], &options).unwrap();
        assert_eq!(Rows::returned(empty, vec![batch]).unwrap().batches[0].num_rows(), 3);
    }

    #[test]
    fn spilled_rows_are_sorted_only_if_all_batches_are() {
        let by_both = ["rank", "x"];
        let (a, b) = (&[(0, Some(1)), (0, None)][..], &[(1, Some(0)), (1, Some(0))][..]);
        assert!(is_sorted_in_file(&[a, &[], b], &by_both));
        assert!(is_sorted_in_file(&[b, b], &["rank"]));
        // Within a batch, between batches, nulls first, without an order, by a column that is missing.
        assert!(!is_sorted_in_file(&[&[(1, Some(2)), (1, Some(1))]], &by_both));
        assert!(!is_sorted_in_file(&[b, a], &by_both));
        assert!(!is_sorted_in_file(&[&[(0, None), (0, Some(1))]], &by_both));
        assert!(!is_sorted_in_file(&[a, b], &[]));
        assert!(!is_sorted_in_file(&[a, b], &["rank", "y"]));
    }
}
