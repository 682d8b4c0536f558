//! Typed columns that grow row by row and become Arrow arrays without copying their values.
//!
//! Absent values are sentinels while a column grows (one word a row, no bitmap to maintain) and a
//! validity bitmap in the Arrow array. The sentinels are values that ingest never accepts.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeStringArray, StringArray, types::Int32Type,
};
use arrow_buffer::{Buffer, OffsetBuffer};

use crate::spec::ColumnType;
use crate::strings::{StrId, Strings};

/// Absent 64-bit integer.
pub const NULL_I64: i64 = i64::MIN;
/// Absent 32-bit integer.
pub const NULL_I32: i32 = i32::MIN;

/// A column under construction.
pub trait Column: Default {
    /// What is pushed.
    type Item;
    /// Arrow storage.
    const TYPE: ColumnType;
    /// Whether values may be absent.
    const NULLABLE: bool;

    /// The value that stands for none: absent where that is possible, else zero.
    fn absent() -> Self::Item;
    /// Adds one value.
    fn push(&mut self, item: Self::Item);
    /// Moves the rows of `other` to the end; `remap` translates its string ids.
    fn append(&mut self, other: Self, remap: &[StrId]);
    /// The values of these rows, in this order.
    #[must_use]
    fn take(&self, rows: &[usize]) -> Self;
    /// Number of values.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The Arrow array.
    fn finish(self, strings: &Strings) -> ArrayRef;
}

macro_rules! primitive_column {
    ($(#[$doc:meta])* $name:ident, $item:ty, $array:ty, $type:ident, $nullable:expr, $absent:expr, $is_null:expr) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone)]
        pub struct $name(pub Vec<$item>);

        impl Column for $name {
            type Item = $item;
            const TYPE: ColumnType = ColumnType::$type;
            const NULLABLE: bool = $nullable;

            fn absent() -> $item {
                $absent
            }

            fn push(&mut self, item: $item) {
                self.0.push(item);
            }

            fn append(&mut self, mut other: Self, _: &[StrId]) {
                if self.0.is_empty() {
                    self.0 = other.0;
                } else {
                    self.0.append(&mut other.0);
                }
            }

            fn take(&self, rows: &[usize]) -> Self {
                Self(rows.iter().map(|&row| self.0[row]).collect())
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn finish(mut self, _: &Strings) -> ArrayRef {
                self.0.shrink_to_fit();
                let is_null: fn($item) -> bool = $is_null;
                let nulls = ($nullable && self.0.iter().any(|&v| is_null(v)))
                    .then(|| self.0.iter().map(|&v| !is_null(v)).collect::<Vec<bool>>().into());
                Arc::new(<$array>::new(self.0.into(), nulls))
            }
        }
    };
}

primitive_column!(
    /// Int64, always present.
    I64, i64, Int64Array, Int64, false, 0, |_| false
);
primitive_column!(
    /// Int64; [`NULL_I64`] is absent.
    OptI64, i64, Int64Array, Int64, true, NULL_I64, |v| v == NULL_I64
);
primitive_column!(
    /// Int32, always present.
    I32, i32, Int32Array, Int32, false, 0, |_| false
);
primitive_column!(
    /// Int32; [`NULL_I32`] is absent.
    OptI32, i32, Int32Array, Int32, true, NULL_I32, |v| v == NULL_I32
);
primitive_column!(
    /// Float64; NaN is absent, so that no NaN ever reaches a query.
    OptF64, f64, Float64Array, Float64, true, f64::NAN, f64::is_nan
);

/// Boolean, always present.
#[derive(Debug, Default, Clone)]
pub struct Flag(pub Vec<bool>);

impl Column for Flag {
    type Item = bool;
    const TYPE: ColumnType = ColumnType::Boolean;
    const NULLABLE: bool = false;

    fn absent() -> bool {
        false
    }

    fn push(&mut self, item: bool) {
        self.0.push(item);
    }

    fn append(&mut self, mut other: Self, _: &[StrId]) {
        self.0.append(&mut other.0);
    }

    fn take(&self, rows: &[usize]) -> Self {
        Self(rows.iter().map(|&row| self.0[row]).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn finish(self, _: &Strings) -> ArrayRef {
        Arc::new(BooleanArray::from(self.0))
    }
}

/// Dictionary-encoded strings; [`StrId::NULL`] is absent.
#[derive(Debug, Default, Clone)]
pub struct Name(pub Vec<StrId>);

impl Column for Name {
    type Item = StrId;
    const TYPE: ColumnType = ColumnType::Dictionary;
    const NULLABLE: bool = true;

    fn absent() -> StrId {
        StrId::NULL
    }

    fn push(&mut self, item: StrId) {
        self.0.push(item);
    }

    fn append(&mut self, other: Self, remap: &[StrId]) {
        self.0.extend(
            other.0.into_iter().map(|id| if id.is_null() { id } else { remap[id.index()] }),
        );
    }

    fn take(&self, rows: &[usize]) -> Self {
        Self(rows.iter().map(|&row| self.0[row]).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// The dictionary holds only the strings of this column, in order of first use: filters such as
    /// `LIKE` run over the dictionary, which must not carry the strings of other columns.
    fn finish(self, strings: &Strings) -> ArrayRef {
        let mut local = vec![-1_i32; strings.len()];
        let mut values = StringBuilder::new();
        let mut used = 0;
        let keys: Int32Array = self
            .0
            .into_iter()
            .map(|id| {
                if id.is_null() {
                    return None;
                }
                let slot = &mut local[id.index()];
                if *slot < 0 {
                    values.append_value(strings.get(id));
                    *slot = used;
                    used += 1;
                }
                Some(*slot)
            })
            .collect();
        let values: StringArray = values.finish();
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)))
    }
}

/// Free text, one piece of one shared buffer a row; absent where empty.
///
/// 64-bit offsets: the leftovers of one large trace pass 2 GiB.
#[derive(Debug, Clone)]
pub struct Text {
    offsets: Vec<i64>,
    bytes: String,
}

impl Default for Text {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: String::new() }
    }
}

impl Text {
    /// The text of row `i`; empty where absent.
    pub fn get(&self, i: usize) -> &str {
        &self.bytes[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// Adds `text` to the value of the last row, without an owned string.
    pub fn extend_last(&mut self, text: &str) {
        self.bytes.push_str(text);
        if let [_, .., last] = self.offsets.as_mut_slice() {
            *last = self.bytes.len() as i64;
        }
    }
}

impl Column for Text {
    type Item = String;
    const TYPE: ColumnType = ColumnType::Text;
    const NULLABLE: bool = true;

    fn absent() -> String {
        String::new()
    }

    fn push(&mut self, item: String) {
        self.offsets.push(self.bytes.len() as i64);
        self.extend_last(&item);
    }

    fn append(&mut self, other: Self, _: &[StrId]) {
        if self.is_empty() {
            *self = other;
            return;
        }
        let base = self.bytes.len() as i64;
        self.bytes.push_str(&other.bytes);
        self.offsets.extend(other.offsets[1..].iter().map(|end| end + base));
    }

    fn take(&self, rows: &[usize]) -> Self {
        let mut taken = Self::default();
        for &row in rows {
            taken.offsets.push(taken.bytes.len() as i64);
            taken.extend_last(self.get(row));
        }
        taken
    }

    fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    fn finish(self, _: &Strings) -> ArrayRef {
        let nulls: Vec<bool> = self.offsets.windows(2).map(|w| w[0] != w[1]).collect();
        Arc::new(LargeStringArray::new(
            OffsetBuffer::new(self.offsets.into()),
            Buffer::from_vec(self.bytes.into_bytes()),
            Some(nulls.into()),
        ))
    }
}
