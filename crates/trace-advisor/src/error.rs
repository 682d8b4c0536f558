//! Why a run could not be checked.

/// What can go wrong between a path and a report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run could not be read.
    #[error(transparent)]
    Ingest(#[from] ingest::Error),
    /// The part asked for is not in the run.
    #[error(transparent)]
    Selection(#[from] query::SelectionError),
    /// A view or a query could not be planned or run.
    #[error(transparent)]
    Analysis(#[from] query::Error),
    /// The query of a rule could not be planned or run.
    #[error("the query of rule `{rule}`: {source}")]
    RuleQuery {
        /// Name of the rule.
        rule: String,
        /// What is wrong with it.
        source: query::Error,
    },
    /// The query of a rule returns something that no metric can be.
    #[error("the query of rule `{rule}`: {message}")]
    RuleColumns {
        /// Name of the rule.
        rule: String,
        /// What is wrong with it.
        message: String,
    },
}
