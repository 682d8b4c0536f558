//! One file of Parquet, opened and verified.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use flate2::CrcReader;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use trace_model::{Schema, TableSpec};

use super::checksum::crc32;
use super::manifest::Partition;
use super::writer::ROWS_PER_GROUP;
use crate::input::storage::File;

/// Rows per batch of a scan.
const BATCH_ROWS: usize = 32 << 10;

/// Reasons for which the rows of a partition cannot be read.
#[derive(Debug)]
pub(crate) enum PartitionProblem {
    /// The file is missing, or is not what was written.
    Damaged(String),
    /// The file cannot be read.
    Unreadable(io::Error),
}

/// A partition whose footer was read.
pub(crate) struct PartitionFile {
    input: Input,
    metadata: ArrowReaderMetadata,
}

impl PartitionFile {
    /// Opens the file of a partition, and verifies that its content is what was written, unless `is_checked`. `spec` is
    /// the table of its rows, unless they are those of a view.
    pub(crate) fn open(
        file: &File,
        partition: &Partition,
        spec: Option<&TableSpec>,
        is_checked: &AtomicBool,
    ) -> Result<Self, PartitionProblem> {
        let damaged = PartitionProblem::Damaged;
        let read_error = |e: io::Error| match e.kind() {
            io::ErrorKind::NotFound => damaged("the file is missing".to_owned()),
            _ => PartitionProblem::Unreadable(e),
        };
        let bytes = file.bytes().map_err(read_error)?;
        if bytes != partition.bytes {
            return Err(damaged(format!("it has {bytes} bytes, not {}", partition.bytes)));
        }
        let input = Input::of(file, bytes).map_err(read_error)?;
        if !is_checked.load(Ordering::Relaxed) {
            let crc32 = input.crc32().map_err(read_error)?;
            if crc32 != partition.crc32 {
                return Err(damaged("its content has changed since it was written".to_owned()));
            }
            is_checked.store(true, Ordering::Relaxed);
        }
        let content = Self::new(input, spec).map_err(|e| damaged(e.to_string()))?;
        let rows = content.metadata.metadata().file_metadata().num_rows();
        if u64::try_from(rows) != Ok(partition.rows) {
            return Err(damaged(format!("it has {rows} rows, not {}", partition.rows)));
        }
        if content.rows_in(0..content.groups()) != Some(partition.rows) {
            return Err(damaged("its row groups do not hold all of its rows".to_owned()));
        }
        Ok(content)
    }

    fn new(input: Input, spec: Option<&TableSpec>) -> Result<Self, ParquetError> {
        let options = ArrowReaderOptions::default();
        let metadata = match &input {
            Input::Local(path) => ArrowReaderMetadata::load(&fs::File::open(path)?, options),
            Input::InMemory(bytes) => ArrowReaderMetadata::load(bytes, options),
        }?;
        if let Some(spec) = spec
            && !is_of(metadata.schema(), spec)
        {
            let message = format!("its columns are not those of {}", spec.name);
            return Err(ParquetError::General(message));
        }
        let mut groups = metadata.metadata().row_groups().iter().map(RowGroupMetaData::num_rows);
        if !groups.all(|rows| (0..=ROWS_PER_GROUP as i64).contains(&rows)) {
            let message = "its row groups are longer than those that are written".to_owned();
            return Err(ParquetError::General(message));
        }
        Ok(Self { input, metadata })
    }

    /// The schema of its rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Number of row groups.
    pub(crate) fn groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Number of rows in some row groups; `None` if the file does not have them.
    pub(crate) fn rows_in(&self, groups: Range<usize>) -> Option<u64> {
        let groups = self.metadata.metadata().row_groups().get(groups)?;
        Some(groups.iter().map(|group| group.num_rows() as u64).sum())
    }

    /// Bytes that it takes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let content = match &self.input {
            Input::Local(_) => 0,
            Input::InMemory(bytes) => bytes.len(),
        };
        content + self.metadata.metadata().memory_size()
    }

    /// Reads columns of one row group at once, or of all piece by piece.
    pub(crate) fn rows(
        &self,
        columns: &[usize],
        group: Option<usize>,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        match group {
            Some(group) => {
                let rows = self.metadata.metadata().row_group(group).num_rows() as usize;
                self.read(columns, group..group + 1, rows)
            }
            None => self.rows_of(columns, 0..self.groups()),
        }
    }

    /// Reads columns of some row groups piece by piece.
    pub(crate) fn rows_of(
        &self,
        columns: &[usize],
        groups: Range<usize>,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        // The reader makes room for a whole batch.
        let rows = self.rows_in(groups.clone()).and_then(|rows| usize::try_from(rows).ok());
        self.read(columns, groups, rows.map_or(BATCH_ROWS, |rows| rows.min(BATCH_ROWS)))
    }

    fn read(
        &self,
        columns: &[usize],
        groups: Range<usize>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        match &self.input {
            // Handles of one file share their position: each reader has its own.
            Input::Local(path) => {
                self.read_from(fs::File::open(path)?, columns, groups, batch_rows)
            }
            Input::InMemory(bytes) => self.read_from(bytes.clone(), columns, groups, batch_rows),
        }
    }

    fn read_from<T: ChunkReader + 'static>(
        &self,
        input: T,
        columns: &[usize],
        groups: Range<usize>,
        batch_rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let descriptor = self.metadata.metadata().file_metadata().schema_descr();
        let mask = ProjectionMask::roots(descriptor, columns.iter().copied());
        ParquetRecordBatchReaderBuilder::new_with_metadata(input, self.metadata.clone())
            .with_projection(mask)
            .with_row_groups(groups.collect())
            .with_batch_size(batch_rows)
            .build()
    }
}

/// Returns whether a file has the columns of a table.
fn is_of(schema: &Schema, spec: &TableSpec) -> bool {
    let fields = schema.fields();
    fields.len() == spec.columns.len()
        && fields.iter().zip(spec.columns).all(|(field, column)| {
            field.name() == column.name && *field.data_type() == column.column_type.arrow()
        })
}

/// Shorter files are read at once: Parquet reads each page of each column on its own.
const SMALL_FILE_BYTES: u64 = 4 << 20;

/// The bytes of a partition: on the disk, or in memory.
enum Input {
    Local(PathBuf),
    InMemory(Bytes),
}

impl Input {
    fn of(file: &File, bytes: u64) -> io::Result<Self> {
        Ok(match file.path() {
            Some(path) if bytes > SMALL_FILE_BYTES => Self::Local(path.to_owned()),
            _ => Self::InMemory(file.read()?.into()),
        })
    }

    fn crc32(&self) -> io::Result<u32> {
        match self {
            Self::InMemory(bytes) => Ok(crc32(bytes)),
            Self::Local(path) => {
                let file = io::BufReader::with_capacity(1 << 18, fs::File::open(path)?);
                let mut file = CrcReader::new(file);
                io::copy(&mut file, &mut io::sink())?;
                Ok(file.crc().sum())
            }
        }
    }
}
