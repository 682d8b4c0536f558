//! Documentation of a view in TOML: the `--!` lines at the top of a SQL file, or a file of its own for a view in Rust.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::error::{Error, Result};

/// The ranks that a row of a view depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewScope {
    /// One: rows of a rank derive from the tables of that rank.
    #[default]
    Rank,
    /// Several: the view compares or aggregates ranks.
    Run,
}

/// The part of a recording that the times, counts and ratios of a view refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Everything that was recorded.
    Recording,
    /// What was launched before the last of several profiler steps began; all with `include_last_step`.
    BeforeLastStep,
    /// From the first to the last of the device activities that [`Window::BeforeLastStep`] counts.
    ActivitySpan,
    /// Every complete step, with the device work that it launched.
    CompleteSteps,
    /// From the start of the first step that counts to the end of the last, with the device work that they launched: complete
    /// steps without warm-up.
    CountedSteps,
    /// All steps as they are marked on the host.
    AllSteps,
    /// All steps but the first.
    LaterSteps,
    /// All samples of the machines.
    Samples,
    /// The history that the caching allocator recorded for a memory snapshot.
    History,
    /// No time span: properties, or the moment of a memory snapshot.
    NotTimed,
}

impl Window {
    /// What is counted, in words that complete "it counts ...".
    pub fn doc(self) -> &'static str {
        match self {
            Self::Recording => "the whole recording",
            Self::BeforeLastStep => {
                "what was launched before the last of several steps; with --include-last-step, that step too"
            }
            Self::ActivitySpan => {
                "from the first to the last GPU activity launched before the last of several steps; with \
                 --include-last-step, that step too"
            }
            Self::CompleteSteps => {
                "complete steps, with the GPU work that they launched; without steps, the whole recording"
            }
            Self::CountedSteps => {
                "complete steps without warm-up, with the GPU work that they launched; without steps, the whole recording"
            }
            Self::AllSteps => "all steps, the last one included",
            Self::LaterSteps => "all steps after the first",
            Self::Samples => "all samples of the machines",
            Self::History => "the history that the allocator recorded",
            Self::NotTimed => "no time span",
        }
    }
}

/// A header as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    #[serde(default)]
    pub(crate) question: String,
    pub(crate) row: String,
    pub(crate) window: Option<Window>,
    #[serde(default)]
    pub(crate) sort: Vec<String>,
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    #[serde(default)]
    pub(crate) order: Vec<String>,
    /// Names of capabilities.
    #[serde(default)]
    pub(crate) requires: Vec<String>,
    pub(crate) when_empty: Option<String>,
    #[serde(default)]
    pub(crate) scope: ViewScope,
    #[serde(default)]
    pub(crate) params: Ordered<ParamHeader>,
    pub(crate) columns: Ordered<ColumnHeader>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParamHeader {
    pub(crate) default: toml::Value,
    pub(crate) doc: String,
}

/// A column: its documentation alone, or a table with unit and metric scope as well.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnTable {
    doc: String,
    #[serde(default)]
    unit: String,
    metric: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ColumnHeader {
    pub(crate) doc: String,
    pub(crate) unit: String,
    pub(crate) metric: Option<String>,
}

impl<'de> Deserialize<'de> for ColumnHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;

        impl<'de> Visitor<'de> for TextOrTable {
            type Value = ColumnTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sentence, or { doc = \"...\", unit = \"...\", metric = \"...\" }")
            }

            fn visit_str<E: serde::de::Error>(self, doc: &str) -> Result<ColumnTable, E> {
                Ok(ColumnTable { doc: doc.to_owned(), ..ColumnTable::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ColumnTable, A::Error> {
                ColumnTable::deserialize(MapAccessDeserializer::new(map))
            }
        }

        let ColumnTable { doc, unit, metric } = deserializer.deserialize_any(TextOrTable)?;
        Ok(Self { doc, unit, metric })
    }
}

/// A TOML table in the order it was written.
#[derive(Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Reads the header of `text`. Line n of the header is line n of the file, so that errors can name
/// it; the lines stay in the SQL, where they are comments.
pub(crate) fn parse(path: &str, text: &str) -> Result<Header> {
    let lines: Vec<&str> = lines(path, text).collect();
    if lines.is_empty() {
        return Err(error(
            path,
            1,
            "a view begins with its header, in lines that start with `--!`",
        ));
    }
    let toml = lines.join("\n");
    toml::from_str(&toml).map_err(|e| {
        let line = e.span().map_or(1, |span| toml[..span.start].matches('\n').count() + 1);
        error(path, line, e.message())
    })
}

/// An error at the first header line that mentions `word`.
pub(crate) fn error_at(path: &str, text: &str, word: &str, message: impl Into<String>) -> Error {
    error(path, line_of_word(path, text, word), message)
}

/// The first header line that mentions `word`, from 1.
pub(crate) fn line_of_word(path: &str, text: &str, word: &str) -> usize {
    let mentions = |line: &str| {
        line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|part| part == word)
    };
    lines(path, text).position(mentions).map_or(1, |i| i + 1)
}

/// Whether a file is only a header, of a view that Rust computes.
pub(crate) fn is_rust_view(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "toml")
}

/// The lines of TOML at the top of a file.
fn lines<'a>(path: &str, text: &'a str) -> impl Iterator<Item = &'a str> {
    let whole = is_rust_view(path);
    text.lines().map_while(move |line| {
        if whole { Some(line) } else { line.strip_prefix("--!").map(str::trim_start) }
    })
}

fn error(path: &str, line: usize, message: impl Into<String>) -> Error {
    Error::Header { path: path.to_owned(), line, message: message.into() }
}
