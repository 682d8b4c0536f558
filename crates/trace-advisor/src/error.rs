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
