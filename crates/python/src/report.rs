//! A report.

use std::ffi::OsString;
use std::sync::Arc;

use cli::Terminal;
use cli::embedding::{CheckedRun, Style};
use pyo3::prelude::*;

use crate::blocking::{Watch, block_on};
use crate::error::exception;

/// A checked run.
#[pyclass(frozen, module = "trace_advisor._native")]
pub(crate) struct Report {
    pub(crate) checked: Arc<CheckedRun>,
}

#[pymethods]
impl Report {
    /// Whether the check fails: there are findings of the severity of `fail_on` or above.
    #[getter]
    fn has_failed(&self) -> bool {
        self.checked.has_failed()
    }

    /// A question about a step time that is far from the recording.
    #[getter]
    fn step_time_doubt(&self) -> Option<String> {
        self.checked.step_time_doubt()
    }

    /// True if at least one rule has a verdict.
    #[getter]
    fn is_judged(&self) -> bool {
        self.checked.is_judged()
    }

    /// The report in a format of `advisor check`. Text is wrapped to `columns`, and colored if asked for.
    #[pyo3(signature = (format, options, columns = None, color = false))]
    fn render(
        &self,
        py: Python<'_>,
        format: String,
        options: Vec<OsString>,
        columns: Option<usize>,
        color: bool,
    ) -> PyResult<String> {
        let checked = Arc::clone(&self.checked);
        let style = style(columns, color);
        block_on(py, &Watch::NOTHING, move || checked.render(&format, &options, style))
    }

    /// A step as lanes of characters or as SVG, with a finding marked.
    #[pyo3(signature = (format, rule = None, step = None, columns = None, color = false))]
    fn timeline(
        &self,
        py: Python<'_>,
        format: String,
        rule: Option<String>,
        step: Option<i64>,
        columns: Option<usize>,
        color: bool,
    ) -> PyResult<String> {
        let checked = Arc::clone(&self.checked);
        let style = style(columns, color);
        block_on(py, &Watch::NOTHING, move || {
            checked.timeline(rule.as_deref(), step, &format, style)
        })
    }

    /// A finding in full, as text.
    fn text_of_finding(&self, py: Python<'_>, position: usize) -> PyResult<String> {
        let text = self.checked.text_of_finding(position, Style::default());
        text.map_err(|error| exception(py, &error))
    }

    /// The report as a page: all of it, or the overview and the findings.
    fn html(&self, py: Python<'_>, overview_only: bool) -> PyResult<String> {
        let checked = Arc::clone(&self.checked);
        let options = page::Options { overview_only, ..page::Options::default() };
        block_on(py, &Watch::NOTHING, move || checked.html(&options))
    }
}

/// Returns the layout for a terminal of this width, or for a file if there is none.
pub(crate) fn style(columns: Option<usize>, has_color: bool) -> Style {
    let terminal = columns.map(|columns| Terminal { columns, has_unicode: true });
    Style { has_color, terminal }
}
