//! Errors of opening and checking a run.

/// An error between a path and a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run could not be read.
    #[error(transparent)]
    Ingest(#[from] ingest::Error),
    /// The selected part is not in the run.
    #[error(transparent)]
    Selection(#[from] query::SelectionError),
    /// The selected part of the run has no events.
    #[error("{0}")]
    Empty(String),
    /// A view or a query could not be planned or run.
    #[error(transparent)]
    Analysis(#[from] query::Error),
    /// The query of a rule could not be planned or run.
    #[error("the query of rule `{rule}`: {source}")]
    RuleQuery {
        /// Name of the rule.
        rule: String,
        /// The mistake.
        source: query::Error,
    },
    /// The query of a rule lacks a column, or returns a type that cannot be a metric.
    #[error("the query of rule `{rule}`: {message}")]
    RuleColumns {
        /// Name of the rule.
        rule: String,
        /// The mistake.
        message: String,
    },
}

impl Error {
    /// Returns the reason why a view or query failed, in one line, for callers that continue without its rows. Returns
    /// `None` for other errors, for example if the run cannot be read or the call was canceled.
    pub fn failed_query(&self) -> Option<String> {
        match self {
            Self::Analysis(query::Error::Canceled | query::Error::Runtime(_))
            | Self::RuleQuery {
                source: query::Error::Canceled | query::Error::Runtime(_), ..
            } => None,
            // DataFusion does not report which part of a running query failed.
            Self::Analysis(query::Error::Query(diagnostic)) => {
                Some(format!("a view that it reads failed: {}", diagnostic.message))
            }
            Self::Analysis(source) => Some(source.reason()),
            Self::RuleQuery { rule, source: query::Error::TimeLimit(limit) } => {
                Some(format!("the query of `{rule}` took more than {} s", limit.as_secs()))
            }
            Self::RuleQuery { rule, source } => {
                Some(format!("the query of `{rule}` failed: {}", source.reason()))
            }
            Self::RuleColumns { rule, message } => {
                Some(format!("the query of `{rule}` failed: {message}"))
            }
            _ => None,
        }
    }
}
