//! Columns of a batch as the plain types that algorithms and selections work on.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use trace_model::RecordBatch;

/// An integer column of any width.
pub(crate) fn ints(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    Ok(cast(column(batch, name)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// A column of numbers of any kind.
pub(crate) fn floats(batch: &RecordBatch, name: &str) -> Result<Float64Array> {
    Ok(cast(column(batch, name)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// The number in a row, if there is one.
pub(crate) fn get(array: &Int64Array, row: usize) -> Option<i64> {
    array.is_valid(row).then(|| array.value(row))
}

/// A column of names, each distinct text once.
pub(crate) fn names(batch: &RecordBatch, name: &str) -> Result<Names> {
    let column = column(batch, name)?;
    let to = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let array = cast(column, &to)?;
    let array = array.as_dictionary::<Int32Type>();
    let values = array.values().as_string::<i32>();
    // A dictionary may hold a text twice, after batches were joined.
    let mut texts: Vec<String> = Vec::new();
    let mut known: HashMap<&str, u32> = HashMap::new();
    let canonical: Vec<u32> = (0..values.len())
        .map(|i| {
            let text = if values.is_null(i) { "" } else { values.value(i) };
            *known.entry(text).or_insert_with(|| {
                texts.push(text.to_owned());
                (texts.len() - 1) as u32
            })
        })
        .collect();
    let keys = array.keys();
    let ids = (0..array.len())
        .map(
            |row| if keys.is_null(row) { Names::NONE } else { canonical[keys.value(row) as usize] },
        )
        .collect();
    Ok(Names { ids, texts })
}

/// A column of names: a row holds the index of its text. Equal texts have equal indices.
#[derive(Debug)]
pub(crate) struct Names {
    /// Index into `texts`, or [`Names::NONE`].
    pub(crate) ids: Vec<u32>,
    /// Each text once.
    pub(crate) texts: Vec<String>,
}

impl Names {
    /// Where a row has no name.
    pub(crate) const NONE: u32 = u32::MAX;

    /// The name in a row.
    pub(crate) fn get(&self, row: usize) -> Option<&str> {
        self.texts.get(self.ids[row] as usize).map(String::as_str)
    }
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| exec_datafusion_err!("there is no column {name}"))
}
