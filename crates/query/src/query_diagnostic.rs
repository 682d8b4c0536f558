//! Explained errors of queries.

use std::fmt;
use std::ops::Range;

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
    /// A list of the columns of this table or view.
    Columns(String),
    /// A list of the functions.
    Functions,
}

impl fmt::Display for QueryHelp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Advice(text) => f.write_str(text),
            Self::Relations => f.write_str("`advisor tables` lists tables and views"),
            Self::Columns(name) => write!(f, "`advisor tables {name}` lists the columns"),
            Self::Functions => f.write_str("the query `SHOW FUNCTIONS` lists the functions"),
        }
    }
}

impl QueryHelp {
    pub(crate) fn did_you_mean(name: &str) -> Self {
        Self::Advice(format!("did you mean `{name}`?"))
    }
}
