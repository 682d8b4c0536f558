//! Values of rule files that are one word or a list of words: `subject = "gpu"`, `needs = ["steps", "python_stacks"]`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IntoDeserializer as _, SeqAccess, Visitor};
use trace_model::Capability;

/// One value, or a list of values that is not empty.
#[derive(Debug)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMoreVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMoreVisitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
                T::deserialize(text.into_deserializer()).map(|one| OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMore<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(next) = seq.next_element()? {
                    all.push(next);
                }
                Ok(OneOrMore(all))
            }
        }
        deserializer.deserialize_any(OneOrMoreVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMore<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// The name of a capability, with all names in the JSON schema.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(crate) struct CapabilityName(pub(crate) Capability);

impl JsonSchema for CapabilityName {
    fn schema_name() -> Cow<'static, str> {
        "Capability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<serde_json::Value> = Capability::ALL
            .iter()
            .map(|capability| {
                serde_json::json!({ "const": capability.as_str(), "description": capability.doc() })
            })
            .collect();
        json_schema!({
            "description": "A kind of data that a recording holds or lacks.",
            "type": "string",
            "oneOf": names,
        })
    }
}
