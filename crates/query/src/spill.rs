//! Rows of views in files for temporary ones, which go with the session.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::error::Result;
use tempfile::{NamedTempFile, TempPath};
use trace_model::{Batches, Partition, RecordBatch, ScanError, TableSource};

/// The rows of a view, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Kept {
    schema: SchemaRef,
    path: TempPath,
    partition: Partition,
}

/// The same while they are added.
pub(super) struct Writer {
    schema: SchemaRef,
    file: StreamWriter<BufWriter<NamedTempFile>>,
    partition: Partition,
}

impl Writer {
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        // Whether a column lacks values depends, in native views, on the rows: it is not the same for all ranks.
        let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
        let schema =
            Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Fields>()));
        let file = BufWriter::new(NamedTempFile::with_prefix("advisor-")?);
        let partition = Partition { rank: None, rows: 0, bytes: 0 };
        Ok(Self { file: StreamWriter::try_new(file, &schema)?, schema, partition })
    }

    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        self.partition.rows += batch.num_rows();
        self.partition.bytes += batch.get_array_memory_size() as u64;
        Ok(self.file.write(&batch)?)
    }

    pub(super) fn finish(mut self) -> Result<Kept> {
        self.file.finish()?;
        let mut file = self.file.into_inner()?;
        file.flush()?;
        let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        Ok(Kept { schema: self.schema, path: file.into_temp_path(), partition: self.partition })
    }
}

impl Kept {
    pub(crate) fn is_empty(&self) -> bool {
        self.partition.rows == 0
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl TableSource for Kept {
    fn partitions(&self, _: &str) -> Vec<Partition> {
        vec![self.partition]
    }

    fn scan(&self, _: &str, _: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let file = BufReader::new(File::open(&self.path)?);
        let rows = StreamReader::try_new(file, Some(columns.to_vec()))?;
        Ok(Box::new(rows.map(|batch| batch.map_err(ScanError::from))))
    }
}
