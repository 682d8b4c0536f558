//! An open run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use cli::embedding::{CheckOptions, WorkProgress};
use pyo3::prelude::*;
use trace_advisor::analyses::catalog;
use trace_advisor::query::Cancellation;
use trace_advisor::trace_model::tables::TABLES;

use crate::blocking::{Watch, block_on};
use crate::report::Report;
use crate::rows::Rows;

/// An open run. Its options are those of `advisor check`.
#[pyclass(frozen, module = "trace_advisor._native")]
pub(crate) struct Run {
    pub(crate) opened: Arc<trace_advisor::Run>,
    pub(crate) path: PathBuf,
    options: Vec<OsString>,
    /// The session of the run reports to it.
    work: WorkProgress,
}

#[pymethods]
impl Run {
    /// Opens the run at a path or an address. `progress` is called with stage, items done, items, kind of items and ratio.
    #[staticmethod]
    #[pyo3(signature = (path, options, progress = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        options: Vec<OsString>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let work = WorkProgress::of_check();
        let (reading, at, given) = (work.clone(), path.clone(), options.clone());
        let watch = Watch {
            progress: progress.as_ref().map(|callable| (work.clone(), callable)),
            ..Watch::NOTHING
        };
        let run = block_on(py, &watch, move || CheckOptions::parse(&at, &given)?.open(&reading))?;
        Ok(Self { opened: Arc::new(run), path, options, work })
    }

    /// The path or address, as it was given.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into_os_string()
    }

    /// The ranks that were read.
    #[getter]
    fn ranks(&self) -> Vec<i32> {
        self.opened.info().ranks.clone()
    }

    /// Warnings of reading: file, message, and number of times.
    #[getter]
    fn warnings(&self) -> Vec<(String, String, u64)> {
        let warnings = self.opened.warnings().iter();
        warnings.map(|w| (w.file.clone(), w.message.clone(), w.count)).collect()
    }

    /// Evaluates rules. The options are those of `advisor check` about rules.
    #[pyo3(signature = (options, progress = None))]
    fn check(
        &self,
        py: Python<'_>,
        options: Vec<OsString>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Report> {
        let (run, path) = (Arc::clone(&self.opened), self.path.clone());
        let mut all = self.options.clone();
        all.extend(options);
        let watch = Watch {
            progress: progress.as_ref().map(|callable| (self.work.clone(), callable)),
            cancel: &|| self.opened.cancel_calls(),
        };
        let checked = block_on(py, &watch, move || CheckOptions::parse(&path, &all)?.check(run))?;
        Ok(Report { checked: Arc::new(checked) })
    }

    /// The rows of a query.
    fn sql(&self, py: Python<'_>, query: String) -> PyResult<Rows> {
        let (run, cancellation) = (Arc::clone(&self.opened), Cancellation::new());
        let canceled = cancellation.clone();
        let watch = Watch { progress: None, cancel: &|| canceled.cancel() };
        let batches = block_on(py, &watch, move || Ok(run.sql_unless(&cancellation, &query)?))?;
        Ok(Rows::new(batches))
    }

    /// The rows of a view, with values of parameters by name.
    fn view(&self, py: Python<'_>, name: String, params: Vec<(String, String)>) -> PyResult<Rows> {
        let run = Arc::clone(&self.opened);
        let watch = Watch { progress: None, cancel: &|| self.opened.cancel_calls() };
        let batches = block_on(py, &watch, move || {
            let mut values = run.params().clone();
            for (name, text) in &params {
                let value = catalog().parse_param(name, text);
                values.set(name, value.map_err(trace_advisor::Error::from)?);
            }
            Ok(run.analyze_with(&name, &values)?)
        })?;
        Ok(Rows::new(batches))
    }

    /// The tables of the run: name, rows, and what one row is.
    fn tables(&self) -> Vec<(&'static str, usize, &'static str)> {
        TABLES.iter().map(|table| (table.name, self.opened.rows(table.name), table.row)).collect()
    }
}
