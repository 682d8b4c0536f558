//! The rows of a query, for tests that compare them with JSON.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_advisor::Run;
use trace_advisor::arrow::array::{Array, ArrayRef, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

/// One row: values by column; numbers as floats, all else as text.
pub(crate) type Row = BTreeMap<String, Json>;

/// The rows of a query.
pub(crate) fn rows(run: &Run, query: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in &run.sql(query).expect("a query that runs") {
        let schema = batch.schema();
        for i in 0..batch.num_rows() {
            let value = |column: &ArrayRef| -> Json {
                if column.is_null(i) {
                    return Json::Null;
                }
                if column.data_type().is_numeric() {
                    let column = cast(column, &DataType::Float64).expect("a number");
                    return column.as_primitive::<Float64Type>().value(i).into();
                }
                let column = cast(column, &DataType::Utf8).expect("printable");
                column.as_string::<i32>().value(i).into()
            };
            let names = schema.fields().iter().map(|f| f.name().clone());
            rows.push(names.zip(batch.columns().iter().map(value)).collect());
        }
    }
    rows
}
