//! Explained errors of queries.

use std::fmt;
use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::Span;

/// An explained error of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryDiagnostic {
    /// The query.
    pub sql: String,
    /// The bytes of the query that are wrong, if known.
    pub span: Option<Range<usize>>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, or where to look, if known.
    pub help: Option<QueryHelp>,
}

/// What helps with an error of a query. Displayed in the words of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryHelp {
    /// What to write instead.
    Advice(String),
    /// A list of the tables and views.
    Relations,
    /// The columns of a table or view.
    Columns {
        /// What is meant, if known, and the names of columns.
        text: String,
        /// The table or view.
        relation: String,
    },
    /// A list of the functions.
    Functions,
}

impl fmt::Display for QueryHelp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advice(text) => f.write_str(text),
            Self::Relations => f.write_str("`advisor tables` lists tables and views"),
            Self::Columns { text, relation } => {
                write!(f, "{text}: `advisor tables {relation}` describes them")
            }
            Self::Functions => f.write_str("the query `SHOW FUNCTIONS` lists the functions"),
        }
    }
}

impl QueryHelp {
    pub(crate) fn did_you_mean(name: &str) -> Self {
        Self::Advice(format!("did you mean `{name}`?"))
    }
}

/// The bytes of a place in a query.
pub(crate) fn bytes_of(sql: &str, span: Span) -> Option<Range<usize>> {
    bytes(sql, (span.start.line, span.start.column)..(span.end.line, span.end.column))
}

/// The bytes of a range of lines and columns.
pub(crate) fn bytes(sql: &str, range: Range<(u64, u64)>) -> Option<Range<usize>> {
    let start = byte(sql, range.start.0, range.start.1)?;
    let end = byte(sql, range.end.0, range.end.1)?;
    (start <= end).then_some(start..end)
}

/// The offset of a character: line and column are numbers from 1.
pub(crate) fn byte(sql: &str, line: u64, column: u64) -> Option<usize> {
    let (line, column) = (line.checked_sub(1)? as usize, column.checked_sub(1)? as usize);
    let start: usize = sql.split_inclusive('\n').take(line).map(str::len).sum();
    let text = sql.get(start..)?;
    let text = text.split_once('\n').map_or(text, |(line, _)| line);
    let offset = text.char_indices().map(|(at, _)| at).nth(column).unwrap_or(text.len());
    Some(start + offset)
}
