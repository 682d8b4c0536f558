//! Converts Arrow batches to the values that rules evaluate.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use trace_model::{MetricTable, RecordBatch, Unit, Value};

use crate::error::{Error, Result};
use crate::view::ViewDef;

/// The rows of a view as a metric table.
pub(crate) fn from_batches(view: &ViewDef, batches: &[RecordBatch]) -> Result<MetricTable> {
    Ok(MetricTable {
        view: view.name.clone(),
        columns: view.units(),
        rows: rows_to_values(&view.name, batches)?,
        when_empty: view.when_empty.clone(),
    })
}

/// The rows of a query, which has at least one batch, as a table of this name. The names of columns state their units.
///
/// Integers and floats of every width, decimals, booleans and strings keep their meaning; other types
/// (timestamps, lists, ...) become text as Arrow prints it. Floats that are not finite become
/// [`Value::Null`], so that a rule never compares with one.
///
/// # Errors
/// [`Error::ColumnType`] for a type that has no text form.
pub fn query_table(name: &str, batches: &[RecordBatch]) -> Result<MetricTable> {
    let schema = batches.first().map(RecordBatch::schema);
    let names = schema.iter().flat_map(|schema| schema.fields()).map(|field| field.name());
    Ok(MetricTable {
        view: name.to_owned(),
        columns: names.map(|name| (name.clone(), Unit::of_undeclared(name))).collect(),
        rows: rows_to_values(name, batches)?,
        when_empty: "its query returned no rows".to_owned(),
    })
}

/// The rows of `batches` as values, in order. `view` is the name of their source in errors.
fn rows_to_values(view: &str, batches: &[RecordBatch]) -> Result<Vec<Vec<Value>>> {
    let count = batches.iter().map(RecordBatch::num_rows).sum();
    let mut rows: Vec<Vec<Value>> = Vec::with_capacity(count);
    for batch in batches {
        let first = rows.len();
        let width = batch.num_columns();
        rows.resize_with(first + batch.num_rows(), || Vec::with_capacity(width));
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let array = to_basic_type(array).ok_or_else(|| Error::ColumnType {
                view: view.to_owned(),
                column: field.name().clone(),
                data_type: array.data_type().to_string(),
            })?;
            for (i, row) in rows[first..].iter_mut().enumerate() {
                row.push(value(&array, i));
            }
        }
    }
    Ok(rows)
}

/// The array as one of the types that [`value`] reads.
fn to_basic_type(array: &ArrayRef) -> Option<ArrayRef> {
    let to = match array.data_type() {
        DataType::Boolean
        | DataType::Int64
        | DataType::Float64
        | DataType::Utf8
        | DataType::Null => {
            return Some(ArrayRef::clone(array));
        }
        DataType::Dictionary(_, values) if values.is_integer() => DataType::Int64,
        DataType::Dictionary(_, values) if values.is_floating() => DataType::Float64,
        t if t.is_integer() => DataType::Int64,
        t if t.is_floating() || t.is_decimal() => DataType::Float64,
        _ => DataType::Utf8,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, Date32Array, Decimal128Array, Float64Array, UInt16Array,
    };
    use trace_model::{RecordBatch, Unit, Value};

    use super::query_table;

    #[test]
    fn query_table_keeps_numbers_and_writes_other_types_as_text() {
        let decimal = Decimal128Array::from(vec![1_250]).with_precision_and_scale(6, 3).unwrap();
        let columns: [(&str, ArrayRef); 4] = [
            ("integer", Arc::new(UInt16Array::from(vec![7]))),
            ("decimal", Arc::new(decimal)),
            ("infinite", Arc::new(Float64Array::from(vec![f64::INFINITY]))),
            ("day_count", Arc::new(Date32Array::from(vec![0]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let text = Value::Text("1970-01-01".to_owned());
        let expected = vec![vec![Value::Int(7), Value::Float(1.25), Value::Null, text]];
        let table = query_table("query", &[batch]).unwrap();
        assert_eq!(table.rows, expected);
        assert_eq!(table.columns[3], ("day_count".to_owned(), Unit::Count));
    }
}
