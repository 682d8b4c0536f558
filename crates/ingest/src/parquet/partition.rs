//! One file of an export: the rows of a table that come from one timeline, or all rows that do not.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, Int32Array, RecordBatch};
use arrow_schema::SchemaRef;
use flate2::CrcWriter;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use private_files::Access;
use trace_model::{TableSpec, tables};

use super::manifest::Partition;
use super::writer;
use crate::error::Error;

/// Writes rows of one table.
pub(crate) fn write(
    spec: &TableSpec,
    rank: Option<i32>,
    batches: &[RecordBatch],
    path: &Path,
    access: Access,
) -> Result<Partition, Error> {
    let sorted_by = spec.columns.iter().position(|c| c.name == "ts_ns");
    let sorted_by = sorted_by.filter(|&column| is_sorted(batches, column));
    let partition =
        write_batches(spec.name, batches, &Arc::new(spec.schema()), sorted_by, path, access)?;
    Ok(Partition { rank, ..partition })
}

/// Writes rows of a view.
pub(crate) fn write_rows(
    view: &str,
    batches: &[RecordBatch],
    schema: &SchemaRef,
    path: &Path,
    access: Access,
) -> Result<Partition, Error> {
    write_batches(view, batches, schema, None, path, access)
}

/// Writes rows of one table of several traces, each in row groups of its own. Returns these row groups for each trace.
pub(crate) fn write_parts(
    spec: &TableSpec,
    parts: &[&[RecordBatch]],
    path: &Path,
    access: Access,
) -> Result<(Partition, Vec<Range<usize>>), Error> {
    let mut row_groups = Vec::new();
    let (bytes, crc32) = to_file(path, access, |out| {
        row_groups = writer::write_parts(parts, &Arc::new(spec.schema()), out).map_err(io_error)?;
        Ok(())
    })?;
    let (rows, memory_bytes) = size_of(parts.iter().copied().flatten());
    let table = spec.name.to_owned();
    Ok((Partition { table, rank: None, rows, bytes, memory_bytes, crc32 }, row_groups))
}

fn write_batches(
    name: &str,
    batches: &[RecordBatch],
    schema: &SchemaRef,
    sorted_by: Option<usize>,
    path: &Path,
    access: Access,
) -> Result<Partition, Error> {
    let write =
        |out: &mut Out| writer::write_sorted(batches, schema, sorted_by, out).map_err(io_error);
    let (bytes, crc32) = to_file(path, access, write)?;
    let (rows, memory_bytes) = size_of(batches);
    Ok(Partition { table: name.to_owned(), rank: None, rows, bytes, memory_bytes, crc32 })
}

/// Number of rows, and their size in memory.
pub(crate) fn size_of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> (u64, u64) {
    batches.into_iter().fold((0, 0), |(rows, bytes), batch| {
        (rows + batch.num_rows() as u64, bytes + batch.get_array_memory_size() as u64)
    })
}

/// Difference between the final rows of a timeline and those that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) rank: Option<i32>,
    pub(crate) shift_ns: i64,
}

impl Change {
    /// The changed column; `None` if it is unchanged.
    pub(crate) fn apply(
        self,
        spec: &TableSpec,
        column: usize,
        array: &ArrayRef,
    ) -> Option<ArrayRef> {
        if !self.concerns(spec, column) {
            return None;
        }
        if spec.columns[column].is_timestamp() {
            let array = array.as_primitive_opt::<Int64Type>()?;
            return Some(Arc::new(
                array.unary::<_, Int64Type>(|ns| ns.wrapping_add(self.shift_ns)),
            ));
        }
        Some(Arc::new(Int32Array::from(vec![self.rank?; array.len()])))
    }

    fn concerns(self, spec: &TableSpec, column: usize) -> bool {
        let column = &spec.columns[column];
        column.is_timestamp() && self.shift_ns != 0 || self.rank.is_some() && column.name == "rank"
    }
}

/// Moves a partition to its place. Unchanged columns are copied without decoding.
pub(crate) fn place(
    partition: Partition,
    from: &Path,
    to: &Path,
    change: Change,
    access: Access,
) -> Result<Partition, Error> {
    if let Some(folder) = to.parent() {
        access.create_folders(folder).map_err(|e| Error::write(folder, e))?;
    }
    let spec = tables::find(&partition.table);
    let changed = spec.filter(|spec| (0..spec.columns.len()).any(|c| change.concerns(spec, c)));
    let Some(spec) = changed else {
        fs::rename(from, to).map_err(|e| Error::write(to, e))?;
        return Ok(partition);
    };
    let input = File::open(from).map_err(|e| Error::read(from, e))?;
    let write = |out: &mut Out| rewrite(&input, spec, change, out).map_err(io_error);
    let (bytes, crc32) = to_file(to, access, write)?;
    fs::remove_file(from).map_err(|e| Error::write(from, e))?;
    Ok(Partition { bytes, crc32, ..partition })
}

fn rewrite(
    input: &File,
    spec: &TableSpec,
    change: Change,
    out: &mut Out,
) -> Result<(), ParquetError> {
    let metadata = ArrowReaderMetadata::load(input, ArrowReaderOptions::default())?;
    let schema = metadata.schema().clone();
    let written = metadata.metadata().clone();
    let descriptor = written.file_metadata().schema_descr();
    let sorted_by = written.row_groups().first().and_then(|group| group.sorting_columns());
    let sorted_by = sorted_by.and_then(|columns| Some(columns.first()?.column_idx as usize));
    let rows = written.file_metadata().num_rows() as usize;
    let properties = writer::properties(&schema, sorted_by, rows)
        .into_builder()
        .set_key_value_metadata(written.file_metadata().key_value_metadata().cloned())
        .build();
    let root = descriptor.root_schema_ptr();
    let mut file = SerializedFileWriter::new(out, root, Arc::new(properties))?;
    let encoders = ArrowRowGroupWriterFactory::new(&file, schema.clone());
    let is_changed: Vec<bool> = (0..spec.columns.len()).map(|c| change.concerns(spec, c)).collect();
    let changed = is_changed.iter().enumerate().filter(|(_, is)| **is).map(|(column, _)| column);
    let mask = ProjectionMask::roots(descriptor, changed);
    for (number, group) in written.row_groups().iter().enumerate() {
        let rows = ParquetRecordBatchReaderBuilder::new_with_metadata(
            input.try_clone()?,
            metadata.clone(),
        )
        .with_projection(mask.clone())
        .with_row_groups(vec![number])
        .with_batch_size(group.num_rows() as usize)
        .build()?
        .next()
        .transpose()?
        .ok_or_else(|| ParquetError::General("a row group has no rows".to_owned()))?;
        let mut columns = rows.columns().iter();
        let encoders = encoders.create_column_writers(number)?;
        let mut to = file.next_row_group()?;
        for (at, (column, mut encoder)) in group.columns().iter().zip(encoders).enumerate() {
            let array = if is_changed[at] { columns.next() } else { None };
            if let Some(array) = array.and_then(|array| change.apply(spec, at, array)) {
                for leaf in compute_leaves(schema.field(at), &array)? {
                    encoder.write(&leaf)?;
                }
                encoder.close()?.append_to_row_group(&mut to)?;
                continue;
            }
            let as_it_is = ColumnCloseResult {
                bytes_written: column.compressed_size() as u64,
                rows_written: group.num_rows() as u64,
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            to.append_column(input, as_it_is)?;
        }
        to.close()?;
    }
    file.close()?;
    Ok(())
}

/// Returns whether the times of rows ascend.
fn is_sorted(batches: &[RecordBatch], column: usize) -> bool {
    let mut last = i64::MIN;
    batches.iter().all(|batch| {
        let Some(times) = batch.column(column).as_primitive_opt::<Int64Type>() else {
            return false;
        };
        times.null_count() == 0
            && times.values().iter().all(|&ns| std::mem::replace(&mut last, ns) <= ns)
    })
}

/// The rank that all rows of a batch have.
pub(super) fn rank_of(batch: &RecordBatch) -> Option<i32> {
    let ranks = batch.columns().first()?.as_primitive_opt::<Int32Type>()?;
    let (&first, rest) = ranks.values().split_first()?;
    (ranks.null_count() == 0 && rest.iter().all(|&rank| rank == first)).then_some(first)
}

type Out = CrcWriter<BufWriter<File>>;

/// Writes a file. Returns its length and checksum.
fn to_file(
    path: &Path,
    access: Access,
    write: impl FnOnce(&mut Out) -> io::Result<()>,
) -> Result<(u64, u32), Error> {
    let written = || {
        if let Some(folder) = path.parent() {
            access.create_folders(folder)?;
        }
        let file = BufWriter::with_capacity(1 << 18, access.create_file(path)?);
        let mut out = CrcWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        let crc32 = out.crc().sum();
        let file = out.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok((file.metadata()?.len(), crc32))
    };
    written().map_err(|e| Error::write(path, e))
}

/// The I/O error inside a Parquet error, if there is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
