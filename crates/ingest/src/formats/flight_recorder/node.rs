//! A value of a dump, whether the dump is a pickle or JSON.

use serde_json::Value as Json;

use crate::formats::pickle::{Graph, Kind, ObjectId, Value};
use crate::quantity::{RawDecimal, RawInteger};

/// The recorder writes no dict with more entries.
const MAX_KEYS: usize = 4096;

#[derive(Debug, Clone, Copy)]
pub(super) enum Node<'a> {
    Pickle(&'a Graph, Value),
    Json(&'a Json),
}

impl<'a> Node<'a> {
    /// The container, if it may occur in several places.
    pub(super) fn shared_object(self) -> Option<ObjectId> {
        match self {
            Self::Pickle(_, Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    /// Keys and values; none if this is not a dict.
    pub(super) fn entries(self) -> Box<dyn Iterator<Item = (&'a str, Self)> + 'a> {
        match self {
            Self::Pickle(graph, Value::Object(object)) if graph.kind(object) == Kind::Dict => {
                let entries = graph.entries(object).take(MAX_KEYS);
                Box::new(
                    entries.map(move |(key, value)| {
                        (graph.strings.get(key), Self::Pickle(graph, value))
                    }),
                )
            }
            Self::Json(Json::Object(entries)) => {
                Box::new(entries.iter().map(|(key, value)| (key.as_str(), Self::Json(value))))
            }
            _ => Box::new(std::iter::empty()),
        }
    }

    pub(super) fn is_dict(self) -> bool {
        match self {
            Self::Pickle(graph, Value::Object(object)) => graph.kind(object) == Kind::Dict,
            Self::Json(value) => value.is_object(),
            Self::Pickle(..) => false,
        }
    }

    pub(super) fn is_list(self) -> bool {
        match self {
            Self::Pickle(graph, Value::Object(object)) => {
                matches!(graph.kind(object), Kind::List | Kind::Tuple)
            }
            Self::Json(value) => value.is_array(),
            Self::Pickle(..) => false,
        }
    }

    /// Values of a list or tuple.
    pub(super) fn items(self) -> Box<dyn Iterator<Item = Self> + 'a> {
        match self {
            Self::Pickle(graph, Value::Object(object)) if self.is_list() => {
                Box::new(graph.items(object).map(move |value| Self::Pickle(graph, value)))
            }
            Self::Json(Json::Array(values)) => Box::new(values.iter().map(Self::Json)),
            _ => Box::new(std::iter::empty()),
        }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Pickle(graph, Value::Str(id)) => Some(graph.strings.get(id)),
            Self::Json(value) => value.as_str(),
            Self::Pickle(..) => None,
        }
    }

    pub(super) fn integer(self) -> Option<RawInteger> {
        match self {
            Self::Pickle(_, Value::Int(value)) => Some(RawInteger::new(value)),
            Self::Json(value) => value.as_i64().map(RawInteger::new),
            Self::Pickle(..) => None,
        }
    }

    pub(super) fn decimal(self) -> Option<RawDecimal> {
        match self {
            Self::Pickle(_, Value::Float(value)) => RawDecimal::new(value),
            Self::Pickle(..) => self.integer().map(RawInteger::decimal),
            Self::Json(value) => RawDecimal::new(value.as_f64()?),
        }
    }

    pub(super) fn flag(self) -> Option<bool> {
        match self {
            Self::Pickle(_, Value::Bool(value)) => Some(value),
            Self::Json(value) => value.as_bool(),
            Self::Pickle(..) => None,
        }
    }
}
