//! Manifests of exports and of mapped runs, with each of their values changed: what the checksum notices is refused, and a
//! forged checksum leads to no panic, and to no sum beyond 64 bits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use trace_advisor::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use trace_advisor::ingest::{
    Export, Location, MappedRun, Mapper, NoProgress, Options, Shard, ViewRows,
};
use trace_advisor::trace_model::tables::TABLES;
use trace_advisor::trace_model::{ScanError, TableSource};

use crate::support::export::export;
use crate::support::manifest::{CHECKSUM, sealed};

const TRACE: &str = r#"{"distributedInfo": {"rank": 1, "world_size": 1}, "baseTimeNanoseconds": 1759000000000000000,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": [
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":1,"tid":1,"ts":5.001,"dur":90},
    {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":7,"dur":20},
    {"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":30,"dur":-2},
    {"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":1,"tid":1,"ts":100,"dur":90},
    {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":120,"dur":30,"args":{"device":0,"stream":7}}]}"#;

/// What a mapped run has in place of a fingerprint of its views.
const VIEWS: &str = "views of a test";

/// What is told, or the error.
type Told = Result<(), String>;

/// A manifest beside the files that it describes.
struct Described {
    folder: TempDir,
    /// Path of the manifest.
    manifest: PathBuf,
    /// Opens the files in the folder, and reads all that they hold.
    read: fn(&Path) -> Told,
}

impl Described {
    fn run() -> (TempDir, Location) {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("rank1.json"), TRACE).unwrap();
        let location = Location::parse(&run).unwrap();
        (folder, location)
    }

    fn export() -> Self {
        let (folder, _) = Self::run();
        let to = folder.path().join("export");
        export(&folder.path().join("run"), &to).unwrap();
        Self { manifest: to.join("run.json"), folder, read: read_export }
    }

    /// A mapped run with the rows of a view, and a view without rows.
    fn mapped() -> Self {
        let (folder, run) = Self::run();
        let to = folder.path().join("mapped");
        let location = Location::parse(&to).unwrap();
        let mut mapper =
            Mapper::open(&run, &location, Shard::ALL, &Options::default(), VIEWS).unwrap();
        while let Some(group) = mapper.next_group(&NoProgress).unwrap() {
            let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![1])) };
            let rows = RecordBatch::try_from_iter([("rank", numbers()), ("ts_ns", numbers())]);
            let rows = rows.unwrap();
            let view = |view: &str, batches: Vec<RecordBatch>| {
                let (view, schema) = (view.to_owned(), rows.schema());
                ViewRows { view, schema, batches, is_schema_known: true }
            };
            let views = [view("starts", vec![rows.clone()]), view("nothing", Vec::new())];
            mapper.publish(group, &views).unwrap();
        }
        let group = to.read_dir().unwrap().next().unwrap().unwrap().path();
        Self { manifest: group.join("group.json"), folder, read: read_mapped }
    }

    /// Reads the files with another manifest.
    fn read_with(&self, manifest: &str) -> Told {
        fs::write(&self.manifest, manifest).unwrap();
        (self.read)(self.folder.path())
    }
}

fn read_export(folder: &Path) -> Told {
    let export = Export::open(&folder.join("export")).map_err(|e| e.to_string())?;
    let rows: u64 = TABLES.iter().map(|table| export.rows(table.name)).sum();
    let is_sane = |count: u64| i64::try_from(count).is_ok();
    assert!([rows, export.bytes(), export.table_bytes()].into_iter().all(is_sane));
    let dataset = export.read().map_err(|e| e.to_string())?;
    let events: u64 = dataset.run.sources.iter().map(|source| source.events).sum();
    let json_bytes: u64 = dataset.run.sources.iter().map(|source| source.json_bytes).sum();
    let warnings: u64 = dataset.warnings.iter().map(|warning| warning.count).sum();
    assert!([events, json_bytes, warnings].into_iter().max() <= Some(i64::MAX as u64));
    assert!(dataset.run.wall_ns >= 0);
    Ok(())
}

fn read_mapped(folder: &Path) -> Told {
    let run = Location::parse(folder.join("run")).unwrap();
    let mapped = Location::parse(folder.join("mapped")).unwrap();
    let opened = MappedRun::open(&run, &mapped, &Options::default(), VIEWS, &NoProgress);
    let (dataset, source) = opened.map_err(|e| e.to_string())?;
    assert!(dataset.run.wall_ns >= 0);
    read_source(source.as_ref()).map_err(|e| e.to_string())
}

fn read_source(source: &dyn TableSource) -> Result<(), ScanError> {
    let partitions = TABLES.iter().flat_map(|table| source.partitions(table.name));
    let (rows, bytes) = partitions
        .fold((0, 0), |(rows, bytes), partition| (rows + partition.rows, bytes + partition.bytes));
    assert!(i64::try_from(rows).is_ok() && i64::try_from(bytes).is_ok());
    for table in TABLES {
        let columns: Vec<usize> = (0..table.columns.len()).collect();
        for partition in 0..source.partitions(table.name).len() {
            source.scan(table.name, partition, &columns)?.try_for_each(|batch| batch.map(drop))?;
        }
    }
    for view in ["starts", "nothing"] {
        if let Some(rows) = source.computed_rows(view) {
            rows?.try_for_each(|batch| batch.map(drop))?;
        }
    }
    Ok(())
}

/// The paths of all values but objects, as JSON pointers.
fn values(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                values(value, &format!("{path}/{name}"), found);
            }
            return;
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                values(value, &format!("{path}/{at}"), found);
            }
        }
        _ => {}
    }
    found.push(path.to_owned());
}

/// What a value is changed to.
fn changes(value: &Value) -> Vec<Value> {
    let changes = match value {
        Value::Bool(is) => vec![json!(!is)],
        Value::Number(number) => {
            let next = match number.as_i64() {
                Some(number) => json!(number + 1),
                None => json!(number.as_u64().unwrap() - 1),
            };
            let negative = json!(-1 - number.as_i64().unwrap_or_default().max(0));
            vec![next, negative, json!(1_u64 << 62), json!(1_u64 << 63), json!(u64::MAX)]
        }
        Value::String(text) => vec![json!(format!("{text}x"))],
        Value::Array(_) => vec![json!([])],
        Value::Null | Value::Object(_) => vec![json!(7)],
    };
    changes.into_iter().filter(|change| change != value).collect()
}

/// The text of a manifest without its checksum and the brace at the end.
fn content(manifest: &Value) -> String {
    let text = manifest.to_string();
    text.strip_suffix('}').unwrap().to_owned()
}

/// The names on a path, without positions in lists.
fn names(path: &str) -> String {
    let is_name = |part: &&str| !part.is_empty() && part.parse::<usize>().is_err();
    path.split('/').filter(is_name).collect::<Vec<_>>().join(".")
}

/// Changes each value of a manifest. With the checksum of the original, the error contains the name of the manifest or of the
/// folder. With one that fits, only changes of `unknowable` values, which nothing else tells, are read.
fn assert_changes_are_refused(described: &Described, unknowable: &[&str]) {
    let text = fs::read_to_string(&described.manifest).unwrap();
    let (text, _) = text.rsplit_once(CHECKSUM).unwrap();
    let manifest: Value = serde_json::from_str(&format!("{text}}}")).unwrap();
    let original = content(&manifest);
    assert_eq!(described.read_with(&sealed(&original, &original)), Ok(()));
    let mut paths = Vec::new();
    values(&manifest, "", &mut paths);
    assert!(paths.len() > 50, "{paths:?}");
    let mut read = BTreeSet::new();
    for path in &paths {
        let value = manifest.pointer(path).unwrap();
        for change in changes(value) {
            let mut changed = manifest.clone();
            *changed.pointer_mut(path).unwrap() = change.clone();
            let changed = content(&changed);
            let refused = described.read_with(&sealed(&changed, &original));
            let Err(reason) = refused else { panic!("{path}: {value} is {change}") };
            assert!(
                ["run.json", "mapped", "export"].iter().any(|name| reason.contains(name)),
                "{path}: {value} is {change}: {reason}"
            );
            if described.read_with(&sealed(&changed, &changed)).is_ok() {
                read.insert(names(path));
            }
        }
    }
    let unknowable: BTreeSet<String> = unknowable.iter().map(|&name| name.to_owned()).collect();
    let known: Vec<&String> = read.difference(&unknowable).collect();
    assert!(known.is_empty(), "forged without an error: {known:?}");
}

#[test]
fn changed_values_of_an_export_are_refused() {
    let unknowable = [
        "partitions.memory_bytes",
        "program",
        "run.path",
        "run.ranks",
        "run.selection",
        "run.sources",
        "run.sources.events",
        "run.sources.file",
        "run.sources.format",
        "run.sources.is_timeline",
        "run.sources.json_bytes",
        "run.sources.rank",
        "run.sources.rank_from",
        "run.sources.shift_ns",
        "run.steps",
        "run.wall_ns",
        "warnings",
        "warnings.code",
        "warnings.count",
        "warnings.file",
        "warnings.message",
    ];
    assert_changes_are_refused(&Described::export(), &unknowable);
}

#[test]
fn changed_values_of_a_mapped_run_are_refused() {
    let unknowable = [
        "files.timeline.base_time_ns",
        "files.timeline.identity.devices",
        "files.timeline.identity.has_collectives",
        "files.timeline.identity.has_device_events",
        "files.timeline.identity.has_host_events",
        "files.timeline.identity.operators",
        "files.timeline.identity.process",
        "files.timeline.json_bytes",
        "files.timeline.steps.dur_ns",
        "files.timeline.steps.event_id",
        "files.timeline.steps.is_last",
        "files.timeline.steps.ready_ns",
        "files.timeline.steps.step",
        "files.timeline.steps.thread",
        "files.timeline.steps.ts_ns",
        "files.timeline.warnings",
        "files.timeline.warnings.code",
        "files.timeline.warnings.count",
        "files.timeline.warnings.file",
        "files.timeline.warnings.message",
        "ranks.memory_bytes",
        "views",
        "views.memory_bytes",
        "views.table",
    ];
    assert_changes_are_refused(&Described::mapped(), &unknowable);
}
