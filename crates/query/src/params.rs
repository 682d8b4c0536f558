//! Values for the `$name` parameters of views.

use std::collections::BTreeMap;
use std::fmt;

use datafusion::scalar::ScalarValue;

/// Values that replace defaults. All views of a session see the same value of a parameter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params(BTreeMap<String, ParamValue>);

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// 64-bit integer.
    Int(i64),
    /// 64-bit float.
    Float(f64),
    /// Boolean.
    Bool(bool),
    /// Text.
    Text(String),
}

impl Params {
    /// Sets a value. A session checks names and types when it is opened; `Catalog::parse_param` makes values of
    /// texts.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<ParamValue>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// The value given for `name`.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.get(name)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &ParamValue)> {
        self.0.iter()
    }
}

impl ParamValue {
    /// The type in words.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Int(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a text",
        }
    }

    pub(crate) fn scalar(&self) -> ScalarValue {
        match self {
            Self::Int(v) => ScalarValue::Int64(Some(*v)),
            Self::Float(v) => ScalarValue::Float64(Some(*v)),
            Self::Bool(v) => ScalarValue::Boolean(Some(*v)),
            Self::Text(v) => ScalarValue::Utf8(Some(v.clone())),
        }
    }

    /// A value of the same type, read from a text. `None` if the text is not of that type.
    pub(crate) fn parse_as_same_type(&self, text: &str) -> Option<Self> {
        match self {
            Self::Int(_) => text.parse().ok().map(Self::Int),
            Self::Float(_) => text.parse().ok().filter(|v: &f64| v.is_finite()).map(Self::Float),
            Self::Bool(_) => text.parse().ok().map(Self::Bool),
            Self::Text(_) => Some(Self::Text(text.to_owned())),
        }
    }

    /// The value in the type of a default: an integer in place of a float becomes one.
    pub(crate) fn widened_to(&self, default: &Self) -> Self {
        match (self, default) {
            (&Self::Int(v), Self::Float(_)) => Self::Float(v as f64),
            (value, _) => value.clone(),
        }
    }

    pub(crate) fn from_toml(value: &toml::Value) -> Option<Self> {
        match value {
            toml::Value::Integer(v) => Some(Self::Int(*v)),
            toml::Value::Float(v) => Some(Self::Float(*v)),
            toml::Value::Boolean(v) => Some(Self::Bool(*v)),
            toml::Value::String(v) => Some(Self::Text(v.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for ParamValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => v.fmt(f),
            Self::Float(v) => v.fmt(f),
            Self::Bool(v) => v.fmt(f),
            Self::Text(v) => f.write_str(v),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),+) => { $(
        impl From<$type> for ParamValue {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )+ };
}
from!(i64 => Int, i32 => Int, f64 => Float, bool => Bool, String => Text, &str => Text);
