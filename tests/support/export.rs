//! Exports runs as folders of Parquet, and compares what is read from both.

use std::path::Path;

use trace_advisor::arrow::array::{Array, ArrayRef};
use trace_advisor::arrow::compute::{cast, concat};
use trace_advisor::arrow::datatypes::DataType;
use trace_advisor::ingest::{self, Exported, Location, NoProgress, Options};
use trace_advisor::trace_model::tables::TABLES;
use trace_advisor::trace_model::{Dataset, RecordBatch, RunInfo};

/// Reads a run.
pub(crate) fn read(path: &Path) -> Result<Dataset, ingest::Error> {
    ingest::read_run(path, &Options::default(), &NoProgress)
}

/// Exports a run.
pub(crate) fn export(run: &Path, to: &Path) -> Result<Exported, ingest::Error> {
    export_over(run, to, false)
}

/// Exports a run; `overwrite` replaces an export that is already there.
pub(crate) fn export_over(
    run: &Path,
    to: &Path,
    overwrite: bool,
) -> Result<Exported, ingest::Error> {
    ingest::export(&Location::parse(run)?, &Options::default(), to, overwrite, &NoProgress)
}

/// The columns of a table with all their rows, dictionaries as plain text: how rows are cut into batches and
/// the order of dictionary values do not count.
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

/// Panics unless both datasets are equal, apart from the path of the run.
pub(crate) fn assert_same(left: &Dataset, right: &Dataset, what: &str) {
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
