//! Texts as written in rule files: a string, or a list of strings and tables with conditions.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

/// One template, or several parts that are joined by spaces.
#[derive(Debug)]
pub(crate) enum TextValue {
    Template(String),
    Parts(Vec<Spanned<TextPartValue>>),
}

/// A template, or a table with a condition or alternatives.
#[derive(Debug)]
pub(crate) enum TextPartValue {
    Template(String),
    Table(TextPartTable),
}

/// A text that applies under a condition, or the first of several texts that applies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextPartTable {
    /// Expression over the columns of the worst row; the text always applies if not stated.
    #[schemars(with = "Option<String>")]
    pub(crate) when: Option<Spanned<String>>,
    /// Template. Line breaks count as spaces.
    #[schemars(with = "Option<String>")]
    pub(crate) text: Option<Spanned<String>>,
    /// In place of `text`: alternatives, of which the first one that applies is shown.
    #[schemars(with = "Option<Vec<TextPartValue>>")]
    pub(crate) first_of: Option<Vec<Spanned<TextPartValue>>>,
}

impl TextValue {
    /// Whether there is no text.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Template(text) => text.trim().is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }
}

// Not derived: an untagged enum buffers its content, which loses the places of strings.
impl<'de> Deserialize<'de> for TextValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = TextValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextValue, E> {
                Ok(TextValue::Template(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<TextValue, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = seq.next_element()? {
                    parts.push(part);
                }
                Ok(TextValue::Parts(parts))
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for TextPartValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = TextPartValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a table")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextPartValue, E> {
                Ok(TextPartValue::Template(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextPartValue, A::Error> {
                TextPartTable::deserialize(MapAccessDeserializer::new(map))
                    .map(TextPartValue::Table)
            }
        }
        deserializer.deserialize_any(PartVisitor)
    }
}

impl JsonSchema for TextValue {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A template, or a list of parts that are joined by spaces.",
            "anyOf": [
                { "type": "string" },
                { "type": "array", "items": generator.subschema_for::<TextPartValue>() },
            ],
        })
    }
}

impl JsonSchema for TextPartValue {
    fn schema_name() -> Cow<'static, str> {
        "TextPart".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A template, or a table with a condition or alternatives.",
            "anyOf": [{ "type": "string" }, generator.subschema_for::<TextPartTable>()],
        })
    }
}
