//! A row of values, read by the names of its columns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Unit;

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Null.
    Null,
    /// Boolean.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Float, never NaN.
    Float(f64),
    /// Text.
    Text(String),
}

impl Value {
    /// The number, if the value is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(v) => Some(*v as f64),
            Self::Float(v) => Some(*v),
            Self::Null | Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("-"),
            Self::Bool(v) => v.fmt(f),
            Self::Int(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
            Self::Text(v) => f.write_str(v),
        }
    }
}

/// A row of a [`MetricTable`](crate::MetricTable).
#[derive(Debug, Clone, Copy, Default)]
pub struct Row<'a> {
    /// Names and units of the columns.
    pub columns: &'a [(String, Unit)],
    /// Values, one per column.
    pub values: &'a [Value],
}

impl<'a> Row<'a> {
    /// The names of the columns with their values, in order.
    pub fn cells(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.columns.iter().map(|(name, _)| name.as_str()).zip(self.values)
    }

    /// The value of a column, if the row has it.
    pub fn get(self, column: &str) -> Option<&'a Value> {
        self.cells().find_map(|(name, value)| (name == column).then_some(value))
    }

    /// The number of a column, if there is one.
    pub fn number(self, column: &str) -> Option<f64> {
        self.get(column)?.as_f64()
    }

    /// The integer of a column, or the whole part of its float.
    pub fn integer(self, column: &str) -> Option<i64> {
        match self.get(column)? {
            Value::Int(integer) => Some(*integer),
            Value::Float(float) => Some(*float as i64),
            Value::Null | Value::Bool(_) | Value::Text(_) => None,
        }
    }

    /// As [`Row::integer`], and 0 without one.
    pub fn count(self, column: &str) -> i64 {
        self.integer(column).unwrap_or(0)
    }

    /// The text of a column, unless it is empty.
    pub fn text(self, column: &str) -> Option<&'a str> {
        match self.get(column)? {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// As [`Row::text`], and empty without one.
    pub fn text_or_empty(self, column: &str) -> &'a str {
        self.text(column).unwrap_or_default()
    }

    /// The boolean of a column, if there is one.
    pub fn flag(self, column: &str) -> Option<bool> {
        match self.get(column)? {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// Whether a column is true, rather than false or without a value.
    pub fn is_true(self, column: &str) -> bool {
        self.flag(column) == Some(true)
    }

    /// The first of the rows with the largest number in a column.
    pub fn largest(rows: impl DoubleEndedIterator<Item = Self>, column: &str) -> Option<Self> {
        let number = |row: &Self| row.number(column).unwrap_or(f64::NEG_INFINITY);
        rows.rev().max_by(|a, b| number(a).total_cmp(&number(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Value};
    use crate::Unit;

    fn columns(names: &[&str]) -> Vec<(String, Unit)> {
        names.iter().map(|name| ((*name).to_owned(), Unit::None)).collect()
    }

    #[test]
    fn values_are_read_as_the_type_that_is_asked_for() {
        let text = |text: &str| Value::Text(text.to_owned());
        let columns = columns(&["int", "float", "text", "empty", "bool", "null"]);
        let values = [
            Value::Int(i64::MAX),
            Value::Float(2.5),
            text("x"),
            text(""),
            Value::Bool(true),
            Value::Null,
        ];
        let row = Row { columns: &columns, values: &values };
        let all = ["int", "float", "text", "empty", "bool", "null", "absent"];
        assert_eq!(
            all.map(|c| row.number(c)),
            [Some(i64::MAX as f64), Some(2.5), None, None, None, None, None]
        );
        assert_eq!(
            all.map(|c| row.integer(c)),
            [Some(i64::MAX), Some(2), None, None, None, None, None]
        );
        assert_eq!(all.map(|c| row.count(c)), [i64::MAX, 2, 0, 0, 0, 0, 0]);
        assert_eq!(all.map(|c| row.text(c)), [None, None, Some("x"), None, None, None, None]);
        assert_eq!(all.map(|c| row.text_or_empty(c)), ["", "", "x", "", "", "", ""]);
        assert_eq!(all.map(|c| row.flag(c)), [None, None, None, None, Some(true), None, None]);
        assert_eq!(all.map(|c| row.is_true(c)), [false, false, false, false, true, false, false]);
        assert_eq!(row.get("null"), Some(&Value::Null));
        assert_eq!(row.get("absent"), None);
    }

    #[test]
    fn a_row_with_fewer_values_lacks_the_last_columns() {
        let columns = columns(&["first", "second"]);
        let row = Row { columns: &columns, values: &[Value::Int(1)] };
        assert_eq!(row.cells().collect::<Vec<_>>(), [("first", &Value::Int(1))]);
        assert_eq!(row.get("second"), None);
        assert_eq!(Row::default().get("first"), None);
    }

    #[test]
    fn largest_is_the_first_of_equal_rows() {
        let columns = columns(&["ratio", "rank"]);
        let rows = [
            [Value::Null, Value::Int(0)],
            [Value::Float(0.5), Value::Int(1)],
            [Value::Float(0.5), Value::Int(2)],
        ];
        let rows = || rows.iter().map(|values| Row { columns: &columns, values });
        let rank = |column: &str| Row::largest(rows(), column).and_then(|row| row.integer("rank"));
        assert_eq!(rank("ratio"), Some(1));
        assert_eq!(rank("absent"), Some(0));
        assert!(Row::largest(rows().take(0), "ratio").is_none());
    }
}
