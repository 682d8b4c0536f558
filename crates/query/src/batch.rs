//! Columns of what native views read and of what they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use datafusion::error::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use crate::columns::{get, ints};

/// An integer column whose rows may be empty.
#[derive(Debug)]
pub(crate) struct Maybe(Int64Array);

impl Maybe {
    pub(crate) fn of(batch: &RecordBatch, name: &str) -> Result<Self> {
        Ok(Self(ints(batch, name)?))
    }

    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        get(&self.0, row)
    }

    /// 0 where there is none.
    pub(crate) fn or_zero(&self, row: usize) -> i64 {
        self.get(row).unwrap_or_default()
    }
}

/// Where the rows of each rank lie; the batch is in order of ranks.
pub(crate) fn by_rank(batch: &RecordBatch) -> Result<Vec<(i64, std::ops::Range<usize>)>> {
    let ranks = ints(batch, "rank")?;
    let mut found: Vec<(i64, std::ops::Range<usize>)> = Vec::new();
    for (row, &rank) in ranks.values().iter().enumerate() {
        match found.last_mut() {
            Some((last, rows)) if *last == rank => rows.end = row + 1,
            _ => found.push((rank, row..row + 1)),
        }
    }
    Ok(found)
}

/// What is made of the rows of each rank, in the order of the rows.
pub(crate) fn of_each_rank<T>(
    ranks: &Int64Array,
    mut made: impl FnMut(usize) -> T,
) -> BTreeMap<i64, Vec<T>> {
    let mut found: BTreeMap<i64, Vec<T>> = BTreeMap::new();
    let mut rows = 0..ranks.len();
    // Rows of a rank mostly stand together.
    for same in ranks.values().chunk_by(|a, b| a == b) {
        let of_rank = found.entry(same[0]).or_default();
        of_rank.extend(rows.by_ref().take(same.len()).map(&mut made));
    }
    found
}

/// A column of texts, each distinct one once.
pub(crate) fn texts<'v>(values: impl Iterator<Item = Option<&'v str>>) -> ArrayRef {
    let mut distinct: Vec<&str> = Vec::new();
    let mut known: FxHashMap<&str, i32> = FxHashMap::default();
    // Most rows name a text that others name too, in the same place: where it lies is hashed faster than what it says.
    let mut by_place: FxHashMap<(*const u8, usize), i32> = FxHashMap::default();
    let keys: Int32Array = values
        .map(|text| {
            let text = text?;
            let key = by_place.entry((text.as_ptr(), text.len())).or_insert_with(|| {
                *known.entry(text).or_insert_with(|| {
                    distinct.push(text);
                    distinct.len() as i32 - 1
                })
            });
            Some(*key)
        })
        .collect();
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(distinct))))
}

/// A table that is made column by column from its rows.
#[derive(Debug)]
pub(crate) struct Output<'r, T> {
    rows: &'r [T],
    columns: Vec<(&'static str, ArrayRef)>,
}

impl<'r, T> Output<'r, T> {
    pub(crate) fn of(rows: &'r [T]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    pub(crate) fn int(mut self, name: &'static str, value: impl Fn(&T) -> Option<i64>) -> Self {
        let array: Int64Array = self.rows.iter().map(value).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    pub(crate) fn float(mut self, name: &'static str, value: impl Fn(&T) -> Option<f64>) -> Self {
        let array: Float64Array = self.rows.iter().map(value).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// Ranks and ordinals, which tables have in 32 bits.
    pub(crate) fn short(mut self, name: &'static str, value: impl Fn(&T) -> i64) -> Self {
        let array: Int32Array = self.rows.iter().map(|row| Some(value(row) as i32)).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    pub(crate) fn flag<B: Into<Option<bool>>>(
        mut self,
        name: &'static str,
        value: impl Fn(&T) -> B,
    ) -> Self {
        let array: BooleanArray = self.rows.iter().map(|row| value(row).into()).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    pub(crate) fn text<'v>(
        mut self,
        name: &'static str,
        value: impl Fn(&'r T) -> Option<&'v str>,
    ) -> Self
    where
        T: 'v,
        'r: 'v,
    {
        self.columns.push((name, texts(self.rows.iter().map(value))));
        self
    }

    pub(crate) fn finish(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_from_iter_with_nullable(
            self.columns.into_iter().map(|(name, array)| (name, array, true)),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn a_text_is_one_wherever_it_lies() {
        let (here, there) = ("aten::mm".to_owned(), "aten::mm".to_owned());
        let values =
            [Some(here.as_str()), None, Some(""), Some(&there), Some(&here[..4]), Some(&here)];
        let column = texts(values.into_iter());
        let column = column.as_dictionary::<Int32Type>();
        let distinct: Vec<_> = column.values().as_string::<i32>().iter().flatten().collect();
        assert_eq!(distinct, ["aten::mm", "", "aten"]);
        let keys: Vec<_> = column.keys().iter().collect();
        assert_eq!(keys, [Some(0), None, Some(1), Some(0), Some(2), Some(0)]);
    }

    #[test]
    fn rows_of_a_rank_need_not_stand_together() {
        let ranks = Int64Array::from(vec![1, 1, 0, 1]);
        let found = of_each_rank(&ranks, |row| row);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [(0, vec![2]), (1, vec![0, 1, 3])]);
    }
}
