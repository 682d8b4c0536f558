//! Builds a [`Graph`] from data that is not a pickle.

use serde_json::Value as Json;

use super::graph::{Graph, Kind, Word};

/// A value of a graph under construction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part(Word);

impl Part {
    pub(crate) const NONE: Self = Self(Word::NONE);
    /// A bytes object. The graph does not store its content.
    pub(crate) const BYTES: Self = Self(Word::BYTES);

    pub(crate) fn bool(value: bool) -> Self {
        Self(if value { Word::TRUE } else { Word::FALSE })
    }
}

/// Builds a graph. Methods return `None` if the graph has too many values.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    graph: Graph,
    scratch: Vec<Word>,
}

impl GraphBuilder {
    pub(crate) fn int(&mut self, value: i64) -> Part {
        Part(self.graph.int(i128::from(value)))
    }

    pub(crate) fn float(&mut self, value: f64) -> Part {
        Part(self.graph.float(value))
    }

    pub(crate) fn text(&mut self, text: &str) -> Part {
        Part(self.graph.text(text))
    }

    pub(crate) fn list(&mut self, items: &[Part]) -> Option<Part> {
        self.container(Kind::List, items.iter().copied())
    }

    /// Adds a dict of key-value pairs.
    pub(crate) fn dict(&mut self, entries: &[(Part, Part)]) -> Option<Part> {
        self.container(Kind::Dict, entries.iter().flat_map(|&(key, value)| [key, value]))
    }

    fn container(&mut self, kind: Kind, parts: impl Iterator<Item = Part>) -> Option<Part> {
        let mut words = std::mem::take(&mut self.scratch);
        words.clear();
        words.extend(parts.map(|part| part.0));
        let object = self.graph.object(kind)?;
        self.graph.extend(object, &words)?;
        self.scratch = words;
        Some(Part(Word::object(object)))
    }

    /// Adds a JSON value. The JSON parser limits the depth of nesting.
    pub(crate) fn json(&mut self, value: &Json) -> Option<Part> {
        Some(match value {
            Json::Null => Part::NONE,
            Json::Bool(value) => Part::bool(*value),
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(value), _) => self.int(value),
                (None, Some(value)) => self.float(value),
                (None, None) => Part::NONE,
            },
            Json::String(text) => self.text(text),
            Json::Array(items) => {
                let parts: Option<Vec<Part>> = items.iter().map(|item| self.json(item)).collect();
                self.list(&parts?)?
            }
            Json::Object(entries) => {
                let pairs: Option<Vec<(Part, Part)>> = entries
                    .iter()
                    .map(|(key, value)| Some((self.text(key), self.json(value)?)))
                    .collect();
                self.dict(&pairs?)?
            }
        })
    }

    /// Returns the approximate bytes that the graph takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.graph.memory_bytes()
    }

    /// Returns the graph with this root.
    pub(crate) fn finish(mut self, root: Part) -> Graph {
        self.graph.set_root(root.0);
        self.graph
    }
}
