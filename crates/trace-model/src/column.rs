//! Typed columns that grow row by row and become Arrow arrays without copying their values.
//!
//! Nulls are sentinels while a column grows (one word per row, no bitmap to maintain) and a validity bitmap in the
//! Arrow array. The sentinels are values that ingest never accepts.
//!
//! Rows past the end of a nullable column are null: a column without values takes no memory while a table is filled
//! ([`Column::push_sparse`]), and next to none in the Arrow array.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeStringArray, StringArray, types::Int32Type,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};

use crate::spec::ColumnType;
use crate::strings::{StrId, Strings};

/// Null of 64-bit integer columns.
pub const NULL_I64: i64 = i64::MIN;
/// Null of 32-bit integer columns.
pub const NULL_I32: i32 = i32::MIN;

/// A column under construction.
pub trait Column: Default {
    /// Type of a value.
    type Item;
    /// Arrow storage.
    const TYPE: ColumnType;
    /// Whether values may be null.
    const NULLABLE: bool;

    /// The value of a row without one: null where the column is nullable, else zero.
    fn null_value() -> Self::Item;
    /// Adds one value.
    fn push(&mut self, item: Self::Item);
    /// Adds the value of row `row`, and nulls for the rows before that have none. A null is not stored.
    fn push_sparse(&mut self, row: usize, item: Self::Item);
    /// Moves the rows of `other` behind the first `rows`; `remap` translates its string ids. `other` keeps
    /// its capacity.
    fn drain(&mut self, rows: usize, other: &mut Self, remap: &[StrId]);
    /// The values of these rows, in this order.
    #[must_use]
    fn take(&self, rows: &[usize]) -> Self;
    /// Number of values held.
    fn len(&self) -> usize;
    /// Returns whether the column is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The Arrow array of `rows` rows.
    fn finish(self, rows: usize, strings: &Strings) -> ArrayRef;
}

/// Methods of all columns that hold a vector of values.
macro_rules! vector_column {
    ($name:ident, $item:ty, $type:ident, $nullable:expr, $null:expr, $is_null:expr) => {
        impl $name {
            /// The value of row `row`.
            #[inline]
            pub fn get(&self, row: usize) -> $item {
                self.0.get(row).copied().unwrap_or($null)
            }

            /// Sets the value of row `row`.
            #[inline]
            pub fn set(&mut self, row: usize, item: $item) {
                if row >= self.0.len() {
                    if $is_null(item) {
                        return;
                    }
                    self.0.resize(row + 1, $null);
                }
                self.0[row] = item;
            }

            /// Grows to `rows` rows without spare capacity; call it before setting many of them.
            pub fn pad(&mut self, rows: usize) {
                self.0.reserve_exact(rows.saturating_sub(self.0.len()));
                self.0.resize(rows, $null);
            }

            #[inline]
            fn push_at(&mut self, row: usize, item: $item) {
                if $nullable && $is_null(item) {
                    return;
                }
                if self.0.len() < row {
                    self.0.resize(row, $null);
                }
                self.0.push(item);
            }
        }
    };
}

/// Validity of the values; `None` if there are no nulls.
fn nulls<T: Copy>(values: &[T], is_null: impl Fn(T) -> bool) -> Option<NullBuffer> {
    values.iter().any(|&value| is_null(value)).then(|| {
        NullBuffer::new(BooleanBuffer::collect_bool(values.len(), |row| !is_null(values[row])))
    })
}

macro_rules! primitive_column {
    ($(#[$doc:meta])* $name:ident, $item:ty, $array:ty, $type:ident, $nullable:expr, $null:expr, $is_null:expr) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone)]
        pub struct $name(pub Vec<$item>);

        vector_column!($name, $item, $type, $nullable, $null, $is_null);

        impl Column for $name {
            type Item = $item;
            const TYPE: ColumnType = ColumnType::$type;
            const NULLABLE: bool = $nullable;

            fn null_value() -> $item {
                $null
            }

            #[inline]
            fn push(&mut self, item: $item) {
                self.0.push(item);
            }

            #[inline]
            fn push_sparse(&mut self, row: usize, item: $item) {
                self.push_at(row, item);
            }

            fn drain(&mut self, rows: usize, other: &mut Self, _: &[StrId]) {
                if !other.0.is_empty() {
                    self.0.resize(rows, $null);
                    self.0.append(&mut other.0);
                }
            }

            fn take(&self, rows: &[usize]) -> Self {
                if self.0.is_empty() {
                    return Self::default();
                }
                Self(rows.iter().map(|&row| self.get(row)).collect())
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn finish(mut self, rows: usize, _: &Strings) -> ArrayRef {
                if self.0.is_empty() && $nullable {
                    // The allocator provides untouched zero pages.
                    let nulls = Some(NullBuffer::new_null(rows));
                    return Arc::new(<$array>::new(vec![<$item>::default(); rows].into(), nulls));
                }
                self.pad(rows);
                self.0.shrink_to_fit();
                let nulls = if $nullable { nulls(&self.0, $is_null) } else { None };
                Arc::new(<$array>::new(self.0.into(), nulls))
            }
        }
    };
}

primitive_column!(
    /// Int64, never null.
    I64, i64, Int64Array, Int64, false, 0, |value: i64| value == 0
);
primitive_column!(
    /// Int64; [`NULL_I64`] is null.
    OptI64, i64, Int64Array, Int64, true, NULL_I64, |value: i64| value == NULL_I64
);
primitive_column!(
    /// Int32, never null.
    I32, i32, Int32Array, Int32, false, 0, |value: i32| value == 0
);
primitive_column!(
    /// Int32; [`NULL_I32`] is null.
    OptI32, i32, Int32Array, Int32, true, NULL_I32, |value: i32| value == NULL_I32
);
primitive_column!(
    /// Float64; NaN is null, so that no NaN ever reaches a query.
    OptF64, f64, Float64Array, Float64, true, f64::NAN, |value: f64| value.is_nan()
);

/// Boolean, never null.
#[derive(Debug, Default, Clone)]
pub struct Flag(pub Vec<bool>);

vector_column!(Flag, bool, Boolean, false, false, |value: bool| !value);

impl Column for Flag {
    type Item = bool;
    const TYPE: ColumnType = ColumnType::Boolean;
    const NULLABLE: bool = false;

    fn null_value() -> bool {
        false
    }

    #[inline]
    fn push(&mut self, item: bool) {
        self.0.push(item);
    }

    #[inline]
    fn push_sparse(&mut self, row: usize, item: bool) {
        self.push_at(row, item);
    }

    fn drain(&mut self, _: usize, other: &mut Self, _: &[StrId]) {
        self.0.append(&mut other.0);
    }

    fn take(&self, rows: &[usize]) -> Self {
        Self(rows.iter().map(|&row| self.get(row)).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn finish(mut self, rows: usize, _: &Strings) -> ArrayRef {
        self.pad(rows);
        Arc::new(BooleanArray::from(self.0))
    }
}

/// Dictionary-encoded strings; [`StrId::NULL`] is null.
#[derive(Debug, Default, Clone)]
pub struct DictColumn(pub Vec<StrId>);

vector_column!(DictColumn, StrId, Dictionary, true, StrId::NULL, StrId::is_null);

impl Column for DictColumn {
    type Item = StrId;
    const TYPE: ColumnType = ColumnType::Dictionary;
    const NULLABLE: bool = true;

    fn null_value() -> StrId {
        StrId::NULL
    }

    #[inline]
    fn push(&mut self, item: StrId) {
        self.0.push(item);
    }

    #[inline]
    fn push_sparse(&mut self, row: usize, item: StrId) {
        self.push_at(row, item);
    }

    fn drain(&mut self, rows: usize, other: &mut Self, remap: &[StrId]) {
        if !other.0.is_empty() {
            self.0.resize(rows, StrId::NULL);
            let mapped = |id: StrId| if id.is_null() { id } else { remap[id.index()] };
            self.0.extend(other.0.drain(..).map(mapped));
        }
    }

    fn take(&self, rows: &[usize]) -> Self {
        if self.0.is_empty() {
            return Self::default();
        }
        Self(rows.iter().map(|&row| self.get(row)).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// The dictionary holds only the strings of this column, in order of first use: filters such as
    /// `LIKE` run over the dictionary, which must not carry the strings of other columns.
    fn finish(mut self, rows: usize, strings: &Strings) -> ArrayRef {
        let mut values = StringBuilder::new();
        let keys = if self.0.is_empty() {
            Int32Array::new(vec![0; rows].into(), Some(NullBuffer::new_null(rows)))
        } else {
            self.pad(rows);
            self.0.shrink_to_fit();
            let nulls = nulls(&self.0, StrId::is_null);
            let mut local = vec![-1_i32; strings.len()];
            let mut used = 0;
            let mut key = |id: StrId| {
                if id.is_null() {
                    return 0;
                }
                let slot = &mut local[id.index()];
                if *slot < 0 {
                    values.append_value(strings.get(id));
                    *slot = used;
                    used += 1;
                }
                *slot
            };
            // In place: ids and keys have the same size.
            let keys: Vec<i32> = self.0.into_iter().map(&mut key).collect();
            Int32Array::new(keys.into(), nulls)
        };
        let values: StringArray = values.finish();
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)))
    }
}

/// Free text: each row is a piece of one shared buffer, and null if it is empty.
///
/// 64-bit offsets: the leftovers of one large trace pass 2 GiB.
#[derive(Debug, Default, Clone)]
pub struct Text {
    /// End of the text of each row.
    ends: Vec<i64>,
    bytes: Vec<u8>,
}

impl Text {
    /// The text of row `row`; empty if it is null.
    pub fn get(&self, row: usize) -> &str {
        let Some(&end) = self.ends.get(row) else { return "" };
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        std::str::from_utf8(&self.bytes[start as usize..end as usize]).unwrap_or_default()
    }

    /// Adds `text` to the value of the last row, without an owned string.
    pub fn extend_last(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        if let Some(end) = self.ends.last_mut() {
            *end = self.bytes.len() as i64;
        }
    }

    /// Adds the bytes that `write` appends as the text of row `row`, and nulls for the rows before that have none.
    /// Invalid UTF-8 becomes U+FFFD.
    #[inline]
    pub fn push_sparse_with(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let text = &self.bytes[start..];
        if text.is_empty() {
            return;
        }
        if !text.is_ascii() && std::str::from_utf8(text).is_err() {
            let text = String::from_utf8_lossy(text).into_owned();
            self.bytes.truncate(start);
            self.bytes.extend_from_slice(text.as_bytes());
        }
        self.ends.resize(row, start as i64);
        self.ends.push(self.bytes.len() as i64);
    }
}

impl Column for Text {
    type Item = String;
    const TYPE: ColumnType = ColumnType::Text;
    const NULLABLE: bool = true;

    fn null_value() -> String {
        String::new()
    }

    fn push(&mut self, item: String) {
        self.bytes.extend_from_slice(item.as_bytes());
        self.ends.push(self.bytes.len() as i64);
    }

    #[inline]
    fn push_sparse(&mut self, row: usize, item: String) {
        self.push_sparse_with(row, |bytes| bytes.extend_from_slice(item.as_bytes()));
    }

    fn drain(&mut self, rows: usize, other: &mut Self, _: &[StrId]) {
        if other.ends.is_empty() {
            return;
        }
        let base = self.bytes.len() as i64;
        self.ends.resize(rows, base);
        self.ends.extend(other.ends.drain(..).map(|end| end + base));
        self.bytes.append(&mut other.bytes);
    }

    fn take(&self, rows: &[usize]) -> Self {
        let mut taken = Self::default();
        for &row in rows {
            taken.bytes.extend_from_slice(self.get(row).as_bytes());
            taken.ends.push(taken.bytes.len() as i64);
        }
        taken
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn finish(mut self, rows: usize, _: &Strings) -> ArrayRef {
        self.ends.resize(rows, self.bytes.len() as i64);
        self.bytes.shrink_to_fit();
        let start = |row: usize| if row == 0 { 0 } else { self.ends[row - 1] };
        let nulls = BooleanBuffer::collect_bool(rows, |row| start(row) != self.ends[row]);
        let nulls = Some(NullBuffer::new(nulls)).filter(|nulls| nulls.null_count() > 0);
        let mut offsets = self.ends;
        offsets.reserve_exact(1);
        offsets.insert(0, 0);
        Arc::new(LargeStringArray::new(
            OffsetBuffer::new(offsets.into()),
            Buffer::from_vec(self.bytes),
            nulls,
        ))
    }
}
