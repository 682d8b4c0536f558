//! Our critical path, call tree and kernel sequences against what Holistic Trace Analysis 0.5.0 computed
//! on the traces of the corpus.
//!
//! Every count and every sum is compared. Where the corpus has numbers from HTA without its rounding to
//! microseconds, those count. Intended differences are listed in [`EXCEPTIONS`] with the reason; a test whose
//! exception is not needed any more fails too.
#![allow(clippy::float_cmp, reason = "counts are whole numbers, and so are nanoseconds")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::Value as Json;
use trace_model::{MetricTable, Value};

use crate::harness::{self, Case, first_lines};
use crate::runs::{self, Params, SharedRun, Views};
use crate::support::corpus::{corpus, goldens};
use crate::support::rows;

/// HTA's relative precision, after sums of thousands of floats.
const RELATIVE: f64 = 1e-6;

/// `(trace, how the name of the analysis begins, how the differences begin, reason)`.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[
    ("amd_minitoy", "call_graph_kernels", "", STREAM_0),
    ("amd_minitoy", "frequent_sequences__Optimizer.step", "", STREAM_0),
    ("amd_minitoy", "frequent_sequences__ProfilerStep", "", STREAM_0),
    ("amd_minitoy", "frequent_sequences__aten__addmm", "", STREAM_0),
    ("amd_minitoy", "frequent_sequences__aten__linear", "", STREAM_0),
    ("amd_minitoy", "frequent_sequences__autograd__engine", "", STREAM_0),
    ("b200_eager", "call_graph_", "", OVERLAP),
    ("critical_path_alexnet", "call_graph_", "", SYNCS),
    ("critical_path_alexnet", "critical_path__", "nodes: ", NO_STREAM),
    ("critical_path_alexnet", "frequent_sequences__[param", "", SYNCS),
    ("critical_path_alexnet", "frequent_sequences__aten__conv2d", "", SYNCS),
    ("critical_path_simple_add", "call_graph_", "", SYNCS),
    ("critical_path_simple_add", "critical_path__", "nodes: ", NO_STREAM),
    ("critical_path_simple_add", "frequent_sequences__aten__conv2d", "", SYNCS),
    ("cuda_event_sync", "call_graph_", "", SYNCS),
    ("cuda_event_sync", "frequent_sequences__ProfilerStep", "", SYNCS),
    ("cuda_event_sync_multi_stream", "call_graph_", "", SYNCS),
    ("diff_control", "call_graph_depths", "depth ", TIES),
    ("diff_control", "critical_path__", "critical_path_kernel_", TIES),
    ("h100_bert", "call_graph_depths", "", OVERLAP),
    ("h100_bert", "frequent_sequences__ProfilerStep", "", DEVICE_COPY),
    ("h100_qwen", "call_graph_depths", "", OVERLAP),
    ("h100_qwen", "frequent_sequences__ProfilerStep", "", DEVICE_COPY),
    ("mi210_gpu_only", "call_graph_kernels", "", STREAM_0),
    ("mi300_bert", "call_graph_depths", "", OVERLAP),
    ("mi300_bert", "call_graph_kernels", "", STREAM_0),
    ("mi300_bert", "frequent_sequences__ProfilerStep", "", STREAM_0),
    ("mi300_bert", "frequent_sequences__aten__addmm", "", STREAM_0),
    ("mi300_bert", "frequent_sequences__aten__linear", "", STREAM_0),
    ("mi300_qwen", "call_graph_depths", "", OVERLAP),
    ("mi300_qwen", "call_graph_kernels", "", STREAM_0),
    ("mi300_qwen", "frequent_sequences__ProfilerStep", "", STREAM_0),
    ("mi300_qwen", "frequent_sequences__aten__addmm", "", STREAM_0),
    ("mi300_qwen", "frequent_sequences__aten__linear", "", STREAM_0),
    ("mi300_resnet_ddp", "call_graph_depths", "", OVERLAP),
    ("mi300_resnet_ddp", "call_graph_kernels", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__Optimizer.step", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__ProfilerStep", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__aten__addmm", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__aten__conv2d", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__aten__linear", "", STREAM_0),
    ("mi300_resnet_ddp", "frequent_sequences__autograd__engine", "", STREAM_0),
    ("mi300_torch_compile_triton", "call_graph_depths", "", TRITON),
    ("mi300_torch_compile_triton", "call_graph_kernels", "", STREAM_0),
    ("nccl_rank", "frequent_sequences__Optimizer.step", "", DEVICE_COPY),
    ("ns_resolution", "call_graph_depths", "depth ", DOUBLES),
    ("ns_resolution", "critical_path__ProfilerStep@0", "critical_path_kernel_", DOUBLES),
    ("ns_resolution", "critical_path__whole", "critical_path_kernel_", DOUBLES),
    ("ns_resolution", "frequent_sequences__Optimizer.step", "", DEVICE_COPY),
    ("sglang_decode", "call_graph_depths", "", OVERLAP),
    ("triton_example", "call_graph_", "", TRITON),
    ("triton_example", "critical_path__", "", ROUNDED),
    ("vllm_decode_graph", "call_graph_kernels", "", STREAM_0),
    ("vllm_decode_graph", "frequent_sequences__aten__linear", "", STREAM_0),
];

const STREAM_0: &str = "HTA attaches no work on stream 0, the default stream on AMD, to calls";
const DEVICE_COPY: &str =
    "HTA takes the device's copy of the annotation, which is in no tree, for the outermost one";
const SYNCS: &str = "HTA takes synchronizations recorded on a stream for kernels";
const NO_STREAM: &str =
    "HTA gives two nodes without edges to waits of a context whose stream is written as 2^32 - 1";
const OVERLAP: &str =
    "HTA puts an annotation below the frame that opens it, though that ends long before";
const TIES: &str =
    "HTA leaves the order of events in the same microsecond to an unstable sort, or to none";
const DOUBLES: &str = "HTA holds times since 1970 as doubles, to a quarter of a microsecond";
const TRITON: &str =
    "HTA takes the host operators of Triton kernels, which carry `stream: 0`, for device work";
const ROUNDED: &str = "HTA ran with its rounding to microseconds: there are no exact numbers";

/// Analyses of HTA that one test compares: all golden files whose names begin so.
const FAMILIES: [&str; 3] = ["call_graph", "critical_path", "frequent_sequences"];

const COMPARED: &str = "hta_paths";

/// One test per trace and family of analyses, and one for the path itself.
pub(crate) fn cases() -> Vec<Case> {
    harness::require(COMPARED, 2_000);
    let mut cases = Vec::new();
    let mut names = BTreeSet::new();
    for (trace, folder) in goldens(&corpus().join("golden")) {
        let golden = Golden::open(&folder);
        for family in FAMILIES {
            if golden.analyses(&folder, family).is_empty() {
                continue;
            }
            names.insert((trace.clone(), family));
            let (of, folder) = (trace.clone(), folder.clone());
            cases.push(Case::of_trace(&trace, family, move || compare(&of, family, &folder)));
        }
        let of = trace.clone();
        cases.push(Case::of_trace(&trace, "has_a_critical_path", move || has_a_critical_path(&of)));
    }
    cases.push(Case::new("exceptions_name_existing_tests", move || {
        for (trace, name, ..) in EXCEPTIONS {
            let is_test = names.iter().any(|(of, family)| of == trace && name.starts_with(family));
            assert!(is_test, "no test compares {name} of {trace}: remove the exception");
        }
    }));
    cases
}

fn compare(trace: &str, family: &str, folder: &Path) {
    let run = runs::open(trace);
    let golden = Golden::open(folder);
    let mut report = String::new();
    let mut needed = BTreeSet::new();
    for (name, expected) in golden.analyses(folder, family) {
        let mut found = Differences::new(&golden);
        match name.as_str() {
            CALL_KERNELS => call_kernels(run.views(), &golden, &expected, &mut found),
            CALL_DEPTHS => call_depths(run.views(), &golden, &expected, &mut found),
            path if path.starts_with("critical_path") => {
                critical_path(&run, &golden, &expected, &mut found);
            }
            name => sequences(&run, &golden, name, &expected, &mut found),
        }
        harness::count(COMPARED, found.values);
        let differ = found.lines.into_iter().filter(|line| {
            let excuse = EXCEPTIONS.iter().position(|(of, begins, what, _)| {
                *of == trace && name.starts_with(begins) && line.starts_with(what)
            });
            needed.extend(excuse);
            excuse.is_none()
        });
        let differ: Vec<String> = differ.collect();
        if !differ.is_empty() {
            let count = differ.len();
            write!(report, "{trace} {name}, {count} differences:\n{}", first_lines(&differ))
                .unwrap();
        }
    }
    for (at, (of, name, what, _)) in EXCEPTIONS.iter().enumerate() {
        if *of == trace && name.starts_with(family) && !needed.contains(&at) {
            writeln!(report, "{trace} {name} {what} agrees now: remove the exception").unwrap();
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

/// HTA has no path on 35 of 93 calls over such traces. We have one wherever anything happened.
fn has_a_critical_path(trace: &str) {
    let summary = runs::open(trace).views().table("hta_critical_path");
    assert!(!summary.rows.is_empty());
    for row in 0..summary.rows.len() {
        assert!(value(&summary, row, "path_ns") > 0.0, "row {row}");
    }
}

/// Every number HTA gives for a region, and the edges of the path one by one.
fn critical_path(run: &SharedRun, golden: &Golden, expected: &Json, found: &mut Differences) {
    let mut params = Params::default();
    params.set("hta_annotation", expected["annotation"].as_str().unwrap().to_owned());
    params.set("hta_instance", expected["instance"].as_i64().unwrap_or(-1));
    let views = run.views_with(&params);
    let summary = views.table("hta_critical_path");
    let Some(row) = row_of(&summary, golden.rank) else {
        found.lines.push("only HTA has a path".to_owned());
        return;
    };
    let ours = |column: &str| value(&summary, row, column);
    for (column, theirs) in [
        ("node_count", "nodes"),
        ("edge_count", "edges"),
        ("path_node_count", "critical_path_nodes"),
        ("path_event_count", "critical_events"),
    ] {
        found.count(theirs, ours(column), &expected[theirs]);
    }
    found.time("total_duration", ours("path_ns"), &expected["total_duration"]);
    for (column, theirs) in [
        ("operator", "critical_path_operator"),
        ("dependency", "critical_path_dependency"),
        ("launch_delay", "critical_path_kernel_launch_delay"),
        ("kernel_delay", "critical_path_kernel_kernel_delay"),
        ("sync", "critical_path_sync_dependency"),
    ] {
        let edges = ours(&format!("{column}_edge_count"));
        found.count(theirs, edges, &expected["edge_counts"][theirs]);
        let edges = ours(&format!("path_{column}_edge_count"));
        found.count(theirs, edges, &expected["count_by_type"][theirs]);
        if !matches!(column, "dependency" | "sync") {
            let sum_ns = ours(&format!("{column}_edges_ns"));
            found.time(theirs, sum_ns, &expected["edge_weight_sums"][theirs]);
        }
    }
    for bound in [
        "cpu_bound",
        "gpu_compute_bound",
        "gpu_communication_bound",
        "gpu_kernel_kernel_overhead",
        "gpu_kernel_launch_overhead",
    ] {
        found.time(bound, ours(&format!("{bound}_ns")), &expected["duration_by_bound"][bound]);
    }

    let edges = views.table("hta_critical_path_edges");
    let rows: Vec<usize> = (0..edges.rows.len())
        .filter(|&row| value(&edges, row, "rank") == golden.rank as f64)
        .collect();
    assert_eq!(rows.len() as f64, ours("path_node_count") - 1.0, "edges of the path");
    let total: f64 = rows.iter().map(|&row| value(&edges, row, "weight_ns")).sum();
    assert_eq!(total, ours("path_ns"), "their weights");
    for pair in rows.windows(2) {
        assert_eq!(value(&edges, pair[0], "to_event"), value(&edges, pair[1], "from_event"));
        assert_eq!(cell(&edges, pair[0], "to_end"), cell(&edges, pair[1], "from_end"));
    }
}

/// The two halves of HTA's call graph, which fail for different reasons.
const CALL_KERNELS: &str = "call_graph_kernels";
const CALL_DEPTHS: &str = "call_graph_depths";

/// HTA's sums are over host calls and the kernels attached to them.
fn call_kernels(views: &Views, golden: &Golden, expected: &Json, found: &mut Differences) {
    let query = format!(
        "SELECT sum(kernel_count), CAST(sum(kernel_dur_ns) AS DOUBLE)
         FROM (
            SELECT kernel_count, kernel_dur_ns FROM op_calls WHERE rank = {rank}
            UNION ALL
            SELECT 1, dur_ns FROM device_activities WHERE rank = {rank} AND launch IS NOT NULL
         )",
        rank = golden.rank
    );
    let totals = numbers(views, &query);
    found.count("sum_num_kernels", totals[0][0], &expected["sum_num_kernels"]);
    found.time("sum_kernel_dur_sum", totals[0][1], &expected["sum_kernel_dur_sum"]);
}

/// The number of calls, and of kernels attached to calls, by depth. HTA attaches none on stream 0.
fn call_depths(views: &Views, golden: &Golden, expected: &Json, found: &mut Differences) {
    let query = format!(
        "SELECT depth, height FROM op_calls WHERE rank = {rank}
         UNION ALL
         SELECT c.depth + 1, 0
         FROM device_activities w
         JOIN op_calls c ON c.rank = w.rank AND c.event_id = w.launch
         WHERE w.rank = {rank} AND w.stream > 0",
        rank = golden.rank
    );
    let most = numbers(views, &format!("SELECT max(depth), max(height) FROM ({query})"));
    found.count("depth_max", most[0][0], &expected["depth_max"]);
    found.count("height_max", most[0][1], &expected["height_max"]);
    let depths = format!("SELECT depth, count(*) FROM ({query}) GROUP BY depth");
    let depths: BTreeMap<i64, f64> =
        numbers(views, &depths).iter().map(|row| (row[0] as i64, row[1])).collect();
    for depth in 0..=expected["depth_max"].as_i64().unwrap() {
        let ours = depths.get(&depth).copied().unwrap_or_default();
        found.count(&format!("depth {depth}"), ours, &expected["depth_hist"][depth.to_string()]);
    }
}

fn sequences(
    run: &SharedRun,
    golden: &Golden,
    name: &str,
    expected: &Json,
    found: &mut Differences,
) {
    let operator = name.strip_prefix("frequent_sequences__").unwrap().replace("__", "::");
    for least in [1, 3] {
        let Some(theirs) = expected[format!("min_pattern_len={least}")].as_array() else {
            continue;
        };
        let mut params = Params::default();
        params.set("operator", operator.clone()).set("min_pattern_len", least).set("top_k", 0);
        let sequences = run.views_with(&params).table("op_kernel_sequences");
        let mut ours = BTreeMap::new();
        for row in 0..sequences.rows.len() {
            if value(&sequences, row, "rank") == golden.rank as f64 {
                ours.insert(cell(&sequences, row, "pattern").to_string(), row);
            }
        }
        for row in theirs {
            let pattern = row["pattern"].as_str().unwrap();
            let short: String = pattern.chars().take(80).collect();
            let Some(at) = ours.remove(pattern) else {
                found.lines.push(format!("{least}: only HTA has {short} {}", row["count"]));
                continue;
            };
            let ours = |column| value(&sequences, at, column);
            found.count(&short, ours("occurrence_count"), &row["count"]);
            found.time(&short, ours("device_dur_ns"), &row["GPU kernel duration (us)"]);
            found.time(&short, ours("host_dur_ns"), &row["CPU op duration (us)"]);
        }
        for pattern in ours.keys() {
            let short: String = pattern.chars().take(80).collect();
            found.lines.push(format!("{least}: only we have {short}"));
        }
    }
}

/// HTA's numbers of one trace.
struct Golden {
    /// The rank it analysed.
    rank: i64,
    /// The error of HTA's absolute times in doubles.
    slack_us: f64,
}

impl Golden {
    fn open(folder: &Path) -> Self {
        let load = read(&folder.join("load_info.json"));
        let mut slack_us = 1e-6_f64;
        for rank in load.as_array().unwrap().iter().filter(|r| r["ts_dtype"] == "float64") {
            let start = rank["min_ts_offset"].as_f64().unwrap();
            let spacing = start.log2().floor().exp2() * f64::EPSILON;
            slack_us = slack_us.max(2.0 * spacing * rank["rows"].as_f64().unwrap().sqrt());
        }
        Self { rank: load[0]["rank"].as_i64().unwrap(), slack_us }
    }

    /// HTA's results in a family of analyses, by name, without those that failed.
    #[expect(clippy::unused_self, reason = "reads better where it is called")]
    fn analyses(&self, folder: &Path, family: &str) -> BTreeMap<String, Json> {
        let mut found = BTreeMap::new();
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let Some(name) = name.strip_suffix(".json") else { continue };
            let kinds = ["critical_path__", "call_graph_summary", "frequent_sequences__"];
            if name.starts_with(family) && kinds.iter().any(|kind| name.starts_with(kind)) {
                let json = read(&entry.path());
                if name == "call_graph_summary" {
                    found.insert(CALL_KERNELS.to_owned(), json.clone());
                    found.insert(CALL_DEPTHS.to_owned(), json);
                } else if !json["annotation"].is_null() || !name.starts_with("critical_path") {
                    found.insert(name.to_owned(), json);
                }
            }
        }
        found
    }
}

fn read(path: &Path) -> Json {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

struct Differences {
    slack_us: f64,
    values: usize,
    lines: Vec<String>,
}

impl Differences {
    fn new(golden: &Golden) -> Self {
        Self { slack_us: golden.slack_us, values: 0, lines: Vec::new() }
    }

    fn count(&mut self, what: &str, ours: f64, theirs: &Json) {
        let theirs = theirs.as_f64().unwrap_or(0.0);
        self.values += 1;
        if ours != theirs {
            self.lines.push(format!("{what}: ours {ours}, HTA {theirs}"));
        }
    }

    fn time(&mut self, what: &str, ours_ns: f64, theirs_us: &Json) {
        let theirs = theirs_us.as_f64().unwrap_or(0.0);
        self.values += 1;
        // A value that only one side has makes the difference NaN, which is within nothing.
        let agree = (ours_ns / 1e3 - theirs).abs() <= self.slack_us + RELATIVE * theirs.abs();
        if !agree {
            self.lines.push(format!("{what}: ours {} us, HTA {theirs} us", ours_ns / 1e3));
        }
    }
}

fn numbers(views: &Views, query: &str) -> Vec<Vec<f64>> {
    rows::numbers(&views.sql(query))
}

fn cell<'a>(table: &'a MetricTable, row: usize, column: &str) -> &'a Value {
    &table.rows[row][table.index(column).unwrap()]
}

fn value(table: &MetricTable, row: usize, column: &str) -> f64 {
    cell(table, row, column).as_f64().unwrap_or(f64::NAN)
}

fn row_of(table: &MetricTable, rank: i64) -> Option<usize> {
    (0..table.rows.len()).find(|&row| value(table, row, "rank") == rank as f64)
}
