//! Rows that are computed once and read by several queries: in memory, or spilled to a temporary file.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{SortExpr, ident};
use tempfile::{NamedTempFile, TempPath};
use trace_model::{Batches, Partition, RecordBatch, ScanError, TableSource};

use crate::scan::ScannedTable;
use crate::storage::TableStorage;

/// Rows in memory, in their order.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

impl Rows {
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

    /// Keeps the rows where rows over tables of this storage are kept.
    pub(crate) fn store(self, storage: TableStorage) -> Result<StoredRows> {
        match storage {
            TableStorage::Memory => Ok(StoredRows::Memory(self)),
            TableStorage::Streamed => {
                let mut writer = SpillWriter::new(&self.schema)?;
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
        match self {
            Self::Memory(rows) => rows.batches.iter().all(|batch| batch.num_rows() == 0),
            Self::Spilled(rows) => rows.partition.rows == 0,
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
                Arc::new(ScannedTable::new(Arc::clone(rows) as _, "", Arc::clone(&rows.schema), 1))
            }
        })
    }

    /// All rows, in the order in which they were stored.
    pub(crate) fn collect(&self) -> Result<Rows> {
        match self {
            Self::Memory(rows) => Ok(rows.clone()),
            Self::Spilled(rows) => {
                let all: Vec<usize> = (0..rows.schema.fields().len()).collect();
                let batches = rows.scan("", 0, &all).map_err(DataFusionError::External)?;
                let batches: Result<_, ScanError> = batches.collect();
                let batches = batches.map_err(DataFusionError::External)?;
                Ok(Rows { schema: Arc::clone(&rows.schema), batches })
            }
        }
    }
}

/// A schema of the same columns, all of which may have nulls.
pub(crate) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Fields>()))
}

/// Sort by these columns, ascending, nulls last.
pub(crate) fn ascending(order: &[String]) -> Vec<SortExpr> {
    order.iter().map(|column| ident(column).sort(true, false)).collect()
}

/// Rows in a temporary file that lives as long as this value.
#[derive(Debug)]
pub(crate) struct SpilledRows {
    schema: SchemaRef,
    path: TempPath,
    partition: Partition,
}

/// Writes rows to a temporary file.
pub(crate) struct SpillWriter {
    schema: SchemaRef,
    file: StreamWriter<BufWriter<NamedTempFile>>,
    partition: Partition,
}

impl SpillWriter {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        // Rank groups may differ in whether a column has nulls: Rust views derive that from their rows.
        let schema = nullable(schema);
        let file = BufWriter::new(NamedTempFile::with_prefix("advisor-")?);
        let partition = Partition { rank: None, rows: 0, bytes: 0 };
        Ok(Self { file: StreamWriter::try_new(file, &schema)?, schema, partition })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        self.partition.rows += batch.num_rows();
        self.partition.bytes += batch.get_array_memory_size() as u64;
        Ok(self.file.write(&batch)?)
    }

    pub(crate) fn finish(mut self) -> Result<StoredRows> {
        self.file.finish()?;
        let mut file = self.file.into_inner()?;
        file.flush()?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let path = file.into_temp_path();
        let rows = SpilledRows { schema: self.schema, path, partition: self.partition };
        Ok(StoredRows::Spilled(Arc::new(rows)))
    }
}

impl TableSource for SpilledRows {
    fn partitions(&self, _: &str) -> Vec<Partition> {
        vec![self.partition]
    }

    fn scan(&self, _: &str, _: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let file = BufReader::new(File::open(&self.path)?);
        let rows = StreamReader::try_new(file, Some(columns.to_vec()))?;
        Ok(Box::new(rows.map(|batch| batch.map_err(ScanError::from))))
    }
}
