//! Mistakes in rule files as data: all of them at once, each with its place and a suggestion.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;
use trace_model::suggest::nearest;

/// A rule file, handed in as text: this crate opens nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSource {
    /// Name in findings and problems: `rules/default.toml`.
    pub name: String,
    /// The TOML text.
    pub text: String,
}

impl RuleSource {
    /// The names of the files that this file includes, which come before it; none if it is not TOML.
    pub fn includes(&self) -> Vec<String> {
        #[derive(Default, Deserialize)]
        struct Includes {
            #[serde(default)]
            include: Vec<String>,
        }
        let Includes { include } = toml::from_str(&self.text).unwrap_or_default();
        include.iter().filter_map(|path| self.included_name(path)).collect()
    }

    /// The rule file of a name, and before it the files that it includes, each once. `read` returns the text of a file.
    ///
    /// # Errors
    /// The first error of `read`.
    pub fn read_with_includes<E>(
        name: &str,
        read: &impl Fn(&str) -> Result<String, E>,
    ) -> Result<Vec<Self>, E> {
        let mut sources = Vec::new();
        Self::read_after_includes(name, read, &mut sources, &mut BTreeSet::new())?;
        Ok(sources)
    }

    fn read_after_includes<E>(
        name: &str,
        read: &impl Fn(&str) -> Result<String, E>,
        sources: &mut Vec<Self>,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), E> {
        // A file may include itself, or files that include each other.
        if !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let source = Self { name: name.to_owned(), text: read(name)? };
        for included in source.includes() {
            Self::read_after_includes(&included, read, sources, seen)?;
        }
        sources.push(source);
        Ok(())
    }

    /// The name of an included file by its path from the folder of this one; none if the path leaves the folder. A rule file
    /// may come from strangers, and errors print lines of the files that are read.
    pub(crate) fn included_name(&self, path: &str) -> Option<String> {
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let path = Path::new(path);
        let path: PathBuf = path.components().all(is_below).then(|| path.components().collect())?;
        Some(Path::new(&self.name).with_file_name(path).display().to_string())
    }
}

/// One mistake in a rule file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// [`RuleSource::name`] of the file.
    pub file: String,
    /// Byte range in the file.
    pub span: Range<usize>,
    /// Line of the start of the span, from 1.
    pub line: usize,
    /// Column of the start of the span in characters, from 1.
    pub column: usize,
    /// The mistake.
    pub message: String,
    /// What to write instead, if known.
    pub help: Option<String>,
}

impl Problem {
    /// A mistake at some bytes of a file.
    pub(crate) fn at(
        source: &RuleSource,
        span: Range<usize>,
        message: String,
        help: Option<String>,
    ) -> Self {
        let (line, column) = line_column(&source.text, span.start);
        Self { file: source.name.clone(), span, line, column, message, help }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

/// A place in one of the files being loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Index into the sources.
    pub(crate) file: usize,
    /// Bytes.
    pub(crate) bytes: Range<usize>,
}

/// A string literal and its location in a file.
#[derive(Debug, Clone)]
pub(crate) struct SpannedStr<'a> {
    pub(crate) span: Span,
    pub(crate) text: &'a str,
}

impl<'a> SpannedStr<'a> {
    pub(crate) fn new(file: usize, text: &'a Spanned<String>) -> Self {
        Self { span: Span { file, bytes: text.span() }, text: text.get_ref() }
    }
}

/// Collects problems while files are read.
pub(crate) struct Problems<'a> {
    sources: &'a [RuleSource],
    list: Vec<(Span, Problem)>,
}

impl<'a> Problems<'a> {
    pub(crate) fn new(sources: &'a [RuleSource]) -> Self {
        Self { sources, list: Vec::new() }
    }

    pub(crate) fn add(&mut self, span: &Span, message: impl Into<String>, help: Option<String>) {
        let source = &self.sources[span.file];
        let problem = Problem::at(source, span.bytes.clone(), message.into(), help);
        self.list.push((span.clone(), problem));
    }

    /// Adds a problem at the given bytes of a string, or at the whole string.
    pub(crate) fn add_within(
        &mut self,
        text: &SpannedStr<'_>,
        bytes: Option<Range<usize>>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        let Span { file, bytes: literal } = &text.span;
        let place = |bytes| bytes_within(&self.sources[*file].text, literal, text.text, &bytes);
        let bytes = bytes.and_then(place).unwrap_or_else(|| literal.clone());
        self.add(&Span { file: *file, bytes }, message, help);
    }

    /// Adds the problems of another collection whose place is `wanted`.
    pub(crate) fn take(&mut self, others: Self, wanted: impl Fn(&Span) -> bool) {
        self.list.extend(others.list.into_iter().filter(|(at, _)| wanted(at)));
    }

    /// `file:line` of a place.
    pub(crate) fn place(&self, span: &Span) -> String {
        let source = &self.sources[span.file];
        format!("{}:{}", source.name, line_column(&source.text, span.bytes.start).0)
    }

    /// All problems, in order of file and place; the same one once.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        self.list.sort_by(|(a, x), (b, y)| {
            (a.file, a.bytes.start, &x.message).cmp(&(b.file, b.bytes.start, &y.message))
        });
        let mut problems: Vec<Problem> = self.list.into_iter().map(|(_, p)| p).collect();
        problems.dedup();
        problems
    }
}

/// Maps bytes of a string to bytes of the file, where its literal is at `literal`. If the line contains escapes,
/// returns the whole line.
pub(crate) fn bytes_within(
    file: &str,
    literal: &Range<usize>,
    text: &str,
    bytes: &Range<usize>,
) -> Option<Range<usize>> {
    let quoted = file.get(literal.clone())?;
    let body = ["\"\"\"", "'''"].iter().find_map(|quotes| quoted.strip_prefix(quotes));
    let body = match body {
        // TOML ignores a line break directly after the opening triple quotes.
        Some(body) => body.strip_prefix("\r\n").or(body.strip_prefix('\n')).unwrap_or(body),
        None => quoted.strip_prefix(['"', '\''])?,
    };
    let before = text.get(..bytes.start)?;
    let number = before.matches('\n').count();
    let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = body.split_inclusive('\n');
    let skipped: usize = lines.by_ref().take(number).map(str::len).sum();
    let start = literal.end - body.len() + skipped;
    let line = lines.next()?;
    let of_text = text.split('\n').nth(number)?.trim_end();
    if line.starts_with(of_text) {
        let end = (column + bytes.len()).min(of_text.len());
        return (column <= end).then_some(start + column..start + end);
    }
    let line = line.trim_end_matches(['\n', '\r', '"', '\'']);
    let indent = line.len() - line.trim_start().len();
    let end = line.trim_end().len();
    (indent < end).then_some(start + indent..start + end)
}

/// Line and column (in characters) of a byte offset, both from 1.
fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    // Called for every rule and every test in it.
    let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
    (lines + 1, before[line_start..].chars().count() + 1)
}

/// "did you mean `x`?" for the candidate nearest to `word`, if one is near enough.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|best| format!("did you mean `{best}`?"))
}

#[cfg(test)]
mod tests {
    use super::line_column;

    #[test]
    fn line_column_counts_characters_from_one() {
        assert_eq!(line_column("ab\ncd", 0), (1, 1));
        assert_eq!(line_column("ab\né d", 6), (2, 3));
        assert_eq!(line_column("ab", 99), (1, 3));
    }
}
