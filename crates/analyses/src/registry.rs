//! Views that are algorithms on graphs and trees, which SQL says badly: Rust from batches to a batch.
//!
//! The header of such a view is `native/<area>/<name>.toml`, with the keys that a SQL file has in its
//! `--!` lines; what it reads and the function that computes it stand in [`NATIVE`]. To the rest of the
//! program it is a view like any other: computed when first read, once a session.

mod columns;
mod comm;
mod critical;
mod hta;
mod idle;
mod kernel;
mod loader;
mod nesting;
mod op;
mod places;
mod roofline;
mod step;
mod system;
mod trainer;

use std::collections::{BTreeMap, HashMap};

use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::scalar::ScalarValue;
use trace_model::RecordBatch;

/// Every native view.
pub(crate) const NATIVE: &[Native] = &[
    comm::collectives::NATIVE,
    comm::spent::NATIVE,
    comm::stragglers::NATIVE,
    comm::views::ARRIVALS,
    comm::views::CLOCKS,
    comm::views::MATCHES,
    Native::by_rank("critical_edges", critical::READS, critical::edges),
    Native::by_rank("critical_path", critical::READS, critical::path),
    Native::by_rank("critical_what_if", critical::READS, critical::what_if),
    Native::by_rank("critical_windows", critical::READS, critical::windows),
    Native::by_rank("hta_critical_path", hta::READS, hta::summary),
    Native::by_rank("hta_critical_path_edges", hta::READS, hta::edges),
    idle::GAPS,
    kernel::annotations::NATIVE,
    loader::FETCHES,
    loader::FETCHES_BY_STEP,
    nesting::LIGHTNING_CALLS,
    nesting::MODULE_CALLS,
    nesting::MODULE_HIERARCHY,
    nesting::BY_NAME,
    nesting::BY_SHAPE,
    nesting::BY_STACK,
    Native::by_rank("op_calls", op::READS, op::calls),
    Native::by_rank("op_kernel_sequences", op::READS, op::sequences),
    roofline::ATTENTION,
    roofline::CALLS,
    roofline::CHAINS,
    roofline::DEVICES,
    step::BREAKDOWN,
    system::BY_STEP,
    system::INPUT_LIMITS,
    trainer::STEPS,
    trainer::STEPS_REBUILT,
];

/// A view computed in Rust.
#[derive(Debug)]
pub(crate) struct Native {
    /// Its name; the header is the file of that name.
    pub(crate) view: &'static str,
    /// What it reads: names and queries, which may mention `$parameters`.
    pub(crate) reads: Reads,
    /// The rows of a rank come from what was read of that rank alone; a column `rank` says which it is.
    pub(crate) is_by_rank: bool,
    /// From what was read to the rows, with the columns that the header declares; they are put in its order.
    pub(crate) compute: Compute,
}

/// Names and queries.
type Reads = &'static [(&'static str, &'static str)];

type Compute = fn(&Inputs<'_>) -> Result<RecordBatch>;

impl Native {
    /// One that goes through ranks and compares nothing between them.
    const fn by_rank(view: &'static str, reads: Reads, compute: Compute) -> Self {
        Self { view, reads, is_by_rank: true, compute }
    }

    /// One whose rows may come from several ranks.
    const fn across_ranks(view: &'static str, reads: Reads, compute: Compute) -> Self {
        Self { view, reads, is_by_rank: false, compute }
    }

    /// The native view of that name.
    pub(crate) fn find(view: &str) -> Option<&'static Self> {
        NATIVE.iter().find(|native| native.view == view)
    }
}

/// What a native view is computed from.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) batches: BTreeMap<&'static str, RecordBatch>,
    pub(crate) params: &'a HashMap<String, ScalarValue>,
    /// These are some ranks of a run, or none: what they lack, others may have.
    pub(crate) is_part: bool,
}

impl Inputs<'_> {
    /// All rows of a query, in its order.
    pub(crate) fn batch(&self, name: &str) -> Result<&RecordBatch> {
        self.batches.get(name).ok_or_else(|| exec_datafusion_err!("no query is called {name}"))
    }

    /// An integer parameter.
    pub(crate) fn int(&self, name: &str) -> Result<i64> {
        match self.param(name)? {
            ScalarValue::Int64(Some(value)) => Ok(*value),
            other => Err(exec_datafusion_err!("{name} is no integer: {other}")),
        }
    }

    /// A parameter that is true or false.
    pub(crate) fn flag(&self, name: &str) -> Result<bool> {
        match self.param(name)? {
            ScalarValue::Boolean(Some(value)) => Ok(*value),
            other => Err(exec_datafusion_err!("{name} is neither true nor false: {other}")),
        }
    }

    /// A parameter that is text.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        match self.param(name)? {
            ScalarValue::Utf8(Some(value)) => Ok(value),
            other => Err(exec_datafusion_err!("{name} is no text: {other}")),
        }
    }

    fn param(&self, name: &str) -> Result<&ScalarValue> {
        self.params.get(name).ok_or_else(|| exec_datafusion_err!("there is no parameter {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::NATIVE;
    use crate::catalog::catalog;
    use crate::module::Module;

    #[test]
    fn every_native_view_has_a_header() {
        for native in NATIVE {
            let module = catalog().find(native.view);
            assert!(module.is_some_and(Module::is_native), "{} has no header", native.view);
        }
    }
}
