//! Partitions of an export: ranks, cycles, clocks, and replacing an earlier export.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use trace_advisor::ingest::{Error, Location, NoProgress, Options};
use trace_advisor::trace_model::Dataset;

use crate::support::export::{assert_same, export, export_over, read};

/// A trace with two calls, of which the second begins `later_us` after the first.
fn trace(rank: Option<i32>, base_ns: Option<i64>, start_us: f64, later_us: f64) -> String {
    let rank = rank.map_or_else(String::new, |rank| {
        format!(r#""distributedInfo": {{"rank": {rank}, "world_size": 2}}, "#)
    });
    let base = base_ns.map_or_else(String::new, |ns| format!(r#""baseTimeNanoseconds": {ns}, "#));
    let call = |name: &str, ts: f64, cat: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": 2, "ts": {ts:.3}, "dur": 5.5, "args": {{"correlation": 7}}}}"#
        )
    };
    format!(
        r#"{{"schemaVersion": 1, {rank}{base}"traceEvents": [{}, {}, {}]}}"#,
        call("aten::mm", start_us + later_us, "cpu_op"),
        call("aten::add", start_us, "cpu_op"),
        call("cudaLaunchKernel", start_us + later_us + 1.0, "cuda_runtime"),
    )
}

/// Reads files as traces and as the export of them.
fn both(files: &[(&str, String)], options: &Options) -> (Dataset, Dataset, BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (run, to) = (folder.path().join("run"), folder.path().join("export"));
    fs::create_dir(&run).unwrap();
    for (name, text) in files {
        fs::write(run.join(name), text).unwrap();
    }
    let location = Location::parse(&run).unwrap();
    trace_advisor::ingest::export(&location, options, &to, false, &NoProgress).unwrap();
    let traces = trace_advisor::ingest::read_location(&location, options, &NoProgress).unwrap();
    let partitions = fs::read_dir(to.join("cpu_ops")).unwrap();
    let partitions = partitions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (traces, read(&to).unwrap(), partitions.collect())
}

fn assert_both(files: &[(&str, String)], expected: &[&str]) {
    let (traces, exported, partitions) = both(files, &Options::default());
    let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    assert_same(&traces, &exported, &names.join(", "));
    assert_eq!(partitions, expected.iter().map(|&name| name.to_owned()).collect(), "{names:?}");
}

const BASE: Option<i64> = Some(1_700_000_000_000_000_000);

#[test]
fn ranks_are_exported_on_the_clock_of_the_run() {
    // Zero is in the second file, neither in the first nor in the last.
    let files = [
        ("a.json", trace(Some(0), BASE, 100.0, 3.25)),
        ("b.json", trace(Some(1), BASE, 10.125, 7.0)),
        ("c.json", trace(Some(12), BASE, 40.0, 1.0)),
    ];
    let expected = ["rank-00000.parquet", "rank-00001.parquet", "rank-00012.parquet"];
    assert_both(&files, &expected);
}

#[test]
fn ranks_known_only_from_all_files_are_exported() {
    let named = [
        ("node_3.1.pt.trace.json", trace(None, None, 5.0, 1.0)),
        ("node_1.2.pt.trace.json", trace(None, None, 900.0, 2.0)),
    ];
    assert_both(&named, &["rank-00001.parquet", "rank-00003.parquet"]);
}

#[test]
fn clocks_without_absolute_times_are_kept() {
    // Both overlap as written; then they do not.
    for start_us in [101.0, 90_000.0] {
        let files = [
            ("rank0.json", trace(Some(0), None, 100.0, 9.0)),
            ("rank1.json", trace(Some(1), None, start_us, 9.0)),
        ];
        assert_both(&files, &["rank-00000.parquet", "rank-00001.parquet"]);
    }
}

#[test]
fn only_the_selected_cycle_is_exported() {
    let files = [
        ("w.1.pt.trace.json", trace(Some(0), BASE, 10.0, 1.0)),
        ("w.2.pt.trace.json", trace(Some(0), BASE, 5_000.0, 2.0)),
        ("w.3.pt.trace.json", trace(Some(0), BASE, 90_000.0, 3.0)),
    ];
    assert_both(&files, &["rank-00000.parquet"]);
    let options = Options { cycle: Some(2), ..Options::default() };
    let (traces, exported, _) = both(&files, &options);
    assert_eq!(exported.run.sources[0].file, "w.2.pt.trace.json");
    assert_same(&traces, &exported, "the second cycle");
}

#[test]
fn unreadable_files_are_warnings_of_the_export() {
    let files = [
        ("rank0.json", trace(Some(0), BASE, 10.0, 1.0)),
        ("rank1.json", trace(Some(1), BASE, 11.0, 1.0).replace("traceEvents", "nothing")),
        ("rank2.json", trace(Some(2), BASE, 12.0, 1.0)[..330].to_owned()),
        ("notes.txt", "not a trace".to_owned()),
    ];
    assert_both(&files, &["rank-00000.parquet", "rank-00002.parquet"]);
}

/// The entries of a folder and of those below it.
fn names(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        names.insert(entry.path().display().to_string());
        if entry.path().is_dir() {
            names.extend(self::names(&entry.path()));
        }
    }
    names
}

#[test]
fn overwrite_replaces_only_exports() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.json"), trace(Some(0), BASE, 10.0, 1.0)).unwrap();
    fs::write(path("b.json"), trace(Some(5), BASE, 10.0, 1.0)).unwrap();
    let to = path("deep/export");
    export(&path("a.json"), &to).unwrap();

    let taken = export(&path("b.json"), &to).unwrap_err();
    assert!(matches!(taken, Error::Exists { is_source: false, .. }), "{taken}");
    assert_eq!(read(&to).unwrap().run.ranks, [0]);
    export_over(&path("b.json"), &to, true).unwrap();
    assert_eq!(read(&to).unwrap().run.ranks, [5]);
    assert!(!to.join("cpu_ops/rank-00000.parquet").exists());

    // An export that fails leaves the one that was there, and nothing of its own.
    fs::write(path("broken.json"), "{\"traceEvents\": 1}").unwrap();
    let before = names(folder.path());
    assert!(export_over(&path("broken.json"), &to, true).is_err());
    assert_eq!(names(folder.path()), before);

    fs::create_dir(path("empty")).unwrap();
    export(&path("a.json"), &path("empty")).unwrap();
    assert_eq!(read(&path("empty")).unwrap().run.ranks, [0]);

    for taken in ["a.json", "."] {
        let error = export_over(&path("b.json"), &path(taken), true).unwrap_err();
        assert!(matches!(error, Error::Occupied { .. }), "{taken}: {error}");
    }
    let again = export(&to, &path("again")).unwrap_err();
    assert!(again.to_string().contains("it cannot be exported again"), "{again}");
}
