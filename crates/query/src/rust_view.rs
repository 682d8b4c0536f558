//! Views computed in Rust: graph and tree algorithms that SQL expresses badly.

use std::collections::{BTreeMap, HashMap};

use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use trace_model::RecordBatch;

use crate::params::ParamValue;
use crate::row_order::OrderCheck;
use crate::storage::TableStorage;
use crate::stored_rows::{Rows, SpillWriter, StoredRows, nullable};

/// A view computed in Rust. Its documentation is the header of the same name in the catalog.
#[derive(Debug)]
pub struct RustView {
    /// Name of the view.
    pub name: &'static str,
    /// Names and queries of the inputs; queries may mention `$parameters`.
    pub inputs: InputQueries,
    /// The computation of its rows.
    pub computation: Computation,
}

/// From the rows of inputs to the rows of a view, with the columns that its header declares.
#[derive(Debug, Clone, Copy)]
pub enum Computation {
    /// Of all rows at once. The engine sorts what it returns by the header's `order`.
    Own(ComputeFn),
    /// Together with other views, batch by batch. Each view of it has its own inputs.
    Shared(&'static SharedComputation),
}

/// Computes several views from the same rows. Those that queries are known to read are computed together.
///
/// No view of a computation may be built on another one of it, also not through views of other computations. Inputs of the
/// same name have the same query.
#[derive(Debug)]
pub struct SharedComputation {
    /// Unique name of the computation.
    pub name: &'static str,
    /// Computes the rows of the requested views, in the order that their headers declare.
    pub compute: SharedComputeFn,
}

/// Names and queries of the inputs of a view.
pub type InputQueries = &'static [(&'static str, &'static str)];

/// Computes the rows of a view.
pub type ComputeFn = fn(&ViewInputs<'_>) -> Result<RecordBatch>;

/// Computes the rows of several views.
pub type SharedComputeFn = fn(&ViewInputs<'_>, &mut ViewOutputs) -> Result<()>;

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
    /// Rows could not be read or kept.
    #[error(transparent)]
    Rows(#[from] DataFusionError),
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
            ViewError::Rows(error) => error,
            error => Self::External(Box::new(error)),
        }
    }
}

impl RustView {
    /// A view computed from these inputs.
    pub const fn new(name: &'static str, inputs: InputQueries, compute: ComputeFn) -> Self {
        Self { name, inputs, computation: Computation::Own(compute) }
    }

    /// A view computed together with others.
    pub const fn shared(
        name: &'static str,
        inputs: InputQueries,
        computation: &'static SharedComputation,
    ) -> Self {
        Self { name, inputs, computation: Computation::Shared(computation) }
    }

    /// The computation that it shares with other views.
    pub(crate) fn shared_computation(&self) -> Option<&'static SharedComputation> {
        match self.computation {
            Computation::Own(_) => None,
            Computation::Shared(shared) => Some(shared),
        }
    }
}

/// Input rows and parameters of a view.
#[derive(Debug)]
pub struct ViewInputs<'a> {
    batches: BTreeMap<&'static str, RecordBatch>,
    stored: BTreeMap<&'static str, StoredRows>,
    params: &'a HashMap<String, ParamValue>,
}

impl<'a> ViewInputs<'a> {
    /// Inputs of which all rows are in memory.
    pub(crate) fn new(
        batches: BTreeMap<&'static str, RecordBatch>,
        params: &'a HashMap<String, ParamValue>,
    ) -> Self {
        Self { batches, stored: BTreeMap::new(), params }
    }

    /// Inputs that are read batch by batch.
    pub(crate) fn stored(
        stored: BTreeMap<&'static str, StoredRows>,
        params: &'a HashMap<String, ParamValue>,
    ) -> Self {
        Self { batches: BTreeMap::new(), stored, params }
    }
}

impl ViewInputs<'_> {
    /// All rows of an input, in the order of its query.
    pub fn batch(&self, name: &str) -> Result<&RecordBatch> {
        self.batches.get(name).ok_or_else(|| view_error!("the view has no input `{name}`"))
    }

    /// The rows of an input of a [`SharedComputation`], in the order of its query.
    pub fn batches(&self, name: &str) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
        let batches = self.stored_rows(name)?.batches()?;
        Ok(batches.map(|batch| batch.map_err(ViewError::from)))
    }

    /// All rows of a small input of a [`SharedComputation`], in the order of its query.
    pub fn all_rows(&self, name: &str) -> Result<RecordBatch> {
        let rows = self.stored_rows(name)?.collect()?;
        Ok(concat_batches(&rows.schema, &rows.batches)?)
    }

    /// Number of rows of an input of a [`SharedComputation`].
    pub fn row_count(&self, name: &str) -> Result<usize> {
        Ok(self.stored_rows(name)?.row_count())
    }

    fn stored_rows(&self, name: &str) -> Result<&StoredRows> {
        self.stored.get(name).ok_or_else(|| view_error!("the view has no input `{name}`"))
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

/// Takes the rows of views that are computed together.
pub struct ViewOutputs {
    storage: TableStorage,
    writers: BTreeMap<&'static str, (Order, Option<RowWriter>)>,
}

/// The columns by which the rows of a view are sorted.
type Order = &'static [String];

/// Collects the rows of one view.
enum RowWriter {
    Memory(Rows, OrderCheck),
    Spilled(Box<SpillWriter>),
}

impl ViewOutputs {
    /// Rows of a batch.
    const BATCH_ROWS: usize = 1 << 16;

    /// For views of these names and orders.
    pub(crate) fn new(
        views: impl IntoIterator<Item = (&'static str, Order)>,
        storage: TableStorage,
    ) -> Self {
        let writers = views.into_iter().map(|(view, order)| (view, (order, None))).collect();
        Self { storage, writers }
    }

    /// Returns whether the rows of a view are requested.
    pub fn is_requested(&self, view: &str) -> bool {
        self.writers.contains_key(view)
    }

    /// Adds rows of a requested view. A view without rows gets one batch, which tells its columns.
    pub fn write(&mut self, view: &str, batch: &RecordBatch) -> Result<()> {
        let Some((order, writer)) = self.writers.get_mut(view) else {
            return Err(view_error!("the rows of `{view}` were not requested"));
        };
        let writer = match writer {
            Some(writer) => writer,
            None => writer.insert(RowWriter::new(self.storage, order, batch)?),
        };
        writer.write(batch)
    }

    /// Adds rows of a requested view, in batches of a limited size.
    pub fn write_rows<T>(
        &mut self,
        view: &str,
        rows: impl IntoIterator<Item = T>,
        batch: impl Fn(&[T]) -> Result<RecordBatch>,
    ) -> Result<()> {
        let (mut rows, mut of_batch) = (rows.into_iter().peekable(), Vec::new());
        loop {
            of_batch.clear();
            of_batch.extend(rows.by_ref().take(Self::BATCH_ROWS));
            self.write(view, &batch(&of_batch)?)?;
            if rows.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// The rows of each view.
    pub(crate) fn finish(self) -> Result<BTreeMap<&'static str, StoredRows>> {
        let rows = |(name, (order, writer)): (&'static str, (Order, Option<RowWriter>))| {
            let writer = writer.ok_or_else(|| view_error!("`{name}` was not computed"))?;
            if !order.is_empty() && !writer.is_sorted() {
                let order = order.join(", ");
                return Err(view_error!("the rows of `{name}` are not sorted by {order}"));
            }
            Ok((name, writer.finish()?))
        };
        self.writers.into_iter().map(rows).collect()
    }
}

impl std::fmt::Debug for ViewOutputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewOutputs").field("views", &self.writers.keys()).finish_non_exhaustive()
    }
}

impl RowWriter {
    /// For rows with the columns of `batch`, sorted by `order`.
    fn new(storage: TableStorage, order: Order, batch: &RecordBatch) -> Result<Self> {
        // Whether a column has nulls depends on the rows of the batch.
        let schema = nullable(&batch.schema());
        Ok(match storage {
            TableStorage::Memory => {
                let check = OrderCheck::new(&schema, order);
                Self::Memory(Rows { schema, batches: Vec::new() }, check)
            }
            TableStorage::Streamed => Self::Spilled(Box::new(SpillWriter::new(&schema, order)?)),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Memory(rows, check) => {
                check.add(batch)?;
                let columns = batch.columns().to_vec();
                rows.batches.push(RecordBatch::try_new(rows.schema.clone(), columns)?);
                Ok(())
            }
            Self::Spilled(writer) => Ok(writer.write(batch)?),
        }
    }

    fn is_sorted(&self) -> bool {
        match self {
            Self::Memory(_, check) => check.is_sorted(),
            Self::Spilled(writer) => writer.is_sorted(),
        }
    }

    fn finish(self) -> Result<StoredRows> {
        match self {
            Self::Memory(rows, _) => Ok(StoredRows::Memory(rows)),
            Self::Spilled(writer) => Ok(writer.finish()?),
        }
    }
}
