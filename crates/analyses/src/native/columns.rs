//! Columns of what native views read and of what they make.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringDictionaryBuilder,
};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::error::Result;
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
        let mut array = StringDictionaryBuilder::<Int32Type>::new();
        for row in self.rows {
            array.append_option(value(row));
        }
        self.columns.push((name, Arc::new(array.finish())));
        self
    }

    pub(crate) fn finish(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_from_iter_with_nullable(
            self.columns.into_iter().map(|(name, array)| (name, array, true)),
        )?)
    }
}
