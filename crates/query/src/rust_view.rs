//! Views computed in Rust: graph and tree algorithms that SQL expresses badly.

use std::collections::{BTreeMap, HashMap};

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use trace_model::RecordBatch;

use crate::params::ParamValue;

/// A view computed in Rust. Its documentation is the header of the same name in the catalog.
#[derive(Debug)]
pub struct RustView {
    /// Name of the view.
    pub name: &'static str,
    /// Names and queries of the inputs; queries may mention `$parameters`.
    pub inputs: InputQueries,
    /// From the rows of the inputs to the rows of the view, with the columns that the header declares.
    /// The engine sorts them by the header's `order`.
    pub compute: ComputeFn,
}

/// Names and queries of the inputs of a view.
pub type InputQueries = &'static [(&'static str, &'static str)];

/// Computes the rows of a view.
pub type ComputeFn = fn(&ViewInputs<'_>) -> Result<RecordBatch>;

/// The outcome of computing a view.
pub type Result<T, E = ViewError> = std::result::Result<T, E>;

/// The reason why a view could not be computed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Parameters or rows that the view cannot work with.
    #[error("{0}")]
    Invalid(String),
    /// A parameter selects something that no rank of the inputs has. For a run of several rank groups this
    /// is an error only if no group has it.
    #[error("{message}")]
    NoMatch {
        /// What selects nothing.
        message: String,
        /// How many rows came close. Of several rank groups, the message of the one with most is reported.
        candidates: usize,
    },
    /// An Arrow kernel failed.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Formats a [`ViewError::Invalid`].
#[macro_export]
macro_rules! view_error {
    ($($format:tt)*) => {
        $crate::rust_view::ViewError::Invalid(format!($($format)*))
    };
}

impl ViewError {
    /// The same error; that of an Arrow kernel as its text.
    pub(crate) fn duplicate(&self) -> Self {
        match self {
            Self::NoMatch { message, candidates } => {
                Self::NoMatch { message: message.clone(), candidates: *candidates }
            }
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl From<ViewError> for DataFusionError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Arrow(error) => error.into(),
            error => Self::External(Box::new(error)),
        }
    }
}

impl RustView {
    /// A view computed from these inputs.
    pub const fn new(name: &'static str, inputs: InputQueries, compute: ComputeFn) -> Self {
        Self { name, inputs, compute }
    }
}

/// Input rows and parameters of a view.
#[derive(Debug)]
pub struct ViewInputs<'a> {
    pub(crate) batches: BTreeMap<&'static str, RecordBatch>,
    pub(crate) params: &'a HashMap<String, ParamValue>,
}

impl ViewInputs<'_> {
    /// All rows of an input, in the order of its query.
    pub fn batch(&self, name: &str) -> Result<&RecordBatch> {
        self.batches.get(name).ok_or_else(|| view_error!("the view has no input `{name}`"))
    }

    /// An integer parameter.
    pub fn int(&self, name: &str) -> Result<i64> {
        match self.param(name)? {
            ParamValue::Int(value) => Ok(*value),
            other => Err(view_error!("{name} is not an integer: {other}")),
        }
    }

    /// A Boolean parameter.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.param(name)? {
            ParamValue::Bool(value) => Ok(*value),
            other => Err(view_error!("{name} is neither true nor false: {other}")),
        }
    }

    /// A text parameter.
    pub fn text(&self, name: &str) -> Result<&str> {
        match self.param(name)? {
            ParamValue::Text(value) => Ok(value),
            other => Err(view_error!("{name} is not a text: {other}")),
        }
    }

    fn param(&self, name: &str) -> Result<&ParamValue> {
        self.params.get(name).ok_or_else(|| view_error!("no view declares the parameter `{name}`"))
    }
}
