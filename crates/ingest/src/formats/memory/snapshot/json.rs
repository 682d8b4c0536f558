//! Values of a pickle as JSON text, for what no column holds.

use std::fmt::Write as _;

use trace_model::Strings;

use crate::formats::pickle::{Graph, Kind, ObjectId, Value};

/// Nested deeper than this, a value is left out.
const MAX_DEPTH: u32 = 6;

/// Writes values as JSON, up to so many bytes in all: shared parts are written out where they are used,
/// and a pickle may share without end.
#[derive(Debug)]
pub(super) struct Writer {
    left: usize,
}

impl Writer {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: bytes }
    }

    /// A value as JSON; `None` if too much was written already, or it is nested too deeply.
    pub(super) fn value(
        &mut self,
        graph: &Graph,
        strings: &Strings,
        value: Value,
    ) -> Option<String> {
        let mut out = String::new();
        self.write(graph, strings, value, 0, &mut out)?;
        Some(out)
    }

    /// Keys and values as a JSON object; empty if there are none.
    pub(super) fn object(
        &mut self,
        graph: &Graph,
        strings: &Strings,
        entries: &[(trace_model::StrId, Value)],
    ) -> Option<String> {
        let mut out = String::new();
        for &(key, value) in entries {
            out.push(if out.is_empty() { '{' } else { ',' });
            self.text(strings.get(key), &mut out)?;
            out.push(':');
            self.write(graph, strings, value, 1, &mut out)?;
        }
        if !out.is_empty() {
            out.push('}');
        }
        Some(out)
    }

    fn write(
        &mut self,
        graph: &Graph,
        strings: &Strings,
        value: Value,
        depth: u32,
        out: &mut String,
    ) -> Option<()> {
        self.left = self.left.checked_sub(8)?;
        match value {
            Value::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Value::Int(value) => write!(out, "{value}").ok()?,
            Value::Float(value) if value.is_finite() => write!(out, "{value}").ok()?,
            Value::None | Value::Bytes | Value::HugeInt | Value::Float(_) => out.push_str("null"),
            Value::Str(id) => self.text(strings.get(id), out)?,
            Value::Object(_) if depth >= MAX_DEPTH => return None,
            Value::Object(object) if graph.kind(object) == Kind::Dict => {
                self.dict(graph, strings, object, depth, out)?;
            }
            Value::Object(object) => {
                out.push('[');
                for (i, item) in graph.items(object).enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    self.write(graph, strings, item, depth + 1, out)?;
                }
                out.push(']');
            }
        }
        Some(())
    }

    fn dict(
        &mut self,
        graph: &Graph,
        strings: &Strings,
        object: ObjectId,
        depth: u32,
        out: &mut String,
    ) -> Option<()> {
        out.push('{');
        for (i, (key, value)) in graph.entries(object).enumerate() {
            if i > 0 {
                out.push(',');
            }
            self.text(strings.get(key), out)?;
            out.push(':');
            self.write(graph, strings, value, depth + 1, out)?;
        }
        out.push('}');
        Some(())
    }

    fn text(&mut self, text: &str, out: &mut String) -> Option<()> {
        self.left = self.left.checked_sub(text.len())?;
        out.push_str(&serde_json::to_string(text).ok()?);
        Some(())
    }
}
