//! Arrow batches as Parquet.

use std::io::Write;

use arrow_schema::{DataType, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use trace_model::RecordBatch;

/// Rows of a row group: what a reader has in memory at least, and the smallest stretch that it can leave out.
pub(crate) const ROWS_A_GROUP: usize = 256 << 10;

/// Shorter files are compressed with LZ4, which needs no context: making one of zstd's for each column, written or read, takes
/// longer than the rest. Runs of a thousand ranks have such files by the ten thousands.
const ROWS_WORTH_ZSTD: usize = 16 << 10;

/// How files of so many rows are written: zstd or LZ4, statistics of each row group, numbers as differences, names as dictionaries.
/// `sorted_by` is the column whose values ascend from the first row to the last, if there is one.
pub(crate) fn properties(
    schema: &Schema,
    sorted_by: Option<usize>,
    rows: usize,
) -> WriterProperties {
    let compression = match rows {
        0..ROWS_WORTH_ZSTD => Compression::LZ4_RAW,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let sorted_by = sorted_by.map(|column| {
        vec![SortingColumn { column_idx: column as i32, descending: false, nulls_first: false }]
    });
    let mut properties = WriterProperties::builder()
        .set_compression(compression)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROWS_A_GROUP))
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
