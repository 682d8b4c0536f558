//! Builds record batches column by column from rows.

use std::sync::Arc;

use arrow::array::builder::NullBufferBuilder;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray, StringArray,
};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use crate::rust_view::Result;

/// A dictionary-encoded text column; each distinct text occurs once in the dictionary.
pub fn dictionary_array<'v>(values: impl Iterator<Item = Option<&'v str>>) -> ArrayRef {
    let mut distinct: Vec<&str> = Vec::new();
    let mut known: FxHashMap<&str, i32> = FxHashMap::default();
    // Most texts occur repeatedly at the same address, and hashing an address is faster than hashing a text.
    let mut by_address: FxHashMap<(*const u8, usize), i32> = FxHashMap::default();
    let keys = primitive_array::<Int32Type>(values.map(|text| {
        let text = text?;
        let key = by_address.entry((text.as_ptr(), text.len())).or_insert_with(|| {
            *known.entry(text).or_insert_with(|| {
                distinct.push(text);
                distinct.len() as i32 - 1
            })
        });
        Some(*key)
    }));
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(distinct))))
}

/// A column of numbers. Takes less time than collecting them into an array, which marks each as null or not.
pub(crate) fn primitive_array<T: ArrowPrimitiveType>(
    values: impl Iterator<Item = Option<T::Native>>,
) -> PrimitiveArray<T> {
    let mut nulls = NullBufferBuilder::new(values.size_hint().0);
    let values: Vec<T::Native> = values
        .map(|value| {
            nulls.append(value.is_some());
            value.unwrap_or_default()
        })
        .collect();
    PrimitiveArray::new(values.into(), nulls.finish())
}

/// Builds a batch from a slice of rows, one column after the other.
#[derive(Debug)]
pub struct BatchBuilder<'r, T> {
    rows: &'r [T],
    columns: Vec<(&'static str, ArrayRef)>,
}

impl<'r, T> BatchBuilder<'r, T> {
    /// A batch of these rows, without columns yet.
    pub fn of(rows: &'r [T]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// Adds a column of 64-bit integers.
    #[must_use]
    pub fn int(mut self, name: &'static str, value: impl Fn(&T) -> Option<i64>) -> Self {
        let array = primitive_array::<Int64Type>(self.rows.iter().map(value));
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// Adds a column of 64-bit floats.
    #[must_use]
    pub fn float(mut self, name: &'static str, value: impl Fn(&T) -> Option<f64>) -> Self {
        let array = primitive_array::<Float64Type>(self.rows.iter().map(value));
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// Adds a column of 32-bit integers: ranks and ordinals.
    #[must_use]
    pub fn int32(mut self, name: &'static str, value: impl Fn(&T) -> i64) -> Self {
        let array =
            primitive_array::<Int32Type>(self.rows.iter().map(|row| Some(value(row) as i32)));
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// Adds a Boolean column.
    #[must_use]
    pub fn flag<B: Into<Option<bool>>>(
        mut self,
        name: &'static str,
        value: impl Fn(&T) -> B,
    ) -> Self {
        let array: BooleanArray = self.rows.iter().map(|row| value(row).into()).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// Adds a dictionary-encoded text column.
    #[must_use]
    pub fn text<'v>(mut self, name: &'static str, value: impl Fn(&'r T) -> Option<&'v str>) -> Self
    where
        T: 'v,
        'r: 'v,
    {
        self.columns.push((name, dictionary_array(self.rows.iter().map(value))));
        self
    }

    /// Adds a text column without a dictionary.
    #[must_use]
    pub fn utf8<'v>(mut self, name: &'static str, value: impl Fn(&'r T) -> Option<&'v str>) -> Self
    where
        T: 'v,
        'r: 'v,
    {
        let array: StringArray = self.rows.iter().map(value).collect();
        self.columns.push((name, Arc::new(array)));
        self
    }

    /// The batch; all columns are nullable.
    pub fn finish(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_from_iter_with_nullable(
            self.columns.into_iter().map(|(name, array)| (name, array, true)),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array as _, AsArray};

    use super::*;

    #[test]
    fn dictionary_array_holds_equal_texts_once() {
        let (here, there) = ("aten::mm".to_owned(), "aten::mm".to_owned());
        let values =
            [Some(here.as_str()), None, Some(""), Some(&there), Some(&here[..4]), Some(&here)];
        let column = dictionary_array(values.into_iter());
        let column = column.as_dictionary::<Int32Type>();
        let distinct: Vec<_> = column.values().as_string::<i32>().iter().flatten().collect();
        assert_eq!(distinct, ["aten::mm", "", "aten"]);
        let keys: Vec<_> = column.keys().iter().collect();
        assert_eq!(keys, [Some(0), None, Some(1), Some(0), Some(2), Some(0)]);
    }

    #[test]
    fn columns_of_numbers_have_nulls_only_where_they_are() {
        let values = [Some(3), None, Some(-1)];
        let column = primitive_array::<Int64Type>(values.into_iter());
        assert_eq!(column.iter().collect::<Vec<_>>(), values);
        let column = primitive_array::<Int64Type>([Some(3), Some(4)].into_iter());
        assert!(column.nulls().is_none());
        assert_eq!(column.values(), &[3, 4]);
    }
}
