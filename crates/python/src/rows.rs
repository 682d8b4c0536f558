//! Rows of queries, handed over through the Arrow `PyCapsule` interface:
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use cli::embedding::{Style, text_of_rows};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::exception;

/// Rows in record batches.
#[pyclass(frozen, module = "trace_advisor._native")]
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Rows {
    pub(crate) fn new(batches: Vec<RecordBatch>) -> Self {
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Self { schema, batches }
    }
}

#[pymethods]
impl Rows {
    /// The schema as an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows as an Arrow C stream. Buffers are shared, not copied. A schema that is asked for is not applied, as the
    /// interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches: Vec<Result<RecordBatch, ArrowError>> =
            self.batches.iter().cloned().map(Ok).collect();
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, Arc::clone(&self.schema)));
        let stream = FFI_ArrowArrayStream::new(reader);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Arrow types of the columns.
    #[getter]
    fn column_types(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.data_type().to_string()).collect()
    }

    /// Bytes of the buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// The first rows as the program prints them, with units.
    fn text(&self, py: Python<'_>, limit: usize) -> PyResult<String> {
        text_of_rows(&self.batches, limit, Style::default()).map_err(|error| exception(py, &error))
    }

    /// The first cells of a column as texts; `None` for null.
    fn cells(&self, column: usize, limit: usize) -> PyResult<Vec<Option<String>>> {
        if column >= self.schema.fields().len() {
            return Err(PyIndexError::new_err("there is no such column"));
        }
        let options = FormatOptions::default();
        let mut cells = Vec::new();
        for batch in &self.batches {
            let array = batch.column(column);
            let formatter =
                ArrayFormatter::try_new(array.as_ref(), &options).map_err(arrow_error)?;
            for row in 0..array.len().min(limit - cells.len()) {
                let text = formatter.value(row).try_to_string().map_err(arrow_error)?;
                cells.push(array.is_valid(row).then_some(text));
            }
        }
        Ok(cells)
    }
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
