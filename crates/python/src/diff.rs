//! A comparison of two runs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use cli::embedding::{ComparedRuns, DiffOptions, WorkProgress};
use pyo3::prelude::*;

use crate::blocking::{Watch, block_on};
use crate::report::style;
use crate::rows::Rows;
use crate::run::Run;

/// A comparison of two runs. Its options are those of `advisor diff`.
#[pyclass(frozen, module = "trace_advisor._native")]
pub(crate) struct Comparison {
    compared: Arc<ComparedRuns>,
}

#[pymethods]
impl Comparison {
    /// Opens two runs and compares them.
    #[staticmethod]
    #[pyo3(signature = (before, after, options, progress = None))]
    fn of_paths(
        py: Python<'_>,
        before: PathBuf,
        after: PathBuf,
        options: Vec<OsString>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let work = WorkProgress::of_diff();
        let watched = work.clone();
        let watch = Watch {
            progress: progress.as_ref().map(|callable| (watched, callable)),
            ..Watch::NOTHING
        };
        let compared = block_on(py, &watch, move || {
            let options = DiffOptions::parse(&before, &after, &options)?;
            let (before, after) = options.open(&work)?;
            options.compare(Arc::new(before), Arc::new(after))
        })?;
        Ok(Self { compared: Arc::new(compared) })
    }

    /// Compares two open runs.
    #[staticmethod]
    fn of_runs(
        py: Python<'_>,
        before: &Run,
        after: &Run,
        options: Vec<OsString>,
    ) -> PyResult<Self> {
        let paths = (before.path.clone(), after.path.clone());
        let runs = (Arc::clone(&before.opened), Arc::clone(&after.opened));
        let cancel =
            || [&before.opened, &after.opened].into_iter().for_each(|run| run.cancel_calls());
        let watch = Watch { progress: None, cancel: &cancel };
        let compared = block_on(py, &watch, move || {
            DiffOptions::parse(&paths.0, &paths.1, &options)?.compare(runs.0, runs.1)
        })?;
        Ok(Self { compared: Arc::new(compared) })
    }

    /// Whether `advisor diff` with these options exits with code 1.
    #[getter]
    fn has_failed(&self) -> bool {
        self.compared.has_failed()
    }

    /// The names that one of the runs has, with calls and time before and after.
    fn rows(&self, py: Python<'_>) -> PyResult<Rows> {
        let compared = Arc::clone(&self.compared);
        let rows = block_on(py, &Watch::NOTHING, move || compared.rows())?;
        Ok(Rows::new(vec![rows]))
    }

    /// The comparison in a format of `advisor diff`.
    #[pyo3(signature = (format, options, columns = None, color = false))]
    fn render(
        &self,
        py: Python<'_>,
        format: String,
        options: Vec<OsString>,
        columns: Option<usize>,
        color: bool,
    ) -> PyResult<String> {
        let compared = Arc::clone(&self.compared);
        let style = style(columns, color);
        block_on(py, &Watch::NOTHING, move || compared.render(&format, &options, style))
    }
}
