//! A run as a folder of Parquet says the same as its traces: read whole, or while it is asked about.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod hostile;
mod layout;
mod streamed;
#[path = "../support/corpus.rs"]
mod support;

use std::path::Path;

use rayon::prelude::*;
use support::corpus;
use trace_advisor::arrow::array::{Array, ArrayRef};
use trace_advisor::arrow::compute::{cast, concat};
use trace_advisor::arrow::datatypes::DataType;
use trace_advisor::ingest::{self, Exported, Location, NoProgress, Options};
use trace_advisor::trace_model::tables::TABLES;
use trace_advisor::trace_model::{Dataset, RecordBatch, RunInfo};

/// Reads a run.
fn read(path: &Path) -> Result<Dataset, ingest::Error> {
    ingest::read_run(path, &Options::default(), &NoProgress)
}

/// Exports a run.
fn export(run: &Path, to: &Path) -> Result<Exported, ingest::Error> {
    export_over(run, to, false)
}

fn export_over(run: &Path, to: &Path, overwrite: bool) -> Result<Exported, ingest::Error> {
    ingest::export(&Location::parse(run)?, &Options::default(), to, overwrite, &NoProgress)
}

/// The columns of a table with all their rows, names as plain text: how they are cut into batches, and in which order
/// dictionaries have their texts, says nothing.
fn columns(dataset: &Dataset, table: &str) -> Vec<ArrayRef> {
    let batches = dataset.tables.get(table);
    let count = batches.first().map_or(0, RecordBatch::num_columns);
    let column = |at: usize| {
        let plain: Vec<ArrayRef> = batches
            .iter()
            .map(|batch| match batch.column(at).data_type() {
                DataType::Dictionary(_, values) => cast(batch.column(at), values).unwrap(),
                _ => batch.column(at).clone(),
            })
            .collect();
        let plain: Vec<&dyn Array> = plain.iter().map(AsRef::as_ref).collect();
        concat(&plain).unwrap()
    };
    (0..count).map(column).collect()
}

/// Panics unless both say the same, apart from where they are.
fn assert_same(left: &Dataset, right: &Dataset, what: &str) {
    let info = |dataset: &Dataset| RunInfo { path: String::new(), ..dataset.run.clone() };
    assert_eq!(info(left), info(right), "{what}");
    assert_eq!(left.warnings, right.warnings, "{what}");
    for table in TABLES {
        let name = table.name;
        assert_eq!(left.tables.rows(name), right.tables.rows(name), "{what}: rows of {name}");
        let pairs = columns(left, name).into_iter().zip(columns(right, name));
        for ((left, right), column) in pairs.zip(table.columns) {
            assert_eq!(&left, &right, "{what}: {name}.{}", column.name);
        }
    }
}

#[test]
fn every_trace_reads_the_same_from_its_export() {
    let Some(corpus) = corpus() else { return };
    let read_ones: Vec<bool> = support::runs(&corpus.join("traces"))
        .par_iter()
        .map(|run| {
            let what = run.display().to_string();
            let folder = tempfile::tempdir().unwrap();
            let to = folder.path().join("run");
            let dataset = match (read(run), export(run, &to)) {
                (Ok(dataset), exported) => {
                    exported.unwrap_or_else(|error| panic!("{what}: {error}"));
                    dataset
                }
                (Err(read), exported) => {
                    assert_eq!(exported.unwrap_err().to_string(), read.to_string(), "{what}");
                    assert!(!to.exists(), "{what}: of a run that cannot be read");
                    return false;
                }
            };
            assert_same(&dataset, &read(&to).unwrap(), &what);

            // What is in memory is written as well as what is not.
            let other = folder.path().join("other");
            ingest::export_dataset(&dataset, &other, false).unwrap();
            assert_same(&dataset, &read(&other).unwrap(), &what);
            true
        })
        .collect();
    assert!(read_ones.iter().filter(|&&is_read| is_read).count() > 30, "{read_ones:?}");
}
