//! The answer to a query of a page that is served.

use serde::Serialize;
use serde_json::Value as Json;
use trace_advisor::Error;
use trace_advisor::query::{FirstRows, query_table};
use trace_advisor::trace_model::{RecordBatch, Value};

use crate::blocks::{Table, TableColumn, cell, unit_shown};
use crate::clean::{json, short};

/// Rows that a page shows of a query.
pub const MAX_ANSWER_ROWS: usize = 1_000;

/// Rows of a batch that are converted at once.
const SLICE_ROWS: usize = 16;

/// The largest integer up to which the numbers of JavaScript are exact.
const MAX_SCRIPT_INTEGER: u64 = 1 << 53;

/// Maximum bytes of the values of an answer: a query may have thousands of columns.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// The answer as the script reads it: a table as those of panes, or what is wrong with the query.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer<'a> {
    Table(Table),
    Error(&'a str),
}

/// The rows of a query, as JSON for the page.
///
/// # Errors
/// If a column has a type that no text stands for.
pub fn answer(sql: &str, rows: &FirstRows) -> Result<String, Error> {
    let batch_of_names: Vec<RecordBatch> =
        rows.batches.first().map(|batch| batch.slice(0, 0)).into_iter().collect();
    let columns = query_table("query", &batch_of_names)?.columns;
    let columns = columns.iter().map(|(name, unit)| TableColumn {
        label: short(name),
        unit: unit_shown(name, unit.as_str()),
        doc: String::new(),
        is_change: false,
    });
    let count: usize = rows.batches.iter().map(RecordBatch::num_rows).sum();
    let mut bytes = 0;
    let mut shown: Vec<Vec<Json>> = Vec::new();
    // A few rows are converted at a time, because a batch may hold a long text once for all of its rows.
    'rows: for slice in rows.batches.iter().flat_map(slices) {
        for row in query_table("query", &[slice])?.rows {
            let row: Vec<Json> = row.iter().map(exact).collect();
            bytes += row.iter().map(value_bytes).sum::<usize>();
            if bytes > MAX_ANSWER_BYTES {
                break 'rows;
            }
            shown.push(row);
        }
    }
    let table = Table {
        title: "Rows of the query".to_owned(),
        columns: columns.collect(),
        total: shown.len(),
        is_cut: rows.is_cut || shown.len() < count,
        rows: shown,
        sql: sql.to_owned(),
    };
    Ok(json(&Answer::Table(table)))
}

/// What is wrong with a query, as JSON for the page.
pub fn answer_of_error(message: &str) -> String {
    json(&Answer::Error(message))
}

/// A batch in slices of [`SLICE_ROWS`] rows.
fn slices(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let starts = (0..batch.num_rows()).step_by(SLICE_ROWS);
    starts.map(|start| batch.slice(start, SLICE_ROWS.min(batch.num_rows() - start)))
}

/// A value as it is: numbers with all digits, also integers that a script cannot hold.
fn exact(value: &Value) -> Json {
    match value {
        Value::Int(number) if number.unsigned_abs() > MAX_SCRIPT_INTEGER => {
            Json::from(number.to_string())
        }
        Value::Float(number) => Json::from(*number),
        value => cell(value),
    }
}

/// About as many bytes as a value has in JSON.
fn value_bytes(value: &Json) -> usize {
    value.as_str().map_or(8, str::len) + 3
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value as Json, json};
    use trace_advisor::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
    use trace_advisor::query::FirstRows;
    use trace_advisor::trace_model::RecordBatch;

    use super::{MAX_ANSWER_BYTES, answer, answer_of_error};

    fn answered(columns: Vec<(&str, ArrayRef)>, is_cut: bool) -> Json {
        let batches = vec![RecordBatch::try_from_iter(columns).unwrap()];
        let text = answer("SELECT 1", &FirstRows { batches, is_cut }).unwrap();
        serde_json::from_str::<Json>(&text).unwrap()["table"].take()
    }

    #[test]
    fn answer_has_units_and_says_that_it_is_cut() {
        let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a</script>\u{202e}"), None]));
        let times: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
        let table = answered(vec![("name", Arc::clone(&names)), ("dur_ns", times)], true);
        assert_eq!(table["columns"][1]["unit"], "ns");
        assert_eq!(table["rows"], json!([["a</script>\u{fffd}", 7], [null, 8]]));
        assert_eq!((&table["total"], &table["is_cut"]), (&json!(2), &json!(true)));
        assert_eq!(answered(vec![("name", names)], false)["is_cut"], Json::Null);
        assert_eq!(answer_of_error("<b>"), r#"{"error":"\u003cb\u003e"}"#);
    }

    #[test]
    fn answer_has_all_digits() {
        let times: ArrayRef = Arc::new(Int64Array::from(vec![1_763_395_776_108_000_001, 1 << 53]));
        let shares: ArrayRef = Arc::new(Float64Array::from(vec![123_456_789.25, 0.0012]));
        let table = answered(vec![("at", times), ("share", shares)], false);
        let expected =
            json!([["1763395776108000001", 123_456_789.25], [9_007_199_254_740_992_u64, 0.0012]]);
        assert_eq!(table["rows"], expected);
    }

    #[test]
    fn answer_has_a_limited_length() {
        let text = "x".repeat(200);
        let column: ArrayRef = Arc::new(StringArray::from(vec![text.as_str(); 1000]));
        let names: Vec<String> = (0..100).map(|i| format!("c{i}")).collect();
        let columns = names.iter().map(|name| (name.as_str(), Arc::clone(&column))).collect();
        let table = answered(columns, false);
        let rows = table["rows"].as_array().unwrap().len();
        assert!(rows > 100 && rows * 100 * 200 <= MAX_ANSWER_BYTES, "{rows}");
        assert_eq!(table["is_cut"], true);
    }
}
