//! Our views against what Holistic Trace Analysis 0.5.0 computed on the traces of the corpus.
//!
//! Where the corpus has numbers from HTA without its rounding to microseconds, those count; its
//! percentages and idle times are compared to the digits it prints. What differs on purpose is listed
//! in [`EXCEPTIONS`] with the reason; an exception that is no longer one fails too.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use analyses::{Params, Session};
use ingest::{NoProgress, Options, read_run};
use serde_json::Value as Json;
use support::corpus;
use trace_model::{MetricTable, Value};

/// HTA's relative precision, after sums of thousands of floats.
const RELATIVE: f64 = 1e-6;

/// `(trace, analysis, reason)`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("b200_eager", "temporal_breakdown", TRITON),
    ("b200_eager", "gpu_kernel_breakdown_kernels_all", TRITON),
    ("b200_eager", "idle_time_breakdown", NEGATIVE_IDLE),
    ("b200_eager", "queue_length_summary", LAUNCHES),
    ("critical_path_alexnet", "temporal_breakdown", SYNCS),
    ("critical_path_alexnet", "gpu_kernel_breakdown_types", SYNCS),
    ("critical_path_alexnet", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("critical_path_simple_add", "temporal_breakdown", SYNCS),
    ("critical_path_simple_add", "gpu_kernel_breakdown_types", SYNCS),
    ("critical_path_simple_add", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("critical_path_simple_add", "queue_length_summary", TIES),
    ("cuda_event_sync", "temporal_breakdown", SYNCS),
    ("cuda_event_sync_multi_stream", "temporal_breakdown", SYNCS),
    ("cuda_event_sync_multi_stream", "gpu_kernel_breakdown_types", SYNCS),
    ("cuda_event_sync_multi_stream", "gpu_kernel_breakdown_kernels_all", SYNCS),
    ("diff_control", "queue_length_summary", TIES),
    ("diff_test", "idle_time_breakdown", NEGATIVE_IDLE),
    ("diff_test", "queue_length_summary", TIES),
    ("h100_qwen", "idle_time_breakdown", UNLINKED),
    ("mi300_bert", "queue_length_summary", LAUNCHES),
    ("mi300_qwen", "queue_length_summary", LAUNCHES),
    ("mi300_resnet_ddp", "queue_length_summary", LAUNCHES),
    ("mi300_torch_compile_triton", "temporal_breakdown", TRITON),
    ("mi300_torch_compile_triton", "gpu_kernel_breakdown_types", TRITON),
    ("mi300_torch_compile_triton", "gpu_kernel_breakdown_kernels_all", TRITON),
    ("mi300_torch_compile_triton", "queue_length_summary", LAUNCHES),
    ("resnet50_workers0", "queue_length_summary", TIES),
    ("resnet50_workers4", "queue_length_summary", TIES),
    ("sglang_decode", "queue_length_summary", LAUNCHES),
    ("triton_example", "temporal_breakdown", TRITON),
    ("triton_example", "gpu_kernel_breakdown_types", TRITON),
    ("triton_example", "gpu_kernel_breakdown_kernels_all", TRITON),
];

const TRITON: &str =
    "HTA takes the host operators of Triton kernels, which carry `stream: 0`, for device work";
const SYNCS: &str =
    "HTA counts synchronisations recorded on a stream as work, though the stream waits";
const NEGATIVE_IDLE: &str =
    "activities of one stream overlap, which HTA counts as negative idle time";
const UNLINKED: &str =
    "HTA takes the file's first event for the launch of some work whose launch is not in the trace";
const LAUNCHES: &str = "HTA knows some launching functions; we count all but those of graphs";
const TIES: &str =
    "HTA leaves the order of a launch and a start in the same microsecond to an unstable sort";

#[test]
fn views_agree_with_hta() {
    let Some(corpus) = corpus() else { return };
    let mut differences: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut compared = 0;
    for (trace, golden) in goldens(&corpus.join("golden")) {
        let folder = corpus.join("traces").join(&trace);
        let dataset = read_run(&folder, &Options::default(), &NoProgress)
            .unwrap_or_else(|e| panic!("{trace}: {e}"));
        let session = Session::new(dataset.tables, Params::default()).unwrap();
        let golden = Golden::open(&golden);
        for (analysis, compare) in ANALYSES {
            let Some(expected) = golden.rows(analysis) else { continue };
            let mut found = Differences::new(&golden);
            compare(&session, &expected, &mut found);
            compared += expected.len();
            if !found.lines.is_empty() {
                differences.insert((trace.clone(), (*analysis).to_owned()), found.lines);
            }
        }
    }
    assert!(compared > 500, "only {compared} rows compared: is the corpus complete?");

    let excused: BTreeSet<(String, String)> = EXCEPTIONS
        .iter()
        .map(|&(trace, analysis, _)| (trace.to_owned(), analysis.to_owned()))
        .collect();
    let mut report = String::new();
    for ((trace, analysis), lines) in &differences {
        if !excused.contains(&(trace.clone(), analysis.clone())) {
            writeln!(report, "{trace} {analysis}:\n  {}", lines.join("\n  ")).unwrap();
        }
    }
    for key in excused.iter().filter(|key| !differences.contains_key(key)) {
        writeln!(report, "{} {}: agrees now, remove the exception", key.0, key.1).unwrap();
    }
    assert!(report.is_empty(), "\n{report}");
}

/// Traces with their golden folders, the unrounded one where there is one.
fn goldens(root: &Path) -> BTreeMap<String, PathBuf> {
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

struct Golden {
    folder: PathBuf,
    /// HTA worked on fractions of microseconds.
    unrounded: bool,
    /// What HTA loses by holding absolute times in doubles.
    slack_us: f64,
}

impl Golden {
    fn open(folder: &Path) -> Self {
        let mut golden = Self { folder: folder.to_owned(), unrounded: false, slack_us: 1e-6 };
        for rank in golden.rows("load_info").unwrap_or_default() {
            let start = number(&rank, "min_ts_offset");
            if rank["ts_dtype"] == "float64" && start.is_finite() {
                golden.unrounded = true;
                let spacing = start.log2().floor().exp2() * f64::EPSILON;
                golden.slack_us = golden.slack_us.max(2.0 * spacing * number(&rank, "rows").sqrt());
            }
        }
        golden
    }

    /// The rows HTA printed; none if it failed on this trace.
    fn rows(&self, analysis: &str) -> Option<Vec<Json>> {
        let text = std::fs::read_to_string(self.folder.join(format!("{analysis}.json"))).ok()?;
        match serde_json::from_str(&text).unwrap() {
            Json::Array(rows) => Some(rows),
            _ => None,
        }
    }
}

struct Differences {
    unrounded: bool,
    slack_us: f64,
    lines: Vec<String>,
}

impl Differences {
    fn new(golden: &Golden) -> Self {
        Self { unrounded: golden.unrounded, slack_us: golden.slack_us, lines: Vec::new() }
    }

    fn check(&mut self, what: &str, ours: f64, theirs: f64, digits: Option<i32>) {
        let rounding = digits.map_or(0.0, |d| 0.5 * 10_f64.powi(-d));
        let allowed = rounding * 1.000_001 + self.slack_us + RELATIVE * theirs.abs();
        let both_absent = ours.is_nan() && theirs.is_nan();
        // A value that only one side has makes the difference NaN, which is within nothing.
        let agree = (ours - theirs).abs() <= allowed;
        if !both_absent && !agree {
            self.lines.push(format!("{what}: ours {ours}, HTA {theirs}"));
        }
    }
}

type Compare = fn(&Session, &[Json], &mut Differences);

const ANALYSES: &[(&str, Compare)] = &[
    ("temporal_breakdown", temporal_breakdown),
    ("idle_time_breakdown", idle_time_breakdown),
    ("gpu_kernel_breakdown_types", kernel_types),
    ("gpu_kernel_breakdown_kernels_all", kernels),
    ("comm_comp_overlap", overlap),
    ("queue_length_summary", queue_length),
    ("time_blocked_full_queue_1024", full_queue),
    ("launch_stats_summary", launches),
];

fn temporal_breakdown(session: &Session, expected: &[Json], found: &mut Differences) {
    let ours = keyed(&view(session, "gpu_temporal_breakdown"), &["rank"]);
    same_keys(&ours, expected, &["rank"], found);
    for row in expected {
        let Some(mine) = ours.get(&key(row, &["rank"])) else { continue };
        for (column, theirs) in [
            ("kernel_time_ns", "kernel_time(us)"),
            ("idle_ns", "idle_time(us)"),
            ("compute_ns", "compute_time(us)"),
            ("non_compute_ns", "non_compute_time(us)"),
        ] {
            found.check(
                &format!("{} {theirs}", key(row, &["rank"])),
                mine[column] / 1e3,
                number(row, theirs),
                None,
            );
        }
    }
}

fn idle_time_breakdown(session: &Session, expected: &[Json], found: &mut Differences) {
    let keys = ["rank", "stream", "idle_category"];
    let ours = keyed(&view(session, "gpu_idle_breakdown"), &keys);
    // HTA also lists categories without a gap; we list only what there is.
    let some: Vec<Json> =
        expected.iter().filter(|row| number(row, "idle_time") != 0.0).cloned().collect();
    same_keys(&ours, &some, &keys, found);
    for row in &some {
        let Some(mine) = ours.get(&key(row, &keys)) else { continue };
        found.check(&key(row, &keys), mine["idle_ns"] / 1e3, number(row, "idle_time"), Some(2));
        found.check(&key(row, &keys), mine["idle_ratio"], number(row, "idle_time_ratio"), Some(2));
    }
}

/// HTA cuts each stretch to whole microseconds before it adds them up: it may miss up to one for each.
fn kernel_types(session: &Session, expected: &[Json], found: &mut Differences) {
    let ours = keyed(&view(session, "gpu_kernel_breakdown"), &["kernel_type"]);
    let stretches = "SELECT count(*) AS count FROM activity_segments";
    let stretches = values(&session.sql(stretches).unwrap()).rows[0][0].as_f64().unwrap();
    for row in expected {
        let kind = key(row, &["kernel_type"]).to_lowercase();
        let mine = ours.get(&kind).map_or(0.0, |mine| mine["sum_ns"]) / 1e3;
        let theirs = number(row, "sum");
        if found.unrounded && (theirs..=theirs + stretches).contains(&mine) {
            continue;
        }
        found.check(&kind, mine, theirs, None);
    }
}

fn kernels(session: &Session, expected: &[Json], found: &mut Differences) {
    let mut ours = keyed(&view(session, "gpu_kernels"), &["rank", "name"]);
    ours.extend(keyed(&view(session, "gpu_copies"), &["rank", "name"]));
    same_keys(&ours, expected, &["rank", "name"], found);
    for row in expected {
        let name = key(row, &["rank", "name"]);
        let Some(mine) = ours.get(&name) else { continue };
        for (column, theirs) in [
            ("sum_ns", "sum (us)"),
            ("max_ns", "max (us)"),
            ("min_ns", "min (us)"),
            ("mean_ns", "mean (us)"),
        ] {
            found.check(&format!("{name} {theirs}"), mine[column] / 1e3, number(row, theirs), None);
        }
        // HTA gives 0 where a single execution has no deviation.
        let std_ns = if mine["std_ns"].is_nan() { 0.0 } else { mine["std_ns"] };
        found.check(&format!("{name} stddev"), std_ns / 1e3, number(row, "stddev"), None);
    }
}

fn overlap(session: &Session, expected: &[Json], found: &mut Differences) {
    let ours = keyed(&view(session, "comm_overlap"), &["rank"]);
    for row in expected {
        let rank = key(row, &["rank"]);
        let mine = ours.get(&rank).map_or(f64::NAN, |mine| mine["overlap_ratio"] * 100.0);
        found.check(&rank, mine, number(row, "comp_comm_overlap_pctg"), Some(2));
    }
}

fn queue_length(session: &Session, expected: &[Json], found: &mut Differences) {
    let keys = ["rank", "stream"];
    let ours = keyed(&view(session, "queue_length"), &keys);
    same_keys(&ours, expected, &keys, found);
    for row in expected {
        let stream = key(row, &keys);
        let Some(mine) = ours.get(&stream) else { continue };
        for (column, theirs) in [
            ("sample_count", "count"),
            ("mean_length", "mean"),
            ("std_length", "std"),
            ("min_length", "min"),
            ("p25_length", "25%"),
            ("p50_length", "50%"),
            ("p75_length", "75%"),
            ("max_length", "max"),
        ] {
            let theirs = number(row, &format!("queue_length.{theirs}"));
            found.check(&format!("{stream} {column}"), mine[column], theirs, None);
        }
    }
}

fn full_queue(session: &Session, expected: &[Json], found: &mut Differences) {
    let keys = ["rank", "stream"];
    let mut ours = keyed(&view(session, "queue_length"), &keys);
    ours.retain(|_, mine| mine["full_ns"] > 0.0);
    same_keys(&ours, expected, &keys, found);
    for row in expected {
        let Some(mine) = ours.get(&key(row, &keys)) else { continue };
        found.check(
            "full",
            mine["full_ns"] / 1e3,
            number(row, "duration_at_max_queue_length"),
            None,
        );
        found.check(
            "full ratio",
            mine["full_ratio"],
            number(row, "relative_duration_at_max_queue_length"),
            None,
        );
    }
}

/// HTA knows launches by three CUDA names, and copies and fills by two; we know all.
fn launches(session: &Session, expected: &[Json], found: &mut Differences) {
    let query = "
        SELECT
            rank, count(*) AS rows,
            sum(launch_dur_ns) AS cpu_sum, max(launch_dur_ns) AS cpu_max, min(launch_dur_ns) AS cpu_min,
            median(CAST(launch_dur_ns AS DOUBLE)) AS cpu_p50,
            sum(device_dur_ns) AS gpu_sum, max(device_dur_ns) AS gpu_max, min(device_dur_ns) AS gpu_min,
            median(CAST(device_dur_ns AS DOUBLE)) AS gpu_p50,
            sum(launch_delay_ns) AS delay_sum, max(launch_delay_ns) AS delay_max,
            min(launch_delay_ns) AS delay_min, median(CAST(launch_delay_ns AS DOUBLE)) AS delay_p50,
            sum(CASE WHEN launch_dur_ns <= 50000 AND device_dur_ns < launch_dur_ns THEN 1 ELSE 0 END) AS short,
            sum(CASE WHEN launch_dur_ns > 50000 THEN 1 ELSE 0 END) AS slow,
            sum(CASE WHEN launch_delay_ns > 100000 THEN 1 ELSE 0 END) AS late
        FROM kernel_launch_stats
        WHERE launch_name IN ('cudaLaunchKernel', 'cudaLaunchKernelExC', 'cudaMemcpyAsync', 'cudaMemsetAsync')
        GROUP BY rank";
    let batches = session.sql(query).unwrap();
    let ours = keyed(&values(&batches), &["rank"]);
    for row in expected {
        let rank = key(row, &["rank"]);
        let rows = ours.get(&rank).map_or(0.0, |mine| mine["rows"]);
        found.check(&format!("{rank} rows"), rows, number(row, "rows"), None);
        let Some(mine) = ours.get(&rank) else { continue };
        for (ours, theirs) in
            [("cpu", "cpu_duration"), ("gpu", "gpu_duration"), ("delay", "launch_delay")]
        {
            for of in ["sum", "max", "min", "p50"] {
                let theirs = format!("{theirs}.{of}");
                found.check(
                    &theirs,
                    mine[&format!("{ours}_{of}")] / 1e3,
                    number(row, &theirs),
                    None,
                );
            }
        }
        for (column, theirs) in [
            ("short", "short_kernels(cpu<=50 & gpu<cpu)"),
            ("slow", "runtime_outliers(cpu>50)"),
            ("late", "launch_delay_outliers(>100)"),
        ] {
            found.check(theirs, mine[column], number(row, theirs), None);
        }
    }
}

fn view(session: &Session, view: &str) -> MetricTable {
    session.metric_tables(&[view]).unwrap_or_else(|e| panic!("{view}: {e}")).remove(0)
}

/// Rows of numbers and the texts of `keys`, by key.
fn keyed(table: &MetricTable, keys: &[&str]) -> BTreeMap<String, BTreeMap<String, f64>> {
    let at: Vec<usize> = keys.iter().map(|k| table.index(k).unwrap()).collect();
    let numbers = |row: &[Value]| {
        let value = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
        table.columns.iter().zip(row).map(|((name, _), v)| (name.clone(), value(v))).collect()
    };
    table
        .rows
        .iter()
        .map(|row| {
            (at.iter().map(|&i| row[i].to_string()).collect::<Vec<_>>().join(" | "), numbers(row))
        })
        .collect()
}

fn values(batches: &[trace_model::RecordBatch]) -> MetricTable {
    use analyses::datafusion::arrow::array::AsArray;
    use analyses::datafusion::arrow::compute::cast;
    use analyses::datafusion::arrow::datatypes::{DataType, Float64Type};

    let schema = batches[0].schema();
    let columns =
        schema.fields().iter().map(|f| (f.name().clone(), trace_model::Unit::None)).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let arrays: Vec<_> =
            batch.columns().iter().map(|c| cast(c, &DataType::Float64).unwrap()).collect();
        for i in 0..batch.num_rows() {
            rows.push(
                arrays
                    .iter()
                    .map(|a| Value::Float(a.as_primitive::<Float64Type>().value(i)))
                    .collect(),
            );
        }
    }
    MetricTable { view: String::new(), columns, rows, when_empty: String::new() }
}

fn key(row: &Json, keys: &[&str]) -> String {
    let text = |k: &&str| match &row[k] {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    keys.iter().map(text).collect::<Vec<_>>().join(" | ")
}

fn number(row: &Json, column: &str) -> f64 {
    row[column].as_f64().unwrap_or(f64::NAN)
}

fn same_keys<T>(
    ours: &BTreeMap<String, T>,
    expected: &[Json],
    keys: &[&str],
    found: &mut Differences,
) {
    let theirs: BTreeSet<String> = expected.iter().map(|row| key(row, keys)).collect();
    for name in theirs.iter().filter(|name| !ours.contains_key(*name)) {
        found.lines.push(format!("{name}: only HTA has it"));
    }
    for name in ours.keys().filter(|name| !theirs.contains(*name)) {
        found.lines.push(format!("{name}: only we have it"));
    }
}
