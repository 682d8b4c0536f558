//! Exports that are not what was written: each is refused by name, however it is read.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use trace_advisor::ingest::Export;
use trace_advisor::trace_model::TableSource;
use trace_advisor::{OpenOptions, Run};

use crate::support::export::{export, read};
use crate::support::manifest::resealed;

/// The export of a small run of two ranks.
fn exported() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let options = trace_demo::Options { steps: 2, layers: 1, ..trace_demo::Options::default() };
    trace_demo::write_run(&options, &folder.path().join("run")).unwrap();
    let to = folder.path().join("export");
    export(&folder.path().join("run"), &to).unwrap();
    (folder, to)
}

/// The errors of reading the export into memory, and of querying its kernels without that.
fn refusals(export: &Path) -> [String; 2] {
    let loaded = read(export).unwrap_err().to_string();
    let options = OpenOptions { memory_bytes: Some(1), ..OpenOptions::default() };
    let scanned = Run::open_with(export, &options, &trace_advisor::ingest::NoProgress)
        .and_then(|run| run.sql("SELECT sum(dur_ns) FROM kernels"));
    [loaded, scanned.unwrap_err().to_string()]
}

fn assert_refused(export: &Path, reason: &str) {
    for said in refusals(export) {
        assert!(said.contains(reason), "{reason}: {said}");
        assert!(said.contains(&export.display().to_string()), "{said}");
    }
}

const KERNELS: &str = "kernels/rank-00001.parquet";

#[test]
fn missing_truncated_and_changed_partitions_are_refused() {
    let (_folder, export) = exported();
    let file = export.join(KERNELS);
    let whole = fs::read(&file).unwrap();

    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_refused(&export, &format!("{KERNELS}: it has {} bytes", whole.len() / 2));

    for at in [10, whole.len() / 2, whole.len() - 20] {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        fs::write(&file, changed).unwrap();
        assert_refused(&export, "its content has changed");
    }
    // The same table of another rank, complete.
    fs::copy(export.join("kernels/rank-00000.parquet"), &file).unwrap();
    for said in refusals(&export) {
        assert!(said.contains("bytes, not") || said.contains("has changed"), "{said}");
    }
    fs::remove_file(&file).unwrap();
    assert_refused(&export, &format!("{KERNELS}: the file is missing"));

    fs::write(&file, whole).unwrap();
    assert!(read(&export).is_ok());
}

/// Replaces the first occurrence of `from` in `run.json`.
fn rewrite(export: &Path, from: &str, to: &str) {
    let file = export.join("run.json");
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "{from}");
    fs::write(file, changed).unwrap();
}

/// As [`rewrite`], with a checksum that fits.
fn forge(export: &Path, from: &str, to: &str) {
    rewrite(export, from, to);
    let file = export.join("run.json");
    fs::write(&file, resealed(&fs::read_to_string(&file).unwrap())).unwrap();
}

#[test]
fn invalid_manifests_are_refused() {
    const CHANGED: &str = "run.json is damaged: its content has changed";
    for (from, to, reason) in [
        ("\"version\":2", "\"version\":99", "another version"),
        ("\"tables\":\"", "\"tables\":\"0", CHANGED),
        ("\"ranks\":[0,1]", "\"ranks\":[0,2]", CHANGED),
        ("\"table\":\"", "\"table\":\"../", CHANGED),
        ("\"partitions\":[", "\"partitions\": [", CHANGED),
    ] {
        let (_folder, export) = exported();
        rewrite(&export, from, to);
        assert_refused(&export, reason);
    }
    let (_folder, export) = exported();
    let text = fs::read(export.join("run.json")).unwrap();
    fs::write(export.join("run.json"), &text[..text.len() - 5]).unwrap();
    assert_refused(&export, "run.json is damaged");
}

#[test]
fn forged_manifests_are_refused_without_panic() {
    for (from, to, reason) in [
        ("\"tables\":\"", "\"tables\":\"0", "another version"),
        ("\"ranks\":[0,1]", "\"ranks\":[0,1e99]", "run.json is damaged"),
        ("\"rank\":0", "\"rank\":\"0\"", "run.json is damaged"),
        ("\"table\":\"", "\"table\":\"../", "run.json is damaged: there is no table"),
        ("\"memory_bytes\":", "\"memory_bytes\":9223372036854775808,\"_\":", "memory_bytes of"),
        ("\"memory_bytes\":", "\"memory_bytes\":18446744073709551615,\"_\":", "memory_bytes of"),
        ("\"rows\":", "\"rows\":4611686018427387904,\"_\":", "more than any file holds"),
        ("\"wall_ns\":", "\"wall_ns\":-", "wall_ns of the run is -"),
    ] {
        let (_folder, export) = exported();
        forge(&export, from, to);
        assert_refused(&export, reason);
    }
}

/// `resealed` makes manifests whose checksum is right.
#[test]
fn forged_path_is_read() {
    let (_folder, export) = exported();
    forge(&export, "\"path\":\"", "\"path\":\"elsewhere");
    assert!(read(&export).is_ok());
}

#[test]
fn forged_partition_is_refused_without_panic() {
    let (_folder, export) = exported();
    let manifest = fs::read_to_string(export.join("run.json")).unwrap();
    // Rows that are not there, and columns of another table.
    let rows = manifest.find("\"table\":\"kernels\"").unwrap();
    let (head, tail) = manifest.split_at(rows);
    let forged = head.to_owned() + &tail.replacen("\"rows\":", "\"rows\":9", 1);
    fs::write(export.join("run.json"), resealed(&forged)).unwrap();
    assert_refused(&export, "rows, not 9");

    let forged = manifest.replace("\"table\":\"memcpys\"", "\"table\":\"?\"");
    let forged = forged.replace("\"table\":\"kernels\"", "\"table\":\"memcpys\"");
    let forged = forged.replace("\"table\":\"?\"", "\"table\":\"kernels\"");
    fs::write(export.join("run.json"), resealed(&forged)).unwrap();
    fs::rename(export.join("kernels"), export.join("other")).unwrap();
    fs::rename(export.join("memcpys"), export.join("kernels")).unwrap();
    fs::rename(export.join("other"), export.join("memcpys")).unwrap();
    assert_refused(&export, "its columns are not those of");
}

#[test]
fn interrupted_export_is_not_a_run() {
    let (folder, export) = exported();
    fs::remove_file(export.join("run.json")).unwrap();
    let said = read(&export).unwrap_err().to_string();
    assert!(said.contains("no profiler trace found"), "{said}");
    assert!(said.contains("an export is read as a folder, with its run.json"), "{said}");
    assert!(Export::open(&export).is_err());
    let partition = export.join(KERNELS);
    let said = read(&partition).unwrap_err().to_string();
    assert!(said.contains("an export is read as a folder"), "{said}");
    drop(folder);
}

#[test]
fn scan_of_a_missing_partition_is_an_error() {
    let (_folder, export) = exported();
    let export = Export::open(&export).unwrap();
    assert!(export.partitions("no_table").is_empty());
    assert!(export.scan("kernels", 7, &[0]).is_err());
    assert!(export.scan("no_table", 0, &[0]).is_err());
}
