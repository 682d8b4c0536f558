//! Errors of views and queries. Errors in the file of a view name the file and the line.

use std::sync::Arc;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::tokenizer::Span;
use trace_model::suggest::nearest;

use crate::query_diagnostic::QueryDiagnostic;
use crate::rust_view::ViewError;

/// The reason why a view or a query has no rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `--!` lines of a view are not a valid header.
    #[error("{path}:{line}: {message}")]
    Header {
        /// File, relative to the crate.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// A view needs something that is neither a table nor a view.
    #[error("{path}:{line}: needs `{need}`, which is neither a table nor a view{}", did_you_mean(.similar.as_deref()))]
    UnknownNeed {
        /// File, relative to the crate.
        path: String,
        /// Line, from 1.
        line: usize,
        /// The name as written.
        need: String,
        /// A name that exists and looks like it.
        similar: Option<String>,
    },
    /// The prepared plans of a catalog cannot be read.
    #[error("the prepared plans cannot be read: {0}")]
    PreparedPlans(String),
    /// Views need each other in a cycle.
    #[error("views need each other in a cycle: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
    /// Two views have the same name.
    #[error("{path}: the name `{name}` is taken by {by}")]
    DuplicateName {
        /// File, relative to the crate.
        path: String,
        /// The name both would have.
        name: String,
        /// The other owner of the name.
        by: String,
    },
    /// There is no view of that name.
    #[error("there is no view `{name}`{}", did_you_mean(.similar.as_deref()))]
    UnknownView {
        /// The requested name.
        name: String,
        /// A name that exists and looks like it.
        similar: Option<String>,
    },
    /// No view has a parameter of that name.
    #[error("there is no parameter `{name}`; there are: {known}")]
    UnknownParam {
        /// The name given.
        name: String,
        /// All names, comma-separated.
        known: String,
    },
    /// A parameter was given a value of another type than its default.
    #[error("parameter `{name}` is {expected}, not `{got}`")]
    ParamType {
        /// The parameter.
        name: String,
        /// The type it has.
        expected: &'static str,
        /// The value given.
        got: String,
    },
    /// The SQL of a view cannot be planned or run.
    #[error("{path}:{line}: {source}")]
    View {
        /// View.
        view: String,
        /// File, relative to the crate.
        path: String,
        /// Line, from 1; 1 where the engine does not say.
        line: usize,
        /// What the engine says.
        source: Arc<DataFusionError>,
    },
    /// A view in Rust rejects its parameters or its inputs.
    #[error("{view}: {source}")]
    RustView {
        /// View.
        view: String,
        /// What is wrong.
        source: ViewError,
    },
    /// A query given by the user cannot be planned or run.
    #[error("{}", .0.message)]
    Query(Box<QueryDiagnostic>),
    /// A query given by the user was canceled.
    #[error("the query was canceled")]
    Canceled,
    /// The query of a rule took longer than such queries may.
    #[error("the query took more than {} s", .0.as_secs())]
    TimeLimit(Duration),
    /// The engine failed, or rows of it are not as expected.
    #[error("{}", engine_message(.0))]
    Engine(DataFusionError),
    /// A query given by the user would change something.
    #[error("only queries are allowed here (SELECT, WITH, VALUES, EXPLAIN, SHOW, DESCRIBE): {0}")]
    NotReadOnly(String),
    /// A view's column has a type that no metric can have.
    #[error("{view}.{column}: a column of type {data_type} cannot be read as a metric")]
    ColumnType {
        /// View.
        view: String,
        /// Column.
        column: String,
        /// Arrow type.
        data_type: String,
    },
    /// Selected ranks or steps that the run does not have.
    #[error("{0}")]
    Selection(String),
    /// The threads that run queries could not be started.
    #[error("cannot start the query threads: {0}")]
    Runtime(#[from] std::io::Error),
}

/// The outcome of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The view whose query or code failed. Travels through DataFusion as an external error.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{view}: {source}")]
pub(crate) struct ViewFailure {
    pub(crate) view: String,
    pub(crate) source: Arc<DataFusionError>,
}

impl From<ViewFailure> for DataFusionError {
    fn from(failure: ViewFailure) -> Self {
        Self::External(Box::new(failure))
    }
}

impl From<ViewError> for Error {
    fn from(error: ViewError) -> Self {
        Self::Engine(error.into())
    }
}

impl Error {
    /// Returns whether the query ran out of the memory that it may use.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        match self {
            Self::View { source, .. } => is_out_of_memory(source),
            Self::Engine(source) => is_out_of_memory(source),
            _ => false,
        }
    }
}

/// Returns whether a query ran out of the memory that it may use.
pub(crate) fn is_out_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// A query reads a name that is neither a table nor a view.
#[derive(Debug, thiserror::Error)]
#[error("there is no table or view `{name}`")]
pub(crate) struct UnknownRelation {
    pub(crate) name: String,
    /// Place in the query, if known.
    pub(crate) span: Option<Span>,
}

/// The number of candidates if a view in Rust found nothing that its parameters select.
pub(crate) fn no_match_candidates(error: &DataFusionError) -> Option<usize> {
    let DataFusionError::External(inner) = error else { return None };
    match (inner.downcast_ref::<ViewFailure>(), inner.downcast_ref::<ViewError>()) {
        (Some(failure), _) => no_match_candidates(&failure.source),
        (_, Some(&ViewError::NoMatch { candidates, .. })) => Some(candidates),
        _ => None,
    }
}

/// The text of an error of the engine; errors of ours without the words that DataFusion puts before them.
fn engine_message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::External(inner) => inner.to_string(),
        error => error.to_string(),
    }
}

fn did_you_mean(similar: Option<&str>) -> String {
    similar.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// The candidate nearest to `name`, if one is near enough.
pub fn similar<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(str::to_owned)
}

/// The line, from 1, that an error of the engine points to: from its spans where it has them, else
/// from its words (`at Line: 3, Column: 14`).
pub(crate) fn line_of(error: &DataFusionError) -> usize {
    if let Some(span) = error.diagnostic().and_then(|d| d.span) {
        return span.start.line as usize;
    }
    let text = error.to_string();
    text.split_once("Line: ")
        .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(1)
}
