//! Writes Arrow batches as Parquet.

use std::io::Write;
use std::ops::Range;

use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use trace_model::RecordBatch;

/// Rows per row group: the minimum that a reader holds in memory, and the smallest unit that it can skip.
pub(crate) const ROWS_PER_GROUP: usize = 256 << 10;

/// Shorter files are compressed with LZ4, which needs no context: creating a zstd context for each column takes longer
/// than the rest of reading or writing. Runs of a thousand ranks have tens of thousands of such files.
const MIN_ROWS_FOR_ZSTD: usize = 16 << 10;

/// Writer properties for a file of `rows` rows: zstd or LZ4, statistics per row group, delta encoding of integers,
/// dictionaries of names. `sorted_by` is the column whose values ascend from the first row to the last, if any.
pub(crate) fn properties(
    schema: &Schema,
    sorted_by: Option<usize>,
    rows: usize,
) -> WriterProperties {
    let compression = match rows {
        0..MIN_ROWS_FOR_ZSTD => Compression::LZ4_RAW,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let sorted_by = sorted_by.map(|column| {
        vec![SortingColumn { column_idx: column as i32, descending: false, nulls_first: false }]
    });
    let mut properties = WriterProperties::builder()
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .set_offset_index_disabled(true)
        .set_created_by(concat!("trace-advisor ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_sorting_columns(sorted_by);
    for field in schema.fields() {
        let column = ColumnPath::from(field.name().as_str());
        // Times and ids hardly repeat, but their differences are small.
        if *field.data_type() == DataType::Int64 {
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// Writes batches of one schema as one Parquet file (zstd or, if it is short, LZ4; statistics, dictionaries). The batches'
/// schema metadata, with the documentation of tables and columns, is kept.
///
/// # Errors
/// If the schema has a type that Parquet does not, or writing fails.
pub fn write_parquet<W: Write + Send>(
    batches: &[RecordBatch],
    schema: &std::sync::Arc<trace_model::Schema>,
    writer: W,
) -> Result<(), ParquetError> {
    write_sorted(batches, schema, None, writer)
}

/// As [`write_parquet`], with the batches of each part in row groups of their own. Returns these row groups for each part.
pub(crate) fn write_parts<W: Write + Send>(
    parts: &[&[RecordBatch]],
    schema: &std::sync::Arc<trace_model::Schema>,
    writer: W,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let rows = |part: &&[RecordBatch]| part.iter().map(RecordBatch::num_rows).sum();
    let longest = parts.iter().map(rows).max().unwrap_or_default();
    // Parts are read whole: statistics would take more space than the rows of a short part.
    let properties = properties(schema, None, longest)
        .into_builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let mut file = ArrowWriter::try_new(writer, schema.clone(), Some(properties))?;
    let mut row_groups = Vec::with_capacity(parts.len());
    for part in parts {
        let first = file.flushed_row_groups().len();
        for batch in *part {
            file.write(batch)?;
        }
        file.flush()?;
        row_groups.push(first..file.flushed_row_groups().len());
    }
    file.close()?;
    Ok(row_groups)
}

/// As [`write_parquet`]; see [`properties`].
pub(crate) fn write_sorted<W: Write + Send>(
    batches: &[RecordBatch],
    schema: &std::sync::Arc<trace_model::Schema>,
    sorted_by: Option<usize>,
    writer: W,
) -> Result<(), ParquetError> {
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let properties = properties(schema, sorted_by, rows);
    let mut file = ArrowWriter::try_new(writer, schema.clone(), Some(properties))?;
    for batch in batches {
        file.write(batch)?;
    }
    file.close()?;
    Ok(())
}
