//! Where the real traces and reference numbers are.
#![allow(dead_code, reason = "each test program uses its part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use query::Session;
use trace_advisor::arrow::array::{Array, ArrayRef, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

/// The corpus of real traces and reference numbers, or `None` with the reason printed.
///
/// # Panics
/// If `ADVISOR_CORPUS` is set and is no folder: a typo must not turn tests off.
#[expect(clippy::print_stdout, reason = "why tests are skipped is part of their result")]
pub(crate) fn corpus() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the one place where tests look it up")]
    let set = std::env::var("ADVISOR_CORPUS").ok();
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = set.as_ref().map_or(default, PathBuf::from);
    if path.join("traces").is_dir() {
        return Some(path);
    }
    assert!(set.is_none(), "ADVISOR_CORPUS={} holds no traces", path.display());
    println!("skipped: no corpus at {} (set ADVISOR_CORPUS)", path.display());
    None
}

/// Every folder that holds a trace, by path.
pub(crate) fn runs(traces: &Path) -> Vec<PathBuf> {
    let mut runs = Vec::new();
    let mut folders = vec![traces.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let is_trace = |path: &PathBuf| {
            let name = path.to_string_lossy();
            path.is_file() && (name.ends_with(".json") || name.ends_with(".json.gz"))
        };
        if entries.iter().any(is_trace) {
            runs.push(folder);
        }
        folders.extend(entries.into_iter().filter(|path| path.is_dir()));
    }
    runs.sort();
    runs
}

/// Traces with the folders of what Holistic Trace Analysis says of them, the unrounded one where there is
/// one.
pub(crate) fn goldens(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for kind in ["hta", "hta_exact"] {
        for group in ["", "generated/"] {
            let Ok(folder) = std::fs::read_dir(root.join(kind).join(group)) else { continue };
            for entry in folder.map(Result::unwrap) {
                if entry.path().join("load_info.json").is_file() {
                    let name = entry.file_name().into_string().unwrap();
                    found.insert(format!("{group}{name}"), entry.path());
                }
            }
        }
    }
    found
}

/// Rows of a query as numbers; absent ones are NaN.
pub(crate) fn numbers(session: &Session, query: &str) -> Vec<Vec<f64>> {
    let mut rows = Vec::new();
    for batch in session.sql(query).unwrap() {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| cast(c, &DataType::Float64).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| {
                let column = column.as_primitive::<Float64Type>();
                if column.is_null(row) { f64::NAN } else { column.value(row) }
            };
            rows.push(columns.iter().map(value).collect());
        }
    }
    rows
}
