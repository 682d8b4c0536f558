//! The rows of a query, sorted by rank, as plain columns.

use std::ops::Range;

use arrow::array::{Array, AsArray, Float64Array, Int64Array, LargeStringArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema};
use std::sync::Arc;

use crate::error::Error;
use crate::pipeline::Run;

/// Rows of all ranks.
#[derive(Debug)]
pub(super) struct Rows(RecordBatch);

impl Rows {
    /// Runs a query whose first column is `rank`, and whose rows are sorted by it.
    pub(super) fn query(run: &Run, sql: &str) -> Result<Self, Error> {
        let batches = run.sql(sql)?;
        let plain: Vec<RecordBatch> = batches.iter().map(plain).collect();
        let batch = concat_batches(&plain[0].schema(), &plain)
            .expect("the batches of a query have one schema");
        Ok(Self(batch))
    }

    /// The rows of one rank.
    pub(super) fn of(&self, rank: i32) -> Range<usize> {
        let ranks = self.ints("rank").values();
        let rank = i64::from(rank);
        ranks.partition_point(|&r| r < rank)..ranks.partition_point(|&r| r <= rank)
    }

    /// A column of integers.
    pub(super) fn ints(&self, name: &str) -> &Int64Array {
        self.column(name).as_primitive::<Int64Type>()
    }

    /// A column of floats.
    pub(super) fn floats(&self, name: &str) -> &Float64Array {
        self.column(name).as_primitive::<Float64Type>()
    }

    /// A column of texts.
    pub(super) fn texts(&self, name: &str) -> &LargeStringArray {
        self.column(name).as_string::<i64>()
    }

    fn column(&self, name: &str) -> &dyn Array {
        self.0.column_by_name(name).expect("a column of the query")
    }
}

/// Converts to 64-bit integers, 64-bit floats, or text for all other types.
fn plain(batch: &RecordBatch) -> RecordBatch {
    let (fields, columns): (Vec<Field>, Vec<_>) = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let to = match field.data_type() {
                t if t.is_integer() => DataType::Int64,
                t if t.is_floating() => DataType::Float64,
                _ => DataType::LargeUtf8,
            };
            let column = cast(column, &to).expect("numbers widen, and anything prints");
            (Field::new(field.name(), to, true), column)
        })
        .unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("as many rows as before")
}

/// The text of a row; empty if there is none.
pub(super) fn text(column: &LargeStringArray, row: usize) -> &str {
    if column.is_valid(row) { column.value(row) } else { "" }
}
