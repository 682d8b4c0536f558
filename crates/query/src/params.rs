//! Values for the `$name` parameters of views.

use std::collections::BTreeMap;
use std::fmt;

use datafusion::scalar::ScalarValue;

use crate::catalog::{Catalog, catalog};
use crate::error::{Error, Result};

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
    /// Truth value.
    Bool(bool),
    /// Text.
    Text(String),
}

impl Params {
    /// Sets a value. Name and type are checked when the session is made.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<ParamValue>) -> &mut Self {
        self.0.insert(name.into(), value.into());
        self
    }

    /// Sets a value given as text, as on a command line (`short_kernel_us=10`); the type is that of
    /// the parameter's default in the built-in catalog.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<&mut Self> {
        let Some(default) = catalog().param(name) else { return Err(unknown(catalog(), name)) };
        let value = match default {
            ParamValue::Int(_) => text.parse().ok().map(ParamValue::Int),
            ParamValue::Float(_) => {
                text.parse().ok().filter(|v: &f64| v.is_finite()).map(ParamValue::Float)
            }
            ParamValue::Bool(_) => text.parse().ok().map(ParamValue::Bool),
            ParamValue::Text(_) => Some(ParamValue::Text(text.to_owned())),
        };
        match value {
            Some(value) => Ok(self.set(name, value)),
            None => Err(wrong_type(name, default, text)),
        }
    }

    /// The value given for `name`.
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.0.get(name)
    }

    /// Refuses names that no module has and values of the wrong type; integers become floats where a
    /// float is meant.
    pub(crate) fn checked(mut self, catalog: &Catalog) -> Result<Self> {
        for (name, value) in &mut self.0 {
            let Some(default) = catalog.param(name) else { return Err(unknown(catalog, name)) };
            if let (ParamValue::Float(_), &mut ParamValue::Int(v)) = (default, &mut *value) {
                *value = ParamValue::Float(v as f64);
            }
            if std::mem::discriminant(default) != std::mem::discriminant(value) {
                return Err(wrong_type(name, default, &value.to_string()));
            }
        }
        Ok(self)
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

fn unknown(catalog: &Catalog, name: &str) -> Error {
    Error::UnknownParam { name: name.to_owned(), known: catalog.param_names().join(", ") }
}

fn wrong_type(name: &str, default: &ParamValue, got: &str) -> Error {
    Error::ParamType { name: name.to_owned(), expected: default.type_name(), got: got.to_owned() }
}
