//! Columns of query results as plain arrays, with errors of queries.

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use query::{Error, Result};
use trace_model::RecordBatch;

/// A column, cast to a type.
pub(super) fn column(batch: &RecordBatch, name: &str, to: &DataType) -> Result<ArrayRef> {
    let array = batch.column_by_name(name).ok_or_else(|| {
        Error::Engine(query::view_error!("the result has no column `{name}`").into())
    })?;
    cast(array, to).map_err(|e| Error::Engine(e.into()))
}

/// A column as integers.
pub(super) fn ints(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    Ok(column(batch, name, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// A column as floats.
pub(super) fn floats(batch: &RecordBatch, name: &str) -> Result<Float64Array> {
    Ok(column(batch, name, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// A column as texts.
pub(super) fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    Ok(column(batch, name, &DataType::Utf8)?.as_string::<i32>().clone())
}
