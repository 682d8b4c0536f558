//! Merging the traces of ranks into one, on files written here.

use std::path::Path;

use ingest::{Error, Location, Merge, NoProgress, Options};
use serde_json::Value as Json;

fn file(rank: i32, base_ns: i64) -> String {
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}, "world_size": 2}}, "baseTimeNanoseconds": {base_ns},
  "traceEvents": [
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::mul\\n \"x\"", "pid": 100, "tid": 100, "ts": 5.001, "dur": 2,
    "args": {{"Call stack": "a b"}}
  }},
  {{"ph": "X", "cat": "cpu_op", "name": "MulBackward0", "pid": 100, "tid": 101, "ts": 9, "dur": 2}},
  {{"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 7, "pid": 100, "tid": 100, "ts": 5.001}},
  {{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 1, "dur": 50}},
  {{"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 1, "args": {{"name": "python"}}}},
  {{"ph": "i", "name": "no thread", "pid": 100, "ts": 1, "s": "g"}}
]}}"#
    )
}

fn merge(folder: &Path, to: &Path, overwrite: bool) -> Result<ingest::Merged, Error> {
    let run = Location::parse(folder)?;
    let dataset = ingest::read_location(&run, &Options::default(), &NoProgress)?;
    let merge = Merge { run: &run, info: &dataset.run, tables: &dataset.tables, to, overwrite };
    ingest::merge(&merge, &NoProgress)
}

#[test]
fn merge_turns_ranks_into_processes_on_one_clock() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("a.json"), file(0, 1_700_000_000_000_000_000)).unwrap();
    std::fs::write(run.join("b.json"), file(1, 1_700_000_000_000_000_250)).unwrap();
    let to = folder.path().join("out/merged.json");
    let merged = merge(&run, &to, false).unwrap();
    assert_eq!((merged.files, merged.ranks, merged.warnings.len()), (2, 2, 0));
    let text = std::fs::read_to_string(&to).unwrap();
    let whole: Json = serde_json::from_str(&text).unwrap();
    // An hour before the second in which the run begins.
    assert_eq!(whole["baseTimeNanoseconds"], 1_699_996_400_000_000_000_i64);
    let events = whole["traceEvents"].as_array().unwrap();
    assert_eq!(events.len() as u64, merged.events);
    assert_eq!(text.lines().count(), events.len() + 2, "one event a line");
    let of = |rank: i64, name: &str| {
        let is_it = |e: &&Json| e["pid"] == rank && e["name"] == name;
        events.iter().find(is_it).unwrap_or_else(|| panic!("{name} of {rank}")).clone()
    };
    assert!(text.contains(r#""ts": 3600000005.001"#), "exact");
    assert!(text.contains(r#""ts": 3600000005.251"#), "on the clock that all share");
    assert_eq!(of(1, "aten::mul\\n \"x\"")["args"]["Call stack"], "a b");
    assert_eq!(of(0, "fwdbwd")["id"], 7);
    assert_eq!(of(1, "fwdbwd")["id"], (1_i64 << 32) + 7, "arrows of ranks do not meet");
    assert_eq!(of(1, "process_name")["args"]["name"], "Rank 1 training loop process");
    assert!(!text.contains("no thread") && !text.contains("PyTorch Profiler"));
    let order: Vec<(i64, i64)> = events
        .iter()
        .filter(|e| e["name"] == "thread_sort_index" && e["pid"] == 0)
        .map(|e| (e["tid"].as_i64().unwrap(), e["args"]["sort_index"].as_i64().unwrap()))
        .collect();
    assert_eq!(order, [(100, 99_999), (101, 1)], "autograd right below the training loop");

    let again = ingest::read_run(&to, &Options::default(), &NoProgress).unwrap();
    assert_eq!(crate::support::column(&again, "cpu_ops", "ts_ns"), ["0", "3999", "250", "4249"]);
    assert_eq!(crate::support::column(&again, "cpu_ops", "rank"), ["0", "0", "1", "1"]);
    assert_eq!(crate::support::warnings(&again), []);
}

#[test]
fn merge_writes_integer_microseconds_like_composer() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("rank0.json");
    let text = file(0, 1_700_000_000_000_000_000).replace("5.001", "5");
    std::fs::write(&source, text).unwrap();
    let to = folder.path().join("merged.json");
    merge(&source, &to, false).unwrap();
    let text = std::fs::read_to_string(&to).unwrap();
    let events: Vec<Json> = serde_json::from_str(&text).unwrap();
    assert!(
        events.iter().any(|e| e["name"] == "MulBackward0" && e["ts"] == 1_700_000_000_000_009_i64)
    );
    let again = ingest::read_run(&to, &Options::default(), &NoProgress).unwrap();
    assert_eq!(crate::support::column(&again, "cpu_ops", "ts_ns"), ["0", "4000"]);
}

#[test]
fn merge_does_not_overwrite_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("rank0.json");
    std::fs::write(&source, file(0, 1_700_000_000_000_000_000)).unwrap();
    let to = folder.path().join("merged.json");
    std::fs::write(&to, "mine").unwrap();
    assert!(matches!(merge(&source, &to, false), Err(Error::Exists { is_source: false, .. })));
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "mine");
    assert!(matches!(merge(&source, &source, true), Err(Error::Exists { is_source: true, .. })));
    merge(&source, &to, true).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "no partial file");
}

#[test]
fn merge_counts_unreadable_events() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("rank0.json");
    let text = file(0, 1_700_000_000_000_000_000);
    let cut = text.rfind("process_name").unwrap();
    std::fs::write(&source, text[..cut].replace("\"dur\": 2},", "\"dur\": 2 oops},")).unwrap();
    let to = folder.path().join("merged.json.gz");
    let merged = merge(&source, &to, false).unwrap();
    let codes: Vec<&str> = merged.warnings.iter().map(|w| w.code.as_ref()).collect();
    assert_eq!(codes, ["truncated-json", "malformed-event"]);
    let again = ingest::read_run(&to, &Options::default(), &NoProgress).unwrap();
    assert_eq!(crate::support::column(&again, "cpu_ops", "tid"), ["100"]);
}
