//! Determined's metrics against the numbers that a script of its own took from the same files: every form of
//! every trial, its units, its timings, and what goes wrong.

mod forms;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tempfile::TempDir;
use trace_advisor::arrow::array::{Array, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};
use trace_advisor::ingest::{NoProgress, Options};
use trace_advisor::{OpenOptions, Run};

use crate::harness::{Case, functions};
use crate::runs;
use crate::support::corpus::corpus;

const OLD: [i64; 3] = [101, 102, 103];
const NEW: [i64; 3] = [201, 202, 203];
/// 32-bit floats.
const SINGLE: f64 = 1e-6;
const EXACT: f64 = 1e-9;

/// All tests.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = forms::cases();
    cases.extend(functions![
        means_match_the_script,
        timings_make_steps,
        samples_are_in_order_of_time,
        agents_are_ranks_and_devices_are_series,
        samples_lie_on_the_time_axis_of_a_trace,
    ]);
    cases
}

fn traces() -> PathBuf {
    runs::traces().join("determined")
}

fn golden(name: &str) -> Json {
    let path = corpus().join("golden/determined").join(format!("{name}.json"));
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

/// The means of every series, in our units.
fn means_match_the_script() {
    let traces = traces();
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

/// Sums of timings, steps, and how the loader's label lags.
fn timings_make_steps() {
    let traces = traces();
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
fn samples_are_in_order_of_time() {
    let traces = traces();
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
fn agents_are_ranks_and_devices_are_series() {
    let traces = traces();
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

/// D14: with a trace in the folder, samples lie on its axis, which is Unix time; events keep numbers of their own.
fn samples_lie_on_the_time_axis_of_a_trace() {
    let traces = traces();
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
