//! Memory snapshots and timelines against PyTorch's own tools (`torch.cuda._memory_viz`) and HTA's
//! `MemoryAnalysis`: the files, and what computed the goldens, are in `tests/fixtures/memory`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trace_advisor::arrow::array::{ArrayRef, AsArray};
use trace_advisor::arrow::compute::{cast, concat_batches};
use trace_advisor::arrow::datatypes::{DataType, Int64Type};
use trace_advisor::{Run, default_rules};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/memory")
}

fn goldens() -> Value {
    serde_json::from_slice(&std::fs::read(folder().join("goldens.json")).unwrap()).unwrap()
}

/// The columns of a query's answer.
fn sql(run: &Run, query: &str) -> Vec<ArrayRef> {
    let batches = run.sql(query).unwrap();
    concat_batches(&batches[0].schema(), &batches).unwrap().columns().to_vec()
}

fn ints(column: &ArrayRef) -> Vec<Option<i64>> {
    let column = cast(column, &DataType::Int64).unwrap();
    column.as_primitive::<Int64Type>().iter().collect()
}

fn texts(column: &ArrayRef) -> Vec<String> {
    let column = cast(column, &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.unwrap_or_default().to_owned()).collect()
}

/// As `torch.cuda._memory_viz` writes sizes.
fn size(bytes: i64) -> String {
    let mut size = bytes as f64;
    for unit in ["", "Ki", "Mi", "Gi"] {
        if size.abs() < 1024.0 {
            return format!("{size:.1}{unit}B");
        }
        size /= 1024.0;
    }
    format!("{size:.1}TiB")
}

fn snapshots() -> Vec<(String, Value, Run)> {
    let goldens = goldens();
    let files = goldens["snapshots"].as_object().unwrap();
    assert_eq!(files.len(), 4);
    files
        .iter()
        .map(|(file, golden)| {
            (file.clone(), golden.clone(), Run::open(folder().join(file)).unwrap())
        })
        .collect()
}

#[test]
fn snapshot_totals_match_segsum() {
    for (file, golden, run) in snapshots() {
        let columns = sql(
            &run,
            "SELECT sum(segment_count), sum(reserved_bytes), sum(requested_bytes), sum(rounding_bytes), \
             sum(pending_bytes + inactive_bytes) FROM snapshot_fragmentation",
        );
        let value = |i: usize| ints(&columns[i])[0].unwrap();
        let (rounding, free) = (value(3), value(3) + value(4));
        let internal = rounding as f64 / free as f64 * 100.0;
        let golden = &golden["segsum"];
        assert_eq!(golden["segments"], value(0).to_string(), "{file}");
        assert_eq!(golden["total_reserved"], size(value(1)), "{file}");
        assert_eq!(golden["total_allocated"], size(value(2)), "{file}");
        assert_eq!(
            golden["total_free"],
            format!("{} ({internal:.1}% internal)", size(free)),
            "{file}"
        );
    }
}

/// Stacks as PyTorch writes them into flame graphs, outermost frame first.
fn stacks(run: &Run, from_profile: bool) -> BTreeMap<i64, String> {
    let columns =
        sql(run, "SELECT stack, parent, name, file, line FROM snapshot_stacks ORDER BY stack");
    let (parents, lines) = (ints(&columns[1]), ints(&columns[4]));
    let (names, files) = (texts(&columns[2]), texts(&columns[3]));
    let mut stacks: BTreeMap<i64, String> = BTreeMap::new();
    for row in 0..parents.len() {
        let file = files[row].rsplit('/').next().unwrap();
        let frame = match (from_profile, lines[row]) {
            (true, Some(line)) => format!("none:0:{}({line}): {}", files[row], names[row]),
            (true, None) => format!("none:0:{}", names[row]),
            (false, line) => format!("{file}:{}:{}", line.unwrap_or(0), names[row]),
        };
        let callers = parents[row].map_or(String::new(), |parent| format!("{};", stacks[&parent]));
        stacks.insert(row as i64, format!("{callers}{frame}"));
    }
    stacks
}

#[test]
fn snapshot_holders_match_the_flame_graph() {
    for (file, golden, run) in snapshots() {
        let stacks = stacks(&run, file.starts_with("cpu_profile"));
        let columns = sql(
            &run,
            "SELECT stack, allocated_bytes - pending_bytes, pending_bytes FROM snapshot_by_stack",
        );
        let mut ours: BTreeMap<String, i64> = BTreeMap::new();
        let stack_of = ints(&columns[0]);
        for (state, column) in
            [("active_allocated", &columns[1]), ("active_pending_free", &columns[2])]
        {
            for (stack, bytes) in stack_of.iter().zip(ints(column)) {
                let stack = stack.map_or("<non-python>", |stack| &stacks[&stack]);
                *ours.entry(format!("stream_0;{state};{stack}")).or_default() += bytes.unwrap();
            }
        }
        ours.retain(|_, bytes| *bytes > 0);
        let golden = golden["memory"].as_object().unwrap();
        let theirs: BTreeMap<String, i64> = golden
            .iter()
            .filter(|(stack, _)| !stack.ends_with("<gaps>") && !stack.contains(";inactive;"))
            .map(|(stack, bytes)| (stack.clone(), bytes.as_i64().unwrap()))
            .collect();
        assert_eq!(ours, theirs, "{file}");
    }
}

#[test]
fn timeline_sizes_by_category_match_hta() {
    let run = Run::open(folder().join("cpu.raw.json.gz")).unwrap();
    let golden = &goldens()["timelines"]["cpu.raw.json.gz"];
    let columns = sql(
        &run,
        "SELECT since_start_ns, parameter_bytes, optimizer_state_bytes, input_bytes, temporary_bytes, \
         activation_bytes, gradient_bytes, autograd_detail_bytes, unknown_bytes \
         FROM memory_timeline_curve ORDER BY position",
    );
    let columns: Vec<Vec<Option<i64>>> = columns.iter().map(ints).collect();
    let times: Vec<i64> =
        golden["times"].as_array().unwrap().iter().map(|t| t.as_i64().unwrap()).collect();
    assert_eq!(times.len(), columns[0].len());
    assert!(times.len() > 200);
    let first = times.iter().min().unwrap();
    for (row, time) in times.iter().enumerate() {
        assert_eq!(columns[0][row], Some(time - first), "time of row {row}");
        for (category, column) in columns[1..].iter().enumerate() {
            assert_eq!(
                column[row],
                golden["sizes"][row][category].as_i64(),
                "row {row}, {category}"
            );
        }
    }
}

/// PyTorch's other form of the same recording has microseconds: what happens within one is one moment.
#[test]
fn timeline_exports_of_one_recording_agree() {
    let raw = Run::open(folder().join("cpu.raw.json.gz")).unwrap();
    let sizes = Run::open(folder().join("cpu.json.gz")).unwrap();
    let ends = "SELECT start_bytes, end_bytes, peak_bytes FROM memory_timeline_summary";
    let (raw, sizes): (Vec<_>, Vec<_>) =
        (sql(&raw, ends).iter().map(ints).collect(), sql(&sizes, ends).iter().map(ints).collect());
    assert_eq!(raw[1], sizes[1]);
    assert!(raw[2] >= sizes[2]);
}

/// The snapshot made from a profile tells kinds of tensors; its rows add up as those of any other.
#[test]
fn snapshot_from_a_profile_has_categories() {
    let run = Run::open(folder().join("cpu_profile.pickle.gz")).unwrap();
    let categories = texts(&sql(&run, "SELECT category FROM snapshot_by_category")[0]);
    for category in ["activation", "gradient", "input", "parameter"] {
        assert!(categories.iter().any(|c| c == category), "{category}: {categories:?}");
    }
    let frames = texts(&sql(&run, "SELECT user_frame FROM snapshot_peak WHERE place = 1")[0]);
    assert!(frames[0].starts_with("record.py:"), "{frames:?}");
}

#[test]
fn snapshot_holders_at_the_peak_add_up() {
    for (file, _, run) in snapshots() {
        let wrong = sql(
            &run,
            "SELECT count(*) FROM (SELECT sum(allocated_bytes) AS held, max(peak_allocated_bytes) AS peak \
             FROM snapshot_peak GROUP BY rank, snapshot, device) WHERE held <> peak",
        );
        assert_eq!(ints(&wrong[0]), [Some(0)], "{file}");
        let devices = sql(
            &run,
            "SELECT count(*) FROM snapshot_devices d WHERE peak_allocated_bytes <> \
             (SELECT max(allocated_bytes) FROM snapshot_curve c WHERE c.device = d.device) AND event_count > 0",
        );
        assert_eq!(ints(&devices[0]), [Some(0)], "{file}");
    }
}

/// A snapshot alone says nothing about time: no rule may pass on it.
#[test]
fn snapshot_alone_is_judged_on_memory() {
    let judged = |file: &str| {
        let report = Run::open(folder().join(file)).unwrap().check(&default_rules()).unwrap();
        let found: Vec<String> = report.findings.iter().map(|f| f.code.clone()).collect();
        assert!(report.unknown.len() > 100);
        (found, report.passed)
    };
    let (found, passed) = judged("torch2_protocol4.pickle");
    assert_eq!(found, ["MM020"]);
    // MM021 judges from four iterations on.
    assert_eq!(passed, ["MM022", "MM023", "MM024", "MM025", "MM026", "TQ007"]);
    // A timeline has no allocations: the only rule that can judge is the one on complete files.
    assert_eq!(judged("cpu.raw.json.gz"), (Vec::new(), vec!["TQ007".to_owned()]));
}
