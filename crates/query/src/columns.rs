//! Columns of a batch as plain types, for algorithms and selections.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};
use trace_model::RecordBatch;

use crate::rust_view::Result;
use crate::view_error;

/// An integer column of any width.
pub fn ints(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    Ok(cast(column(batch, name)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// A column of numbers of any kind.
pub fn floats(batch: &RecordBatch, name: &str) -> Result<Float64Array> {
    Ok(cast(column(batch, name)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// A text column.
pub fn texts(batch: &RecordBatch, name: &str) -> Result<StringArray> {
    Ok(cast(column(batch, name)?, &DataType::Utf8)?.as_string::<i32>().clone())
}

/// The value in a row, unless it is null.
pub fn get(array: &Int64Array, row: usize) -> Option<i64> {
    array.is_valid(row).then(|| array.value(row))
}

/// A text column; equal texts have equal indices.
pub fn names(batch: &RecordBatch, name: &str) -> Result<Names> {
    let column = column(batch, name)?;
    let to = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let array = cast(column, &to)?;
    let array = array.as_dictionary::<Int32Type>();
    let values = array.values().as_string::<i32>();
    // The dictionary of concatenated batches may hold a text twice.
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

/// A text column: the index of its text for each row. Equal texts have equal indices.
#[derive(Debug)]
pub struct Names {
    /// Index into `texts`, or [`Names::NONE`].
    pub ids: Vec<u32>,
    /// Each text once.
    pub texts: Vec<String>,
}

impl Names {
    /// Index of rows without a text.
    pub const NONE: u32 = u32::MAX;

    /// The text in a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.texts.get(self.ids[row] as usize).map(String::as_str)
    }
}

/// An integer column with nulls.
#[derive(Debug)]
pub struct OptIntColumn(Int64Array);

impl OptIntColumn {
    /// The column of that name, of any integer width.
    pub fn of(batch: &RecordBatch, name: &str) -> Result<Self> {
        Ok(Self(ints(batch, name)?))
    }

    /// The value in a row.
    pub fn get(&self, row: usize) -> Option<i64> {
        get(&self.0, row)
    }

    /// The value in a row, 0 for null.
    pub fn value_or_0(&self, row: usize) -> i64 {
        self.get(row).unwrap_or_default()
    }
}

/// Row ranges by rank of a batch that is sorted by rank.
pub fn rank_ranges(batch: &RecordBatch) -> Result<Vec<(i64, Range<usize>)>> {
    let ranks = ints(batch, "rank")?;
    let mut found: Vec<(i64, Range<usize>)> = Vec::new();
    for (row, &rank) in ranks.values().iter().enumerate() {
        match found.last_mut() {
            Some((last, rows)) if *last == rank => rows.end = row + 1,
            _ => found.push((rank, row..row + 1)),
        }
    }
    Ok(found)
}

/// Values made from the rows of each rank, in row order.
pub fn rows_by_rank<T>(
    ranks: &Int64Array,
    mut made: impl FnMut(usize) -> T,
) -> BTreeMap<i64, Vec<T>> {
    let mut found: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    let mut rows = 0..ranks.len();
    // Rows of a rank are mostly adjacent.
    for same in ranks.values().chunk_by(|a, b| a == b) {
        let of_rank = found.entry(same[0]).or_default();
        of_rank.extend(rows.by_ref().take(same.len()).map(&mut made));
    }
    found
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| view_error!("there is no column `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_rank_collects_rows_that_are_not_adjacent() {
        let ranks = Int64Array::from(vec![1, 1, 0, 1]);
        let found = rows_by_rank(&ranks, |row| row);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(0, vec![2]), (1, vec![0, 1, 3])]);
    }
}
