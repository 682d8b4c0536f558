//! The native part of the Python package `trace_advisor`: the program, runs, reports, comparisons and rows.
//!
//! It adds nothing to the libraries: options and texts come from [`cli::embedding`]. The package in `trace_advisor/`
//! wraps it with types and defaults.

mod blocking;
mod diff;
mod error;
mod program;
mod report;
mod rows;
mod run;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::diff::Comparison;
    #[pymodule_export]
    use super::program::{main, output_of, version};
    #[pymodule_export]
    use super::report::Report;
    #[pymodule_export]
    use super::rows::Rows;
    #[pymodule_export]
    use super::run::Run;
}
