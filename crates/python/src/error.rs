//! Errors as Python exceptions.

use cli::embedding::ErrorText;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception for an error: `trace_advisor.AdvisorError`, with the text and the help of the program.
pub(crate) fn exception(py: Python<'_>, error: &anyhow::Error) -> PyErr {
    let ErrorText { text, help } = ErrorText::of(error);
    let class = py.import("trace_advisor._errors").and_then(|m| m.getattr("AdvisorError"));
    match class.and_then(|class| class.call1((&text, help))) {
        Ok(exception) => PyErr::from_value(exception),
        // The package is incomplete.
        Err(_) => PyRuntimeError::new_err(text),
    }
}
