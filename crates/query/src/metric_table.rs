//! Converts rows of a view to the values that rules compare.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use trace_model::{MetricTable, RecordBatch, Value};

use crate::error::{Error, Result};
use crate::view::ViewDef;

/// The rows of a view as values. Floats that are not a number become absent, so that no rule
/// ever compares with one.
pub(crate) fn from_batches(view: &ViewDef, batches: &[RecordBatch]) -> Result<MetricTable> {
    let columns = view.units();
    let count = batches.iter().map(RecordBatch::num_rows).sum();
    let mut rows: Vec<Vec<Value>> = Vec::with_capacity(count);
    for batch in batches {
        let first = rows.len();
        rows.resize_with(first + batch.num_rows(), || Vec::with_capacity(columns.len()));
        for ((name, _), array) in columns.iter().zip(batch.columns()) {
            let array = simple(array).ok_or_else(|| Error::ColumnType {
                view: view.name.clone(),
                column: name.clone(),
                data_type: array.data_type().to_string(),
            })?;
            for (i, row) in rows[first..].iter_mut().enumerate() {
                row.push(value(&array, i));
            }
        }
    }
    Ok(MetricTable { view: view.name.clone(), columns, rows, when_empty: view.when_empty.clone() })
}

/// The array as one of the few types that values are read from.
fn simple(array: &ArrayRef) -> Option<ArrayRef> {
    let to = match array.data_type() {
        DataType::Boolean
        | DataType::Int64
        | DataType::Float64
        | DataType::Utf8
        | DataType::Null => {
            return Some(ArrayRef::clone(array));
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64 => DataType::Int64,
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Dictionary(_, values)
            if matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
        {
            DataType::Utf8
        }
        _ => return None,
    };
    cast(array, &to).ok()
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => {
            let v = array.as_primitive::<Float64Type>().value(row);
            if v.is_finite() { Value::Float(v) } else { Value::Null }
        }
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        _ => Value::Null,
    }
}
