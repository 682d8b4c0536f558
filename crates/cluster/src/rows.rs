//! The rows that a job returns: one for each shard.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::error::ArrowError;
use trace_advisor::ingest::MapSummary;

/// The result of mapping one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRow {
    /// Number of the shard, from 1.
    pub shard: u32,
    /// Summary of its traces.
    pub summary: MapSummary,
}

const COLUMNS: [&str; 7] =
    ["shard", "files", "known_files", "left_files", "groups", "json_bytes", "bytes"];

impl ShardRow {
    pub(crate) fn schema() -> SchemaRef {
        let field = |name| Field::new(name, DataType::UInt64, false);
        Arc::new(Schema::new(COLUMNS.map(field).to_vec()))
    }

    fn values(&self) -> [u64; COLUMNS.len()] {
        let MapSummary { files, known_files, left_files, groups, json_bytes, bytes } = self.summary;
        let [files, known_files, left_files, groups] =
            [files, known_files, left_files, groups].map(|count| count as u64);
        [self.shard.into(), files, known_files, left_files, groups, json_bytes, bytes]
    }

    pub(crate) fn batch(rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        let column = |at: usize| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.values()[at])))
        };
        RecordBatch::try_new(Self::schema(), (0..COLUMNS.len()).map(column).collect())
    }

    /// The rows of a batch; `None` if they are something else.
    pub(crate) fn rows(batch: &RecordBatch) -> Option<Vec<Self>> {
        let columns: Vec<_> = COLUMNS
            .iter()
            .map(|name| batch.column_by_name(name)?.as_primitive_opt::<UInt64Type>())
            .collect::<Option<_>>()?;
        let row = |at: usize| {
            let value = |column: usize| columns[column].value(at);
            let summary = MapSummary {
                files: value(1) as usize,
                known_files: value(2) as usize,
                left_files: value(3) as usize,
                groups: value(4) as usize,
                json_bytes: value(5),
                bytes: value(6),
            };
            Some(Self { shard: value(0).try_into().ok()?, summary })
        };
        (0..batch.num_rows()).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use trace_advisor::ingest::MapSummary;

    use super::ShardRow;

    #[test]
    fn rows_reads_what_batch_writes() {
        let summary = MapSummary {
            files: 1,
            known_files: 2,
            left_files: 3,
            groups: 4,
            json_bytes: 5,
            bytes: u64::MAX,
        };
        let rows = [3, 1].map(|shard| ShardRow { shard, summary });
        assert_eq!(ShardRow::rows(&ShardRow::batch(&rows).unwrap()).unwrap(), rows);
    }
}
