//! Rows of queries as values that tests compare.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_advisor::Run;
use trace_advisor::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};
use trace_advisor::arrow::util::display::{ArrayFormatter, FormatOptions};

/// One row: values by column; numbers as floats, all else as text.
pub(crate) type Row = BTreeMap<String, Json>;

/// The rows of a query.
pub(crate) fn rows(run: &Run, query: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in &run.sql(query).expect("a query that runs") {
        let schema = batch.schema();
        let printed = |column: &ArrayRef| {
            let is_number = column.data_type().is_numeric();
            let wanted = if is_number { DataType::Float64 } else { DataType::Utf8 };
            cast(column, &wanted).expect("a number, or printable")
        };
        let columns: Vec<ArrayRef> = batch.columns().iter().map(printed).collect();
        for i in 0..batch.num_rows() {
            let value = |column: &ArrayRef| -> Json {
                if column.is_null(i) {
                    return Json::Null;
                }
                match column.as_primitive_opt::<Float64Type>() {
                    Some(numbers) => numbers.value(i).into(),
                    None => column.as_string::<i32>().value(i).into(),
                }
            };
            let names = schema.fields().iter().map(|f| f.name().clone());
            rows.push(names.zip(columns.iter().map(value)).collect());
        }
    }
    rows
}

/// Rows as numbers; nulls are NaN.
pub(crate) fn numbers(batches: &[RecordBatch]) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| cast(c, &DataType::Float64).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| {
                let column = column.as_primitive::<Float64Type>();
                if column.is_null(row) { f64::NAN } else { column.value(row) }
            };
            rows.push(columns.iter().map(value).collect());
        }
    }
    rows
}

/// The first value of the only column; NaN if it is null.
pub(crate) fn number(batches: &[RecordBatch]) -> f64 {
    let rows = numbers(batches);
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "one value");
    rows[0][0]
}

/// Rows as text: one line per row, cells separated by spaces, nulls as `-`.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| cast(c, &DataType::Utf8).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|c| {
                let c = c.as_string::<i32>();
                if c.is_null(row) { "-" } else { c.value(row) }
            });
            lines.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    lines
}

/// The rows of a query as text, with a space between values; nulls are `-`.
pub(crate) fn text_rows(run: &Run, query: &str) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in run.sql(query).expect("a query that runs") {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("printable"))
            .collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            rows.push(values.join(" "));
        }
    }
    rows
}
