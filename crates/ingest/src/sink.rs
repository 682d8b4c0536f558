//! Arrow batches as Parquet.

use std::io::Write;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use trace_model::RecordBatch;

/// Writes batches of one schema as one Parquet file (zstd, statistics, dictionaries). The batches'
/// schema metadata, with the documentation of tables and columns, is kept.
///
/// # Errors
/// If the schema has a type that Parquet does not, or writing fails.
pub fn write_parquet<W: Write + Send>(
    batches: &[RecordBatch],
    schema: &std::sync::Arc<trace_model::Schema>,
    writer: W,
) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let mut file = ArrowWriter::try_new(writer, schema.clone(), Some(properties))?;
    for batch in batches {
        file.write(batch)?;
    }
    file.close()?;
    Ok(())
}
