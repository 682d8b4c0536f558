//! The program `advisor`.

use std::ffi::OsString;

use pyo3::prelude::*;

use crate::blocking::{Watch, block_on};

/// Runs the program with these arguments, of which the first is its name, on the streams of the process. Returns its
/// exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cli::run(arguments).code())
}

/// Runs a command and returns what it writes to stdout.
#[pyfunction]
pub(crate) fn output_of(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<String> {
    block_on(py, &Watch::NOTHING, move || cli::embedding::output_of(&arguments))
}

/// The version of the package.
#[pyfunction]
pub(crate) const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
