//! Reads small traces written by hand, and columns of the result.

use std::io::Write;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use trace_model::Dataset;
use trace_model::tables::TABLES;

/// Reads one trace given as text.
pub(crate) fn read_text(text: impl AsRef<[u8]>) -> Result<Dataset, ingest::Error> {
    read_files(&[("trace.json", text.as_ref())])
}

/// Reads a folder of files.
pub(crate) fn read_files(files: &[(&str, &[u8])]) -> Result<Dataset, ingest::Error> {
    read(folder(files).path())
}

/// Reads a path with default options.
pub(crate) fn read(path: &Path) -> Result<Dataset, ingest::Error> {
    ingest::read_run(path, &ingest::Options::default(), &ingest::NoProgress)
}

/// A trace object around events.
pub(crate) fn trace(events: &str) -> String {
    format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Codes and counts of the warnings.
pub(crate) fn warnings(dataset: &Dataset) -> Vec<(&str, u64)> {
    dataset.warnings.iter().map(|w| (w.code.as_ref(), w.count)).collect()
}

/// A column of a table over all ranks, as text; absent values are `-`.
pub(crate) fn column(dataset: &Dataset, table: &str, column: &str) -> Vec<String> {
    dataset.tables.get(table).iter().flat_map(|batch| texts(batch, column)).collect()
}

/// The content of all tables as text: by table, then by column.
pub(crate) fn contents(dataset: &Dataset) -> Vec<(&'static str, Vec<Vec<String>>)> {
    TABLES
        .iter()
        .map(|spec| {
            let columns = spec.columns.iter().map(|c| column(dataset, spec.name, c.name));
            (spec.name, columns.collect())
        })
        .collect()
}

/// Writes files into a new folder.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let array = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    (0..array.len())
        .map(|i| {
            if array.is_null(i) {
                return "-".to_owned();
            }
            match array.data_type() {
                DataType::Int64 => array.as_primitive::<Int64Type>().value(i).to_string(),
                DataType::Int32 => array.as_primitive::<Int32Type>().value(i).to_string(),
                DataType::Float64 => array.as_primitive::<Float64Type>().value(i).to_string(),
                DataType::Boolean => array.as_boolean().value(i).to_string(),
                DataType::LargeUtf8 => array.as_string::<i64>().value(i).to_owned(),
                _ => {
                    let dictionary = array.as_dictionary::<Int32Type>();
                    let key = dictionary.keys().value(i) as usize;
                    dictionary.values().as_string::<i32>().value(key).to_owned()
                }
            }
        })
        .collect()
}
