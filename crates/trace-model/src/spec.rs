//! Descriptions of tables and columns.

use std::fmt;

use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};

/// Description of a table: its name, the meaning of a row, and its columns in order.
#[derive(Debug, Clone, Copy)]
pub struct TableSpec {
    /// SQL name, plural: `kernels`.
    pub name: &'static str,
    /// Completes "one row is ...".
    pub row: &'static str,
    /// Columns in schema order.
    pub columns: &'static [ColumnSpec],
}

/// Description of a column.
#[derive(Debug, Clone, Copy)]
pub struct ColumnSpec {
    /// SQL name, with the unit as suffix where there is one: `dur_ns`.
    pub name: &'static str,
    /// Storage type.
    pub column_type: ColumnType,
    /// Values may be null.
    pub nullable: bool,
    /// Unit of the value.
    pub unit: Unit,
    /// One sentence for `advisor tables`.
    pub doc: &'static str,
}

/// Storage types in use. Strings that repeat are dictionary-encoded; free text is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// 64-bit integer.
    Int64,
    /// 32-bit integer.
    Int32,
    /// 64-bit float.
    Float64,
    /// Boolean.
    Boolean,
    /// Dictionary-encoded UTF-8 (names, categories).
    Dictionary,
    /// Plain UTF-8 (remaining arguments as JSON).
    Text,
}

impl ColumnSpec {
    /// Returns whether the value is a time on the run's clock, which shifts with the clock. Durations and the absolute
    /// time of zero do not.
    pub fn is_timestamp(&self) -> bool {
        self.unit == Unit::Ns && !self.name.ends_with("dur_ns") && self.name != "base_time_ns"
    }
}

impl ColumnType {
    /// The Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Int64 => DataType::Int64,
            Self::Int32 => DataType::Int32,
            Self::Float64 => DataType::Float64,
            Self::Boolean => DataType::Boolean,
            Self::Dictionary => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Self::Text => DataType::LargeUtf8,
        }
    }

    /// Name for display.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Int64 => "int64",
            Self::Int32 => "int32",
            Self::Float64 => "float64",
            Self::Boolean => "boolean",
            Self::Dictionary => "string",
            Self::Text => "text",
        }
    }
}

impl TableSpec {
    /// The Arrow schema, with the documentation as field metadata.
    pub fn schema(&self) -> Schema {
        let fields: Vec<Field> = self
            .columns
            .iter()
            .map(|c| {
                let metadata = [("doc", c.doc), ("unit", c.unit.as_str())]
                    .into_iter()
                    .filter(|(_, v)| !v.is_empty())
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .collect();
                Field::new(c.name, c.column_type.arrow(), c.nullable).with_metadata(metadata)
            })
            .collect();
        let metadata = [
            ("trace_advisor.table".to_owned(), self.name.to_owned()),
            ("trace_advisor.row".to_owned(), self.row.to_owned()),
            ("trace_advisor.schema_version".to_owned(), crate::SCHEMA_VERSION.to_string()),
        ];
        Schema::new_with_metadata(fields, metadata.into_iter().collect())
    }
}

/// Units of columns and metrics. The suffix of a column's name must match its unit ([`Unit::suffix`]); a test checks
/// this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    /// No unit: a name, an identifier, a flag.
    None,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Share, 0 to 1.
    Ratio,
    /// Number of things.
    Count,
    /// Gigabytes (10^9 bytes) per second.
    GbPerS,
    /// A number whose meaning follows from its name (`blocks_per_sm`).
    Number,
}

impl Unit {
    /// All units.
    pub const ALL: [Self; 7] =
        [Self::None, Self::Ns, Self::Bytes, Self::Ratio, Self::Count, Self::GbPerS, Self::Number];

    /// Name in headers of SQL files and in rule files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Ns => "ns",
            Self::Bytes => "bytes",
            Self::Ratio => "ratio",
            Self::Count => "count",
            Self::GbPerS => "gb_per_s",
            Self::Number => "number",
        }
    }

    /// The inverse of [`Unit::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|u| u.as_str() == text)
    }

    /// The suffix that a column of this unit must have.
    pub fn suffix(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Number => None,
            Self::Ns => Some("_ns"),
            Self::Bytes => Some("bytes"),
            Self::Ratio => Some("_ratio"),
            Self::Count => Some("_count"),
            Self::GbPerS => Some("_gb_per_s"),
        }
    }

    /// Returns whether the name of a column states this unit: by its suffix (`dur_ns`), or by the suffix alone (`ratio`).
    pub fn is_stated_by(self, column: &str) -> bool {
        self.suffix().is_some_and(|suffix| {
            column.ends_with(suffix) || suffix.strip_prefix('_') == Some(column)
        })
    }

    /// The unit that the name of a column states, for columns that no header declares: results of queries that users write.
    /// An aggregate without a name has the unit of its column: `sum(kernels.dur_ns)`.
    pub fn of_undeclared(column: &str) -> Self {
        if column.starts_with("count(") {
            return Self::Count;
        }
        // What is computed from columns has another unit: `memcpys.bytes / memcpys.dur_ns`.
        if column.contains([' ', ',']) {
            return Self::None;
        }
        let column = column.trim_end_matches(')');
        let column = column.rsplit('.').next().unwrap_or(column);
        Self::ALL.into_iter().find(|unit| unit.is_stated_by(column)).unwrap_or(Self::None)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Unit;

    #[test]
    fn undeclared_columns_have_the_unit_that_their_name_states() {
        for (column, unit) in [
            ("dur_ns", Unit::Ns),
            ("sum(kernels.dur_ns)", Unit::Ns),
            ("memcpys.bytes / memcpys.dur_ns", Unit::None),
            ("Float64(0.001) * kernels.dur_ns", Unit::None),
            ("power(kernels.dur_ns,Int64(2))", Unit::None),
            ("peak_bytes", Unit::Bytes),
            ("bytes", Unit::Bytes),
            ("ratio", Unit::Ratio),
            ("count(*)", Unit::Count),
            ("kernel_count", Unit::Count),
            ("bus_gb_per_s", Unit::GbPerS),
            ("name", Unit::None),
            ("columns", Unit::None),
        ] {
            assert_eq!(Unit::of_undeclared(column), unit, "{column}");
        }
    }
}
