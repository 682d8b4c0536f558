//! Invariants of the tables for any input.

use std::collections::BTreeSet;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat, max, min};
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use ingest::{NoProgress, Options};
use tempfile::TempDir;
use trace_model::tables::TABLES;
use trace_model::{Dataset, RunInfo};

/// Maximum sum that the tables of a small input hold: sizes of single allocations are limited to 16 TiB.
const MAX_BYTES: f64 = (1_u64 << 60) as f64;

/// Creates a temporary folder with these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
    folder
}

/// Reads a run and checks its tables. Returns `None` if the run is refused.
pub(crate) fn read(path: &Path) -> Option<Dataset> {
    match ingest::read_run(path, &Options::default(), &NoProgress) {
        Ok(dataset) => {
            check(&dataset);
            Some(dataset)
        }
        Err(error) => {
            assert!(!error.to_string().trim().is_empty(), "an error without a message");
            None
        }
    }
}

/// Panics if a table does not match its schema, a duration is negative, a number is NaN or infinite, an amount is beyond
/// what a device can have, or two steps of a rank overlap or share a number.
fn check(dataset: &Dataset) {
    for table in TABLES {
        for batch in dataset.tables.get(table.name) {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let schema = batch.schema();
            let found: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            assert_eq!(found, names, "columns of {}", table.name);
            for (column, values) in names.iter().zip(batch.columns()) {
                assert_finite(values, &format!("{}.{column}", table.name));
                let what = format!("{}.{column}", table.name);
                if column.ends_with("dur_ns") {
                    assert_range(values, &what, 0.0, i64::MAX as f64);
                } else if *column == "bytes" || column.ends_with("_bytes") {
                    assert_range(values, &what, -MAX_BYTES, MAX_BYTES);
                } else if *column == "occupancy_ratio" {
                    assert_range(values, &what, 0.0, 1.0);
                }
            }
        }
    }
    dataset.tables.get("steps").iter().for_each(assert_steps_follow_each_other);
    assert!(dataset.run.wall_ns >= 0, "wall_ns = {}", dataset.run.wall_ns);
}

/// Panics if a value is below `least` or above `most`.
pub(crate) fn assert_range(values: &ArrayRef, what: &str, least: f64, most: f64) {
    let numbers = cast(values, &DataType::Float64).expect("numbers");
    let numbers = numbers.as_primitive::<Float64Type>();
    for extreme in [min(numbers), max(numbers)].into_iter().flatten() {
        assert!((least..=most).contains(&extreme), "{what} holds {extreme}");
    }
}

/// Panics if two steps of a rank share a number, or a step starts well before the end of the one before it.
fn assert_steps_follow_each_other(steps: &RecordBatch) {
    let integers = |name: &str| {
        let column = steps.column_by_name(name).unwrap_or_else(|| panic!("steps.{name}"));
        let values = cast(column, &DataType::Int64).expect("integers");
        values.as_primitive::<Int64Type>().values().to_vec()
    };
    let [ranks, numbers, starts, durs] = ["rank", "step", "ts_ns", "dur_ns"].map(integers);
    let distinct: BTreeSet<(i64, i64)> = ranks.iter().copied().zip(numbers).collect();
    assert_eq!(distinct.len(), steps.num_rows(), "steps of a rank with one number");
    let mut spans: Vec<(i64, i64, i64)> =
        (0..steps.num_rows()).map(|row| (ranks[row], starts[row], durs[row])).collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let ((rank, start_ns, dur_ns), (next_rank, next_start_ns, next_dur_ns)) =
            (pair[0], pair[1]);
        let overlap_ns = start_ns + dur_ns - next_start_ns;
        let is_short = overlap_ns <= dur_ns.min(next_dur_ns) / 2;
        assert!(rank != next_rank || is_short, "steps overlap by {overlap_ns} ns");
    }
}

/// Panics if a column of floats contains NaN or infinity.
pub(crate) fn assert_finite(values: &ArrayRef, what: &str) {
    if values.data_type() == &DataType::Float64 {
        let values = values.as_primitive::<Float64Type>();
        // `max` treats NaN as the largest value.
        for extreme in [min(values), max(values)].into_iter().flatten() {
            assert!(extreme.is_finite(), "{what} holds {extreme}");
        }
    }
}

/// Panics unless both datasets are equal, except for the path of the run and the division of rows into batches.
pub(crate) fn assert_same(left: &Dataset, right: &Dataset) {
    let info = |dataset: &Dataset| RunInfo { path: String::new(), ..dataset.run.clone() };
    assert_eq!(info(left), info(right));
    assert_eq!(left.warnings, right.warnings);
    for table in TABLES {
        for (at, column) in table.columns.iter().enumerate() {
            let (left, right) = (values(left, table.name, at), values(right, table.name, at));
            assert_eq!(left, right, "{}.{}", table.name, column.name);
        }
    }
}

/// Returns all values of a column, with dictionaries converted to text, or `None` without rows.
fn values(dataset: &Dataset, table: &str, at: usize) -> Option<ArrayRef> {
    let plain = |batch: &RecordBatch| match batch.column(at).data_type() {
        DataType::Dictionary(_, text) => cast(batch.column(at), text).expect("text"),
        _ => ArrayRef::clone(batch.column(at)),
    };
    let batches: Vec<ArrayRef> = dataset.tables.get(table).iter().map(plain).collect();
    let batches: Vec<&dyn Array> = batches.iter().map(AsRef::as_ref).collect();
    (!batches.is_empty()).then(|| concat(&batches).expect("columns of one type"))
}
