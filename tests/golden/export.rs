//! A run as a folder of Parquet reads the same as its traces, on every real trace.

use std::path::Path;

use trace_advisor::ingest;

use crate::harness::{self, Case};
use crate::runs;
use crate::support::corpus;
use crate::support::export::{assert_same, export, read};

const TRACES: &str = "export: traces";

/// One test per trace.
pub(crate) fn cases() -> Vec<Case> {
    harness::require(TRACES, 31);
    let mut cases = Vec::new();
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        let test = move || export_reads_the_same(&path);
        cases.push(Case::of_trace(&trace, "export_reads_the_same", test));
    }
    cases
}

fn export_reads_the_same(run: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("run");
    let dataset = match (read(run), export(run, &to)) {
        (Ok(dataset), exported) => {
            exported.unwrap();
            dataset
        }
        (Err(read), exported) => {
            assert_eq!(exported.unwrap_err().to_string(), read.to_string());
            assert!(!to.exists(), "the run cannot be read");
            return;
        }
    };
    assert_same(&dataset, &read(&to).unwrap(), "exported");

    // A dataset in memory is written like one that is streamed.
    let other = folder.path().join("other");
    ingest::export_dataset(&dataset, &other, false).unwrap();
    assert_same(&dataset, &read(&other).unwrap(), "written from memory");
    harness::count(TRACES, 1);
}
