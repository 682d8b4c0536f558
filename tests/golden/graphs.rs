//! Kernels of graph replays with the operators of their capture, against the reports that `TraceLens` makes of the same pair
//! of traces; and sums of device time by owner, which must not lose any.

use std::collections::BTreeMap;
use std::path::PathBuf;

use trace_advisor::Run;

use crate::harness::{self, Case};
use crate::runs;
use crate::support::corpus::{self, corpus};
use crate::support::rows::rows;

const CAPTURES: &str = "graphs: operators of captures compared";
const OWNERS: &str = "graphs: devices with all time owned";

pub(crate) fn cases() -> Vec<Case> {
    harness::require(CAPTURES, 19);
    harness::require(OWNERS, 30);
    let mut cases = vec![
        Case::new("times_of_operators_equal_tracelens", times_of_operators),
        Case::new("operations_of_matmuls_and_norms_equal_tracelens", operations),
        Case::new("attention_over_the_cache_equals_tracelens", attention),
        Case::new("layers_of_servers_add_up", layers_add_up),
        Case::new("capture_pair_has_no_unowned_time", capture_pair_is_owned),
    ];
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        let of = trace.clone();
        cases.push(Case::of_trace(&trace, "device_time_adds_up", move || {
            let run = &runs::open(&of).run;
            device_time_adds_up(&of, run);
        }));
    }
    cases
}

fn pair() -> PathBuf {
    corpus().join("inputs/graph_capture/vllm_decode_full")
}

/// The rows of one of `TraceLens`'s reports, by column.
fn report(name: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(pair().join("perf_csvs").join(name)).unwrap();
    let header = reader.headers().unwrap().clone();
    let records = reader.records().map(Result::unwrap);
    let row = |record: csv::StringRecord| {
        header.iter().zip(&record).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    records.map(row).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {}", row[column]))
}

/// The numbers of a query by the text of its first column.
fn by_name(run: &Run, query: &str, column: &str) -> BTreeMap<String, f64> {
    rows(run, query)
        .iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row[column].as_f64().unwrap()))
        .collect()
}

/// `TraceLens` adds times since boot in microseconds, which 64-bit floats hold to a nanosecond.
fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found} is not {expected}");
}

fn times_of_operators() {
    let run = Run::open(pair()).unwrap();
    let query = "SELECT op_name AS name, sum(dur_ns) / 1000.0 AS us, count(*) AS kernels FROM kernels GROUP BY op_name";
    let ours = by_name(&run, query, "us");
    let mut theirs = BTreeMap::new();
    for row in report("ops_summary.csv") {
        *theirs.entry(row["name"].clone()).or_insert(0.0) +=
            number(&row, "total_direct_kernel_time_sum");
    }
    for (name, &us) in &theirs {
        // TraceLens counts the copies of eager code, which are not kernels, with the operator.
        if name != "aten::copy_" {
            near(ours[name], us, 2e-4, name);
            harness::count(CAPTURES, 1);
        }
    }
    let busy = rows(&run, "SELECT busy_ns / 1000000.0 AS ms FROM gpu_time_coverage");
    let timeline = report("gpu_timeline.csv");
    let theirs = timeline.iter().find(|row| row["type"] == "busy_time").unwrap();
    near(busy[0]["ms"].as_f64().unwrap(), number(theirs, "time ms"), 1e-5, "busy time");
}

/// Operations of calls with the same first matrices, in 10^9, and the calls.
fn operations() {
    let run = Run::open(pair()).unwrap();
    let query = "SELECT DISTINCT concat(name, ' ', shapes) AS name, flops / 1e9 AS flops FROM roofline_calls";
    let ours = by_name(&run, query, "flops");
    let shapes = |row: &BTreeMap<String, String>| {
        let dims: Vec<Vec<i64>> = serde_json::from_str(&row["Input Dims_first"]).unwrap();
        let text = |dims: &Vec<i64>| dims.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
        dims.iter().filter(|dims| !dims.is_empty()).map(text).collect::<Vec<_>>().join(", ")
    };
    for file in ["GEMM.csv", "RMSNorm_fwd.csv"] {
        for row in report(file) {
            // Rows of an operator around another one repeat what that one computes.
            if row["name"] == "vllm::rocm_unquantized_gemm" {
                continue;
            }
            let name = format!("{} {}", row["name"], shapes(&row));
            let found = ours.get(&name).unwrap_or_else(|| panic!("{name} is not in {ours:?}"));
            near(*found, number(&row, "GFLOPS_first"), 0.01, &name);
            harness::count(CAPTURES, 1);
        }
    }
}

/// `TraceLens` gives all layers the cost of reading the whole cache. Half of the layers of this model have a sliding window, and
/// would read 8.4 TB/s on a device of 5.3: they have no cost here.
fn attention() {
    let run = Run::open(pair()).unwrap();
    let query = "SELECT count(*) AS calls, min(flops) / 1e9 AS least, max(flops) / 1e9 AS most,
            max(read_bytes + written_bytes) / 1048576 AS mib, sum(kernel_ns) / 1000.0 AS us
        FROM roofline_calls WHERE kind = 'attention'";
    let ours = &rows(&run, query)[0];
    let theirs = report("InferenceAttention_fwd.csv");
    let (possible, windowed): (Vec<_>, Vec<_>) =
        theirs.iter().partition(|row| number(row, "TB/s_max") < 5.3);
    let ([theirs], [_]) = (possible.as_slice(), windowed.as_slice()) else {
        panic!("not one kind of layers each");
    };
    let ours = |column: &str| ours[column].as_f64().unwrap();
    near(ours("calls"), number(theirs, "name_count"), 0.0, "calls");
    near(ours("least"), number(theirs, "GFLOPS_first"), 1e-12, "operations");
    near(ours("most"), number(theirs, "GFLOPS_first"), 1e-12, "operations");
    near(ours("mib"), number(theirs, "Data Moved (MB)_first"), 1e-12, "bytes");
    near(ours("us"), number(theirs, "Kernel Time (µs)_sum"), 2e-4, "time");
    harness::count(CAPTURES, 1);
}

/// 24 layers of gpt-oss and 36 of Qwen 3, as their configurations say.
fn layers_add_up() {
    let servers = [(pair(), 24), (corpus().join("traces/sglang_decode"), 36)];
    for (path, layer_count) in servers {
        let run = Run::open(&path).unwrap();
        let query = "SELECT count(DISTINCT layer) AS layers, min(kernel_count) AS least, max(kernel_count) AS most
            FROM serving_layers WHERE place = 'layer'";
        let layers = &rows(&run, query)[0];
        assert_eq!(layers["layers"], f64::from(layer_count), "{layers:?}");
        let (least, most) = (layers["least"].as_f64().unwrap(), layers["most"].as_f64().unwrap());
        assert!(most - least <= 2.0, "layers of {least} to {most} kernels");
        let sums = "SELECT (SELECT sum(device_ns) FROM serving_layers) AS layers,
            (SELECT sum(attention_ns + cache_write_ns + matmul_ns + expert_ns + norm_ns + communication_ns + other_ns)
                FROM serving_layers) AS parts,
            (SELECT sum(device_ns) FROM serving_steps) AS steps";
        let sums = &rows(&run, sums)[0];
        assert_eq!(sums["layers"], sums["steps"]);
        assert_eq!(sums["parts"], sums["steps"]);
    }
}

fn capture_pair_is_owned() {
    let run = Run::open(pair()).unwrap();
    let matches = rows(&run, "SELECT confidence, activity_count, matched_count FROM graph_replays");
    assert_eq!(matches.len(), 1);
    assert_eq!(matches[0]["confidence"], "exact");
    assert_eq!(matches[0]["activity_count"], 421.0);
    assert_eq!(matches[0]["matched_count"], 421.0);
    let coverage = &rows(&run, "SELECT * FROM gpu_time_coverage")[0];
    assert!(coverage["unowned_ratio"].as_f64().unwrap() < 0.05, "{coverage:?}");
    device_time_adds_up("vllm_decode_full", &run);
}

/// Device time by source line, operator, graph node and captured operator, with the rest that has no owner.
fn device_time_adds_up(trace: &str, run: &Run) {
    let coverage = rows(run, "SELECT * FROM gpu_time_coverage ORDER BY rank, device");
    // Sums are below 2^53: exact as floats.
    let sums = |query: &str| rows(run, query)[0]["ns"].as_f64().unwrap_or(0.0) as i64;
    let total = |column: &str| -> i64 {
        coverage.iter().map(|row| row[column].as_f64().unwrap() as i64).sum()
    };
    let of_lines = sums("SELECT sum(sum_ns) AS ns FROM source_kernels");
    assert_eq!(of_lines, total("source_ns"), "{trace}: by source line");
    assert_eq!(sums("SELECT sum(device_ns) AS ns FROM source_lines"), of_lines, "{trace}: by line");
    let replays = total("replay_ns");
    for view in ["graph_node_times", "graph_operators", "graph_replays"] {
        assert_eq!(
            sums(&format!("SELECT sum(sum_ns) AS ns FROM {view}")),
            replays,
            "{trace}: {view}"
        );
    }
    let work = "SELECT sum(dur_ns) AS ns FROM device_work";
    assert_eq!(sums(work), total("sum_ns"), "{trace}: all work");
    for row in &coverage {
        let ns = |column: &str| row[column].as_f64().unwrap();
        let whole = ns("sum_ns");
        for part in ["operator_ns", "source_ns", "module_ns", "replay_ns", "unowned_ns", "busy_ns"]
        {
            assert!((0.0..=whole).contains(&ns(part)), "{trace}: {part}: {row:?}");
        }
        assert!(
            ns("unowned_ns") <= whole - ns("operator_ns").max(ns("source_ns")),
            "{trace}: {row:?}"
        );
        harness::count(OWNERS, 1);
    }
}
