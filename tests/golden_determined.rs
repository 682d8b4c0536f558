//! Determined's metrics against the numbers that a script of its own took from the same files: every form of
//! every trial, its units, its timings, and what goes wrong.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use support::corpus;
use tempfile::TempDir;
use trace_advisor::arrow::array::{Array, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};
use trace_advisor::ingest::{NoProgress, Options};
use trace_advisor::{OpenOptions, Run};

const OLD: [i64; 3] = [101, 102, 103];
const NEW: [i64; 3] = [201, 202, 203];
/// 32-bit floats.
const SINGLE: f64 = 1e-6;
const EXACT: f64 = 1e-9;

fn traces() -> Option<PathBuf> {
    corpus().map(|corpus| corpus.join("traces/determined"))
}

fn golden(name: &str) -> Json {
    let path = corpus().unwrap().join("golden/determined").join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn open(path: &Path, trial: Option<i64>) -> Result<Run, String> {
    let ingest = Options { trial, ..Options::default() };
    let options = OpenOptions { ingest, ..OpenOptions::default() };
    Run::open_with(path, &options, &NoProgress).map_err(|error| error.to_string())
}

/// A folder with copies of some files.
fn folder(files: &[PathBuf]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    folder
}

fn generation(trial: i64) -> &'static str {
    match trial {
        101 | 102 => "old_generation",
        103 => "old_generation_synthetic_gpu",
        201 | 202 => "new_generation",
        _ => "new_generation_synthetic_gpu",
    }
}

fn wire(traces: &Path, trial: i64) -> PathBuf {
    traces.join(generation(trial)).join(format!("wire_trial{trial}.jsonl"))
}

/// The answers of the REST interface that hold all metrics of a trial, each once.
fn rest(traces: &Path, trial: i64) -> Vec<PathBuf> {
    let kinds: &[&str] = if trial < 200 { &["SYSTEM", "TIMING", "MISC"] } else { &["SYSTEM"] };
    let folder = traces.join(generation(trial)).join("rest");
    kinds.iter().map(|kind| folder.join(format!("trial{trial}_metrics_{kind}.jsonl"))).collect()
}

/// Rows of a query as text and numbers.
fn rows(run: &Run, query: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for batch in run.sql(query).unwrap() {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| cast(column, &DataType::Utf8).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let text = |column: &trace_advisor::arrow::array::ArrayRef| {
                if column.is_null(row) {
                    String::new()
                } else {
                    column.as_string::<i32>().value(row).to_owned()
                }
            };
            rows.push(columns.iter().map(text).collect());
        }
    }
    rows
}

fn number(run: &Run, query: &str) -> f64 {
    let batches = run.sql(query).unwrap();
    let column = cast(batches[0].column(0), &DataType::Float64).unwrap();
    assert!(!column.is_null(0), "{query}");
    column.as_primitive::<Float64Type>().value(0)
}

/// All points of a run by series and time: nanoseconds since 1970, value, batch. Values are in our units, those of
/// timings in seconds.
type Points = BTreeMap<String, BTreeMap<i64, (f64, String)>>;

fn points(run: &Run) -> Points {
    let samples = "SELECT coalesce(c.metric, c.name), c.agent, c.device, c.ts_ns + r.base_time_ns, c.value, \
                   c.batch FROM counters c JOIN ranks r ON c.rank = r.rank";
    let timings = "SELECT a.name, t.thread_name, NULL, a.ts_ns + r.base_time_ns, a.dur_ns / 1e9, a.args \
                   FROM annotations a JOIN ranks r ON a.rank = r.rank \
                   JOIN threads t ON a.rank = t.rank AND a.thread = t.thread";
    let mut points = Points::new();
    for query in [samples, timings] {
        for row in rows(run, query) {
            let [name, agent, device, ts_ns, value, batch] = row.try_into().unwrap();
            let batch = serde_json::from_str::<Json>(&batch)
                .map_or(batch.clone(), |args| args.get("batch").map_or(batch, Json::to_string));
            let series = points.entry(format!("{name} {agent} {device}")).or_default();
            let before = series.insert(ts_ns.parse().unwrap(), (value.parse().unwrap(), batch));
            assert!(before.is_none(), "{name} twice at {ts_ns}");
        }
    }
    points
}

fn count(points: &Points) -> usize {
    points.values().map(BTreeMap::len).sum()
}

/// That two forms say the same; `batches`: both say them.
fn assert_same(left: &Points, right: &Points, tolerance: f64, batches: bool, what: &str) {
    assert!(left.keys().eq(right.keys()), "{what}: {:?} {:?}", left.keys(), right.keys());
    for (series, left) in left {
        let right = &right[series];
        assert!(left.keys().eq(right.keys()), "{what}: times of {series}");
        for (ts_ns, (value, batch)) in left {
            let (other, other_batch) = &right[ts_ns];
            assert_close(*value, *other, tolerance, &format!("{what}: {series} at {ts_ns}"));
            assert!(!batches || batch == other_batch, "{what}: {series} at {ts_ns}");
        }
    }
}

fn assert_close(value: f64, expected: f64, tolerance: f64, what: &str) {
    // Durations are whole nanoseconds: both may be rounded.
    let allowed = (expected.abs() * tolerance).max(1.01e-9);
    assert!((value - expected).abs() <= allowed, "{what}: {value}, expected {expected}");
}

/// The text that `pg_dump` writes for a table, from its rows as CSV.
fn dump(csv_file: &Path, table: &str) -> String {
    let mut reader = csv::Reader::from_path(csv_file).unwrap();
    let quoted =
        |name: &str| if name == "values" { format!("\"{name}\"") } else { name.to_owned() };
    let names: Vec<String> = reader.headers().unwrap().iter().map(quoted).collect();
    let mut text = "--\n-- PostgreSQL database dump\n--\n\nSET client_encoding = 'UTF8';\n\n\
                    COPY public.users (id, name) FROM stdin;\n1\tvalues\t\\N\n\\.\n\n"
        .to_owned();
    writeln!(text, "COPY public.{table} ({}) FROM stdin;", names.join(", ")).unwrap();
    for record in reader.records() {
        let escaped = |value: &str| match value {
            "" => "\\N".to_owned(),
            value => value.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"),
        };
        let values: Vec<String> = record.unwrap().iter().map(escaped).collect();
        writeln!(text, "{}", values.join("\t")).unwrap();
    }
    text + "\\.\n\n--\n-- PostgreSQL database dump complete\n--\n"
}

/// Every form of the old generation says the same, and as much as it should.
#[test]
fn old_trials_are_the_same_in_every_form() {
    let Some(traces) = traces() else { return };
    let db = traces.join("db/trial_profiler_metrics.csv");
    let dumps = tempfile::tempdir().unwrap();
    let dumped = dumps.path().join("dump.sql");
    fs::write(&dumped, dump(&db, "trial_profiler_metrics")).unwrap();
    let mut sum = 0;
    for (trial, series, expected) in [(101, 17, 2709), (102, 17, 2093), (103, 21, 793)] {
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_eq!((sent.len(), count(&sent)), (series, expected), "{trial}");
        sum += expected;
        let answers = folder(&rest(&traces, trial));
        for (form, path) in [
            ("rest", answers.path()),
            ("csv", &db),
            ("jsonl", &traces.join("db/trial_profiler_metrics.jsonl")),
            ("pg_dump", &dumped),
        ] {
            let form_points = points(&open(path, Some(trial)).unwrap());
            assert_same(&form_points, &sent, SINGLE, true, &format!("{trial} {form}"));
        }
    }
    assert_eq!(sum, 5595);
}

#[test]
fn new_trials_are_the_same_in_every_form() {
    let Some(traces) = traces() else { return };
    let db = traces.join("db/system_metrics.csv");
    let dumps = tempfile::tempdir().unwrap();
    let dumped = dumps.path().join("dump.sql");
    fs::write(&dumped, dump(&db, "system_metrics")).unwrap();
    let mut sum = 0;
    let golden = golden("summary");
    for (trial, series, answered) in [(201, 9, 28), (202, 9, 91), (203, 26, 264)] {
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_eq!(sent.len(), series, "{trial}");
        sum += count(&sent);
        for (form, path) in
            [("csv", &db), ("jsonl", &traces.join("db/system_metrics.jsonl")), ("pg_dump", &dumped)]
        {
            let rows = points(&open(path, Some(trial)).unwrap());
            assert_same(&rows, &sent, EXACT, true, &format!("{trial} {form}"));
        }
        let answers = folder(&rest(&traces, trial));
        let run = open(answers.path(), None).unwrap();
        let rest = points(&run);
        let golden = &golden[trial.to_string()];
        assert_eq!(rest.len() as i64, golden["rest_series"].as_i64().unwrap());
        assert_eq!(count(&rest), answered);
        // What can be asked for is the same but for the use of file systems, which cannot.
        let visible: Points =
            sent.into_iter().filter(|(series, _)| !series.starts_with("disk_space_used")).collect();
        assert_same(&rest, &visible, SINGLE, true, &format!("{trial} rest"));
    }
    assert_eq!(sum, 465);
}

/// The means of every series, in our units.
#[test]
fn means_are_the_scripts() {
    let Some(traces) = traces() else { return };
    let golden = golden("summary");
    let mut compared = 0;
    for trial in OLD.into_iter().chain(NEW) {
        let run = open(&wire(&traces, trial), None).unwrap();
        let ours = points(&run);
        for (key, mean) in golden[trial.to_string()]["means"].as_object().unwrap() {
            let parts: Vec<&str> = key.split('|').collect();
            let (name, agent, device) = match trial {
                ..200 => (parts[1], parts[2], parts[3]),
                _ => (parts[3], parts[1], parts[2]),
            };
            let (metric, scale) = match name {
                "cpu_util_simple" => ("cpu_util", 1.0),
                "free_memory" => ("host_memory_free", 1e9),
                "memory_free" => ("host_memory_free", 1.0),
                "gpu_free_memory" => ("gpu_memory_free", 1.0),
                "net_throughput_sent" => ("net_sent", if trial < 200 { 1.25e8 } else { 1.0 }),
                "net_throughput_recv" => ("net_recv", if trial < 200 { 1.25e8 } else { 1.0 }),
                "disk_throughput_read" => ("disk_read", 1.0),
                "disk_throughput_write" => ("disk_write", 1.0),
                "disk_util" => ("disk_space_used", 1.0),
                "samples_per_second" => ("throughput", 1.0),
                same => (same, 1.0),
            };
            let series = &ours[&format!("{metric} {agent} {device}")];
            let sum: f64 = series.values().map(|(value, _)| value).sum();
            let expected = mean.as_f64().unwrap() * scale;
            assert_close(sum / series.len() as f64, expected, EXACT, &format!("{trial} {key}"));
            compared += 1;
        }
    }
    assert_eq!(compared, 17 + 17 + 21 + 9 + 9 + 26);
    // D4: free memory of trial 101 in bytes.
    let run = open(&wire(&traces, 101), None).unwrap();
    let mean = number(&run, "SELECT avg(value) FROM counters WHERE metric = 'host_memory_free'");
    assert_close(mean, 24_587_607_981.0, 1e-10, "free memory");
    let units = rows(&run, "SELECT DISTINCT metric, unit FROM counters ORDER BY metric");
    let expected = [
        ["cpu_util", "percent"],
        ["disk_iops", "operations/s"],
        ["disk_read", "bytes/s"],
        ["disk_write", "bytes/s"],
        ["host_memory_free", "bytes"],
        ["net_recv", "bytes/s"],
        ["net_sent", "bytes/s"],
        ["throughput", "samples/s"],
    ];
    assert_eq!(units, expected);
}

/// Rows that Determined's migration copied are in GB and Gbit/s: the same points as in the old table.
#[test]
fn migrated_rows_are_read_in_their_units() {
    let Some(traces) = traces() else { return };
    let mut sum = 0;
    for trial in OLD {
        let migrated = open(&traces.join("db/system_metrics_migrated.csv"), Some(trial)).unwrap();
        let migrated_points = points(&migrated);
        sum += count(&migrated_points);
        assert!(migrated.warnings().iter().any(|warning| warning.code == "migrated-units"));
        let same =
            points(&open(&traces.join("db/system_metrics_migrated.jsonl"), Some(trial)).unwrap());
        assert_same(&migrated_points, &same, EXACT, true, "csv and jsonl");
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        for (series, samples) in &migrated_points {
            for (ts_ns, (value, _)) in samples {
                // A row has one time for all its series, and what was sent a few microseconds more each.
                let (near, (expected, _)) =
                    sent[series].iter().min_by_key(|(time, _)| time.abs_diff(*ts_ns)).unwrap();
                assert!(near.abs_diff(*ts_ns) < 100_000, "{series}: {near} {ts_ns}");
                assert_close(*value, *expected, SINGLE, series);
            }
        }
        let query = "SELECT min(value) FROM counters WHERE metric = 'host_memory_free'";
        assert!((24.5e9..24.7e9).contains(&number(&migrated, query)));
    }
    assert_eq!(sum, 191);
}

/// Sums of timings, steps, and how the loader's label lags.
#[test]
fn timings_make_steps() {
    let Some(traces) = traces() else { return };
    let golden = golden("summary");
    for trial in OLD {
        let run = open(&wire(&traces, trial), None).unwrap();
        let golden = &golden[trial.to_string()];
        let seconds = |name: &str| {
            number(
                &run,
                &format!(
                    "SELECT coalesce(sum(dur_ns), 0) / 1e9 FROM annotations WHERE name = '{name}'"
                ),
            )
        };
        let mut accounted = 0.0;
        for (name, key) in [
            ("dataloader_next", "loader_s"),
            ("to_device", "to_device_s"),
            ("train_batch", "train_batch_s"),
            ("step_lr_schedulers", "step_lr_schedulers_s"),
            ("from_device", "from_device_s"),
            ("reduce_metrics", "reduce_metrics_s"),
            ("train_batch.backward", "train_batch.backward_s"),
            ("train_batch.sync_optimizers", "train_batch.sync_optimizers_s"),
        ] {
            let sum = seconds(name);
            let expected = golden[key].as_f64().unwrap();
            assert!((sum - expected).abs() < 3e-7, "{trial} {key}: {sum}, expected {expected}");
            accounted += if name.contains('.') { 0.0 } else { sum };
        }
        let close =
            |value: f64, key: &str| assert_close(value, golden[key].as_f64().unwrap(), 1e-6, key);
        close(seconds("dataloader_next") / accounted, "loader_share_of_accounted");
        close(
            seconds("train_batch.backward") / seconds("train_batch"),
            "backward_share_of_train_batch",
        );
        let reported = number(&run, "SELECT avg(value) FROM counters WHERE metric = 'throughput'");
        close(reported, "reported_samples_per_second_mean");

        // The first batch was fetched before the recording began, and no batch follows the last fetch.
        let batches = golden["steps"].as_i64().unwrap();
        let offsets = &golden["label_offset_loader_minus_train_batch"];
        assert_eq!(offsets["-1"].as_i64().unwrap(), batches - 1);
        let steps = rows(
            &run,
            "SELECT s.step, l.args, b.args, l.step, s.source FROM steps s \
             JOIN annotations l ON l.ts_ns = s.ts_ns AND l.name = 'dataloader_next' \
             JOIN annotations b ON b.event_id = s.event_id AND b.name = 'train_batch' ORDER BY s.ts_ns",
        );
        assert_eq!(steps.len() as i64, batches - 1);
        let label =
            |args: &str| serde_json::from_str::<Json>(args).unwrap()["batch"].as_i64().unwrap();
        for (i, step) in steps.iter().enumerate() {
            let number: i64 = step[0].parse().unwrap();
            assert_eq!(number, i as i64 + 3, "the first batch of all is 2");
            assert_eq!((label(&step[1]), label(&step[2])), (number - 1, number));
            assert_eq!((step[3].as_str(), step[4].as_str()), (step[0].as_str(), "determined"));
        }
        let nested = "SELECT count(*) FROM annotations c JOIN annotations p ON c.parent = p.event_id \
                      WHERE c.name = 'train_batch.backward' AND p.name = 'train_batch' AND c.depth = 1";
        let all = "SELECT count(*) FROM annotations WHERE name = 'train_batch.backward'";
        assert_close(number(&run, nested), number(&run, all), 0.0, "backward lies in train_batch");
    }
}

/// D9: what views need for warm-up and tail is there: values in order of time.
#[test]
fn first_and_last_samples_can_be_told() {
    let Some(traces) = traces() else { return };
    for (trial, query, expected) in [
        (
            101,
            "SELECT avg(value) FROM (SELECT value, row_number() OVER (ORDER BY ts_ns) AS n FROM counters \
               WHERE metric = 'cpu_util') WHERE n > 1",
            11.563_265_306_122_44,
        ),
        (201, "SELECT avg(value) FROM counters WHERE metric = 'cpu_util'", 56.95),
        (202, "SELECT avg(value) FROM counters WHERE metric = 'cpu_util'", 99.081_538_461_538_46),
    ] {
        let run = open(&wire(&traces, trial), None).unwrap();
        assert_close(number(&run, query), expected, EXACT, query);
    }
    let run = open(&wire(&traces, 201), None).unwrap();
    let gaps = rows(
        &run,
        "SELECT (ts_ns - lag(ts_ns) OVER (ORDER BY ts_ns)) / 1e9 FROM counters WHERE metric = 'cpu_util' ORDER BY ts_ns",
    );
    let last: f64 = gaps.last().unwrap()[0].parse().unwrap();
    assert!(last < 9.0, "the last report is short: {last} s");
}

/// D10, D11: agents are ranks; each GPU and each file system is a series.
#[test]
fn agents_and_devices_are_told_apart() {
    let Some(traces) = traces() else { return };
    let run = open(&wire(&traces, 203), None).unwrap();
    assert_eq!(run.info().ranks, [0, 1]);
    let gpus = rows(
        &run,
        "SELECT rank, agent, device, round(avg(value), 4) FROM counters WHERE metric = 'gpu_util' \
         GROUP BY rank, agent, device ORDER BY rank, device",
    );
    let uuid = |agent: i32, gpu: i32| format!("GPU-5ea1000{agent}-0000-4000-8000-00000000000{gpu}");
    let expected = [
        ["0", "agent-a", &uuid(1, 0), "61.1333"],
        ["0", "agent-a", &uuid(1, 1), "41.1333"],
        ["1", "agent-b", &uuid(2, 0), "60.15"],
        ["1", "agent-b", &uuid(2, 1), "40.15"],
    ];
    assert_eq!(gpus, expected);
    let ranks =
        rows(&run, "SELECT rank, vendor, clock, start_ns, has_stacks FROM ranks ORDER BY rank");
    assert_eq!(ranks[0], ["0", "", "absolute", "0", "false"]);
    assert!(ranks[1][3].parse::<i64>().unwrap() > 0, "agent-b reported later");

    let run = open(&wire(&traces, 103), None).unwrap();
    let gpus = rows(
        &run,
        "SELECT round(avg(value), 4) FROM counters WHERE metric = 'gpu_util' GROUP BY device ORDER BY device",
    );
    assert_eq!(gpus, [["75.0556"], ["55.0556"]]);

    let run = open(&wire(&traces, 201), None).unwrap();
    let paths = rows(
        &run,
        "SELECT device, round(avg(value), 4) FROM counters WHERE metric = 'disk_space_used' GROUP BY device \
         ORDER BY device",
    );
    assert_eq!(paths, [["/", "32.73"], ["/determined_shared_fs", "32.73"]]);
}

/// D12: lists of series are recognised; alone they are an error that says what is missing.
#[test]
fn listed_series_without_samples_are_named() {
    let Some(traces) = traces() else { return };
    for (trial, count) in [(101, 17), (102, 17), (103, 21), (201, 7), (202, 7), (203, 22)] {
        let folder_name = traces.join(generation(trial)).join("rest");
        let list = folder_name.join(format!("trial{trial}_available_series.json"));
        let error = open(&list, None).unwrap_err();
        assert!(error.contains(&format!("{count} series are listed")), "{error}");
        let all = folder(&[vec![list.clone()], rest(&traces, trial)].concat());
        let run = open(all.path(), None).unwrap();
        assert!(run.warnings().iter().all(|w| w.code != "series-without-samples"), "{trial}");
        let run = open(folder(&[list, wire(&traces, trial)]).path(), None).unwrap();
        assert!(run.warnings().iter().all(|w| w.code != "series-without-samples"), "{trial}");
    }
    let rest = traces.join("old_generation/rest");
    let part = folder(&[
        rest.join("trial101_available_series.json"),
        rest.join("trial101_metrics_TIMING.jsonl"),
    ]);
    let run = open(part.path(), None).unwrap();
    let warning = run.warnings().iter().find(|w| w.code == "series-without-samples").unwrap();
    assert_eq!(warning.count, 8);
    assert!(warning.message.contains("cpu_util_simple"), "{}", warning.message);
}

/// D13: the ranks that Determined puts into names of traces.
#[test]
fn names_that_determined_marks_give_the_rank() {
    if corpus().is_none() {
        return;
    }
    let trace = r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}"#;
    let mut tried = 0;
    for (case, marked) in golden("rank_file_names").as_object().unwrap() {
        let rank: i32 = case.rsplit_once(" rank ").unwrap().1.parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(marked.as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, trace).unwrap();
        // Event files carry no mark: what it says of the rank is nothing.
        let expected = if case.starts_with("events.out") { 0 } else { rank };
        let run = open(folder.path(), None).unwrap();
        assert_eq!(run.info().ranks, [expected], "{case}");
        tried += 1;
    }
    assert_eq!(tried, 12);
}

/// All forms of a trial in one folder are one trial, in the most exact form.
#[test]
fn the_same_points_are_read_once() {
    let Some(traces) = traces() else { return };
    for trial in OLD.into_iter().chain(NEW) {
        let db = if trial < 200 {
            vec![
                traces.join("db/trial_profiler_metrics.csv"),
                traces.join("db/trial_profiler_metrics.jsonl"),
                traces.join("db/system_metrics_migrated.csv"),
            ]
        } else {
            vec![traces.join("db/system_metrics.csv")]
        };
        let all = folder(&[vec![wire(&traces, trial)], rest(&traces, trial), db].concat());
        let run = open(all.path(), Some(trial)).unwrap();
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_same(&points(&run), &sent, 0.0, true, &trial.to_string());
        let codes: Vec<&str> = run.warnings().iter().map(|warning| warning.code.as_ref()).collect();
        assert!(codes.contains(&"duplicate-samples"), "{trial} {codes:?}");
        assert!(!codes.contains(&"contradicting-samples"), "{trial} {codes:?}");
    }
}

/// The newest trial is read, or the one that was asked for.
#[test]
fn one_trial_is_read() {
    let Some(traces) = traces() else { return };
    let old = traces.join("old_generation");
    let run = open(&old, None).unwrap();
    let warning = run.warnings().iter().find(|w| w.code == "several-trials").unwrap();
    assert!(warning.message.contains("trial 102 was read, not 101"), "{}", warning.message);
    let names = rows(&run, "SELECT DISTINCT process_name FROM threads");
    assert_eq!(names, [["Determined trial 102"]]);
    let run = open(&old, Some(101)).unwrap();
    assert!(run.warnings().iter().all(|w| w.code != "several-trials"));
    assert_eq!(run.info().steps, 235);
    let error = open(&old, Some(7)).unwrap_err();
    assert!(error.contains("no metrics of trial 7, only of 101, 102"), "{error}");
    assert!(error.starts_with(&old.display().to_string()), "{error}");
}

/// D14: beside a trace samples lie on its axis, which is Unix time; events keep numbers of their own.
#[test]
fn samples_lie_on_the_axis_of_a_trace() {
    let Some(traces) = traces() else { return };
    let composer = traces.join("../composer/workers0/plain");
    let alone = Run::open(&composer).unwrap();
    let mut files = Vec::new();
    let mut folders = vec![composer];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    let copied = folder(&files);
    fs::copy(wire(&traces, 101), copied.path().join("metrics.jsonl")).unwrap();
    let run = open(copied.path(), None).unwrap();
    // The trace was recorded weeks before: that is said, and the axis is one all the same.
    assert!(run.warnings().iter().any(|warning| warning.code == "metrics-of-another-time"));
    let golden = &golden("trial101")["series"]["SYSTEM|cpu_util_simple|agent-a|"];
    let first = "SELECT (min(c.ts_ns) + max(r.base_time_ns)) / 1e9 FROM counters c JOIN ranks r ON c.rank = r.rank \
                 WHERE c.metric = 'cpu_util' AND c.agent IS NOT NULL";
    assert_close(number(&run, first), golden["first_ts"].as_f64().unwrap(), 1e-15, "first sample");
    let zero = "SELECT max(base_time_ns) FROM ranks";
    assert_close(number(&run, zero), number(&alone, zero), 0.0, "zero");
    let steps = "SELECT count(*) FROM steps WHERE source = 'composer'";
    assert_close(number(&run, steps), number(&alone, steps), 0.0, "steps are the trace's");
    assert!(number(&alone, steps) > 0.0);
    for table in ["annotations", "counters", "unpaired_events"] {
        let ids = format!("SELECT count(DISTINCT event_id) FROM {table}");
        assert!(number(&run, &ids) >= number(&alone, &ids), "{table}");
    }
    let shared = "SELECT count(*) FROM annotations a JOIN (SELECT event_id FROM counters UNION ALL \
                  SELECT event_id FROM unpaired_events UNION ALL SELECT event_id FROM instants) c \
                  ON a.event_id = c.event_id";
    assert_close(number(&run, shared), number(&alone, shared), 0.0, "events share numbers");
    let lanes = "SELECT count(*) - count(DISTINCT thread) FROM threads";
    assert_close(number(&run, lanes), 0.0, 0.0, "lanes share numbers");
}

/// D15: what a server or a shell leaves in such files.
#[test]
fn errors_and_odd_streams_are_reported() {
    let Some(traces) = traces() else { return };
    let sent = points(&open(&wire(&traces, 201), None).unwrap());
    let lines = fs::read_to_string(rest(&traces, 201)[0].clone()).unwrap();
    let expected: Points =
        sent.into_iter().filter(|(series, _)| !series.starts_with("disk_space_used")).collect();
    let read = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("metrics.json"), text).unwrap();
        open(folder.path(), None)
    };
    // Pretty printed one after the other, in a list, on one line, with Windows' line ends and a mark.
    let objects: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pretty: Vec<String> =
        objects.iter().map(|object| serde_json::to_string_pretty(object).unwrap()).collect();
    for text in [
        pretty.join("\n"),
        pretty.concat(),
        serde_json::to_string(&objects).unwrap(),
        serde_json::to_string_pretty(&objects).unwrap(),
        lines.replace('\n', ""),
        format!("\u{feff}{}", lines.replace('\n', "\r\n")),
    ] {
        let run = read(&text).unwrap();
        assert_same(&points(&run), &expected, SINGLE, true, &text[..40]);
        assert!(run.warnings().is_empty(), "{:?}", run.warnings());
    }
    // An error in the middle.
    let error = r#"{"error":{"grpcCode":5,"httpCode":404,"message":"trial 999 not found","httpStatus":"Not Found"}}"#;
    let run = read(&format!("{error}\n{lines}{error}\n")).unwrap();
    assert_same(&points(&run), &expected, SINGLE, true, "with errors");
    let [warning] = run.warnings() else { panic!("{:?}", run.warnings()) };
    assert_eq!((warning.code.as_ref(), warning.count), ("determined-error", 2));
    assert!(warning.message.ends_with("trial 999 not found"), "{}", warning.message);
    // Nothing but errors, nothing at all.
    assert!(read(error).unwrap_err().contains("trial 999 not found"));
    assert!(read("").unwrap_err().contains("no profiler trace found"));
    assert!(read("{\"result\":{\"labels\":[]}}").unwrap_err().contains("not a single sample"));
}
