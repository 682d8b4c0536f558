//! Exports hold the same rows as runs that are read into memory.

use std::path::PathBuf;

use ingest::{Export, Exported, Location, NoProgress, Options};

use crate::support::{contents, folder, read};
use crate::{composer, determined, execution, memory_files};

/// Exports a run, and compares the export with the run in memory. Returns the names of its partitions, without those
/// of `reading_warnings`.
fn assert_export_equals_read(files: &[(&str, &[u8])]) -> Vec<String> {
    let run = folder(files);
    let expected = read(run.path()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("export");
    let location = Location::parse(run.path()).unwrap();
    let Exported { ranks, warnings, .. } =
        ingest::export(&location, &Options::default(), &to, false, &NoProgress).unwrap();
    assert_eq!(ranks, expected.run.ranks.len());
    assert_eq!(warnings, expected.warnings);
    let export = Export::open(&to).unwrap().read().unwrap();
    assert_eq!(contents(&export), contents(&expected));
    assert_eq!(export.run.sources, expected.run.sources);
    let mut names: Vec<String> = partitions(&to).iter().map(|p| p.display().to_string()).collect();
    names.retain(|name| !name.starts_with("reading_warnings"));
    names.sort();
    names
}

/// The Parquet files of an export, relative to its folder.
fn partitions(export: &std::path::Path) -> Vec<PathBuf> {
    let tables = std::fs::read_dir(export).unwrap().map(|entry| entry.unwrap().path());
    tables
        .filter(|path| path.is_dir())
        .flat_map(|table| std::fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path()))
        .map(|file| file.strip_prefix(export).unwrap().to_owned())
        .collect()
}

/// A profile cycle of a rank, recorded `at_us` after a common start.
fn cycle(rank: i32, at_us: i64) -> String {
    let base_ns = determined::T0_NS + at_us * 1000;
    format!(
        r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "baseTimeNanoseconds": {base_ns}, "traceEvents": [
        {{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":5.001,"dur":90}},
        {{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":7,"dur":2}}]}}"#
    )
}

#[test]
fn export_places_ranks_on_the_clock_of_the_run() {
    let (first, second, last) = (cycle(0, 100), cycle(1, 40), cycle(0, 5_000));
    let names = assert_export_equals_read(&[
        ("b.json", first.as_bytes()),
        ("a.json", second.as_bytes()),
        ("c.json", last.as_bytes()),
    ]);
    assert_eq!(
        names,
        [
            "annotations/rank-00000.parquet",
            "annotations/rank-00001.parquet",
            "capabilities/rank-00000.parquet",
            "capabilities/rank-00001.parquet",
            "cpu_ops/rank-00000.parquet",
            "cpu_ops/rank-00001.parquet",
            "event_counts/rank-00000.parquet",
            "event_counts/rank-00001.parquet",
            "ranks/run.parquet",
            "steps/rank-00000.parquet",
            "steps/rank-00001.parquet",
            "threads/rank-00000.parquet",
            "threads/rank-00001.parquet",
        ]
    );
}

#[test]
fn export_holds_execution_traces_by_rank() {
    let (a, b) = (execution::by_external_id(0, 7), execution::by_external_id(1, 8));
    let names = assert_export_equals_read(&[
        ("a.json", a.as_bytes()),
        ("b.json", b.as_bytes()),
        ("et_rank0.json", execution::NEW.as_bytes()),
        ("et_rank1.json", execution::NEW.as_bytes()),
    ]);
    assert!(names.contains(&"execution_nodes/rank-00001.parquet".to_owned()), "{names:?}");
    let alone = [("et_rank0.json", execution::NEW.as_bytes())];
    assert_eq!(
        assert_export_equals_read(&alone),
        [
            "capabilities/rank-00000.parquet",
            "execution_nodes/rank-00000.parquet",
            "ranks/run.parquet"
        ]
    );
}

#[test]
fn export_holds_joined_composer_files() {
    let file = |rank: i32| {
        let process = 71 + i64::from(rank);
        composer::File::new(rank, process).described(0, 0).batch(0, 0, 10, 30).text()
    };
    let names = assert_export_equals_read(&[
        ("rank0.json", file(0).as_bytes()),
        ("rank1.json", file(1).as_bytes()),
    ]);
    assert!(names.contains(&"annotations/rank-00001.parquet".to_owned()), "{names:?}");
}

#[test]
fn export_holds_metrics_and_memory_files_beside_traces() {
    let (a, b) = (cycle(0, 0), cycle(1, 60));
    let metrics = determined::two_batches(7);
    let snapshot = memory_files::fixture("torch2_protocol4.pickle");
    let files: [(&str, &[u8]); 4] = [
        ("a.json", a.as_bytes()),
        ("b.json", b.as_bytes()),
        ("metrics.jsonl", metrics.as_bytes()),
        ("rank1.pickle", &snapshot),
    ];
    let names = assert_export_equals_read(&files);
    assert!(names.contains(&"annotations/run.parquet".to_owned()), "{names:?}");
    assert_export_equals_read(&files[2..]);
    assert_export_equals_read(&[files[0], files[2]]);
    assert_eq!(
        assert_export_equals_read(&[files[0], files[3]])
            .iter()
            .filter(|name| name.starts_with("snapshots/"))
            .collect::<Vec<_>>(),
        ["snapshots/run.parquet"]
    );
}
