//! Checks a TOML table against the JSON schema of rule files: unknown keys, wrong types, missing
//! keys, wrong words. So the schema for editors is the grammar, and serde, which stops at its first
//! error, sees only tables without such mistakes.

use std::fmt;
use std::sync::LazyLock;

use serde_json::Value as Json;
use toml::Spanned;
use toml::de::DeValue;

use crate::language::problem::{Problems, Span, did_you_mean};

/// The schema of a whole rule file.
static SCHEMA: LazyLock<Json> =
    LazyLock::new(|| crate::language::schema::rule_file_schema().into());

/// Kinds of tables in a rule file.
#[derive(Clone, Copy)]
pub(crate) enum TableKind {
    /// `[rule.<name>]`.
    Rule,
    /// `[fix.<name>]`.
    Fix,
    /// `[ignore.<name>]`.
    Ignore,
    /// `[policy]`.
    Policy,
    /// `[prediction]`.
    Prediction,
}

/// Reports mistakes in the shape of `value`. Returns it without the wrong keys, so that one mistake does not hide
/// another, and whether there were no mistakes.
pub(crate) fn check<'i>(
    value: Spanned<DeValue<'i>>,
    place: TableKind,
    file: usize,
    problems: &mut Problems<'_>,
) -> (Spanned<DeValue<'i>>, bool) {
    let name = match place {
        TableKind::Rule => "RuleTable",
        TableKind::Fix => "FixTable",
        TableKind::Ignore => "IgnoreTable",
        TableKind::Policy => "PolicyTable",
        TableKind::Prediction => "PredictionTable",
    };
    let mut walk = Walk { file, problems, wrong: Vec::new() };
    walk.value(&value, &SCHEMA["$defs"][name], What::Table);
    let wrong = walk.wrong;
    if wrong.is_empty() {
        return (value, true);
    }
    let span = value.span();
    let rest = match value.into_inner() {
        DeValue::Table(table) => {
            let right = table.into_iter().filter(|(key, value)| {
                let entry = key.span().start..value.span().end;
                !wrong.iter().any(|at| entry.contains(at))
            });
            DeValue::Table(right.collect())
        }
        other => other,
    };
    (Spanned::new(span, rest), false)
}

/// A value, in messages.
#[derive(Clone, Copy)]
enum What<'a> {
    Table,
    Key(&'a str),
    Entry(&'a What<'a>),
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table => f.write_str("the table"),
            Self::Key(name) => write!(f, "`{name}`"),
            Self::Entry(list) => write!(f, "an entry of {list}"),
        }
    }
}

struct Walk<'a, 'p> {
    file: usize,
    problems: &'a mut Problems<'p>,
    /// Start offsets of mistakes.
    wrong: Vec<usize>,
}

impl Walk<'_, '_> {
    fn add(&mut self, bytes: std::ops::Range<usize>, message: String, help: Option<String>) {
        self.wrong.push(bytes.start);
        self.problems.add(&Span { file: self.file, bytes }, message, help);
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, schema: &'static Json, what: What<'_>) {
        let schema = alternative_for(resolve(schema), value.get_ref());
        match value.get_ref() {
            DeValue::Table(table) if allows(schema, "object") => {
                let known = schema["properties"].as_object();
                for (key, item) in table {
                    let name: &str = key.get_ref();
                    if let Some(schema) = known.and_then(|k| k.get(name)) {
                        self.value(item, schema, What::Key(name));
                    } else if schema["additionalProperties"] == Json::Bool(false) {
                        let names = known.into_iter().flat_map(|k| k.keys().map(String::as_str));
                        let help = did_you_mean(name, names.clone())
                            .unwrap_or_else(|| format!("keys here are {}", list(names)));
                        self.add(key.span(), format!("unknown key `{name}`"), Some(help));
                    } else if schema["additionalProperties"].is_object() {
                        self.value(item, &schema["additionalProperties"], What::Key(name));
                    }
                }
                let required = schema["required"].as_array().into_iter().flatten();
                for name in required.filter_map(Json::as_str).filter(|n| !table.contains_key(*n)) {
                    self.add(value.span(), format!("{what} has no `{name}`"), None);
                }
            }
            DeValue::Array(items) if allows(schema, "array") => {
                if items.is_empty() && schema["minItems"].as_u64().is_some_and(|n| n > 0) {
                    self.add(value.span(), format!("{what} is empty"), None);
                }
                for item in items {
                    self.value(item, &schema["items"], What::Entry(&what));
                }
            }
            DeValue::String(text) if words(schema).next().is_some() => {
                if !words(schema).any(|word| word == text.as_ref()) {
                    let help = did_you_mean(text, words(schema))
                        .unwrap_or_else(|| format!("one of {}", list(words(schema))));
                    self.add(value.span(), format!("{what} cannot be `{text}`"), Some(help));
                }
            }
            other if type_names(other).iter().any(|t| allows(schema, t)) => {}
            other => {
                let message =
                    format!("{what} must be {}, not {}", expected(schema), other.type_str());
                let quote = allows(schema, "string")
                    && !matches!(other, DeValue::Array(_) | DeValue::Table(_));
                self.add(value.span(), message, quote.then(|| "put it in quotes".to_owned()));
            }
        }
    }
}

/// Follows references and takes `null`, which TOML does not have, out of alternatives.
fn resolve(schema: &'static Json) -> &'static Json {
    let mut schema = schema;
    loop {
        if let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
            schema = &SCHEMA["$defs"][name];
        } else if let Some(only) = only_alternative(schema) {
            schema = only;
        } else {
            return schema;
        }
    }
}

fn only_alternative(schema: &Json) -> Option<&Json> {
    let mut rest = schema["anyOf"].as_array()?.iter().filter(|s| s["type"] != "null");
    let first = rest.next()?;
    rest.next().is_none().then_some(first)
}

/// The alternative of a schema that fits the type of a value; the schema itself if it has none.
fn alternative_for(schema: &'static Json, value: &DeValue<'_>) -> &'static Json {
    let types: &[&str] = match value {
        DeValue::Table(_) => &["object"],
        DeValue::Array(_) => &["array"],
        scalar => type_names(scalar),
    };
    let alternatives = schema["anyOf"].as_array().into_iter().flatten().map(resolve);
    let mut fitting = alternatives.filter(|s| types.iter().any(|t| allows(s, t)));
    fitting.next().unwrap_or(schema)
}

/// The words a string may be, if the schema lists them.
fn words(schema: &Json) -> impl Iterator<Item = &str> {
    let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let documented =
        schema["oneOf"].as_array().into_iter().flatten().filter_map(|s| s["const"].as_str());
    listed.chain(documented)
}

fn allows(schema: &'static Json, name: &str) -> bool {
    match &schema["type"] {
        Json::String(one) => one == name,
        Json::Array(several) => several.iter().any(|t| t == name),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| schema[key].as_array())
            .any(|any| any.iter().any(|s| allows(resolve(s), name))),
    }
}

/// The JSON types that a TOML value can stand for; JSON has no dates.
fn type_names(value: &DeValue<'_>) -> &'static [&'static str] {
    match value {
        DeValue::String(_) => &["string"],
        DeValue::Integer(_) => &["integer", "number"],
        DeValue::Float(_) => &["number"],
        DeValue::Boolean(_) => &["boolean"],
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => &[],
    }
}

fn expected(schema: &'static Json) -> String {
    let types = [
        ("string", "a string"),
        ("array", "an array"),
        ("object", "a table"),
        ("boolean", "true or false"),
        ("number", "a number"),
        ("integer", "an integer"),
    ];
    let allowed = types.into_iter().filter(|(name, _)| allows(schema, name));
    let words: Vec<&str> = allowed.map(|(_, words)| words).collect();
    if words.is_empty() { "a string".to_owned() } else { words.join(" or ") }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}
