//! `advisor diff --hta` against what `TraceDiff` of Holistic Trace Analysis 0.5.0 computed on the pairs
//! of the corpus. Every row is compared; there are no exceptions: what we count otherwise (see
//! `docs/evidence/differences.md`) does not occur in these traces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use serde_json::Value as Json;
use trace_advisor::compare::{DeviceType, DiffOptions, SideOptions};
use trace_advisor::{Run, compare_traces};

use crate::harness::Case;
use crate::runs;
use crate::support::corpus::corpus;

/// A comparison of two traces.
struct Variant {
    golden: &'static str,
    device_type: DeviceType,
    steps: &'static str,
    short_names: bool,
    /// Rows of the golden.
    rows: usize,
}

/// `(golden, device type, steps, short names, rows)`.
const fn variant(
    golden: &'static str,
    device_type: DeviceType,
    steps: &'static str,
    short_names: bool,
    rows: usize,
) -> Variant {
    Variant { golden, device_type, steps, short_names, rows }
}

/// Traces before and after, the folder of their goldens, and the comparisons in it.
const PAIRS: &[(&str, &str, &str, &[Variant])] = &[
    (
        "diff_control",
        "diff_test",
        "diff",
        &[
            variant("default_ALL", DeviceType::All, "first", false, 432),
            variant("CPU", DeviceType::Cpu, "first", false, 231),
            variant("GPU", DeviceType::Gpu, "first", false, 201),
            variant("ALL_short", DeviceType::All, "first", true, 310),
            variant("ALL_iters_1009_1010", DeviceType::All, "1009,1010", false, 433),
        ],
    ),
    (
        "compare_base",
        "compare_test",
        "compare",
        &[variant("default_ALL", DeviceType::All, "first", false, 7)],
    ),
];

/// One test per pair of traces and comparison.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (before, after, folder, variants) in PAIRS {
        for variant in *variants {
            cases.push(Case::of_trace(before, variant.golden, move || {
                let golden = corpus().join("golden/hta").join(folder);
                let (before, after) = (runs::open(before), runs::open(after));
                let rows = compare(&before.run, &after.run, variant, &golden);
                assert_eq!(rows, variant.rows, "rows of the golden");
            }));
        }
    }
    cases
}

/// Compares all rows of a golden; how many there are.
fn compare(before: &Run, after: &Run, variant: &Variant, golden: &Path) -> usize {
    let &Variant { golden: name, device_type, steps, short_names, .. } = variant;
    let selection = SideOptions { ranks: None, steps: steps.parse().unwrap() };
    let options = DiffOptions {
        before: selection.clone(),
        after: selection,
        short_names,
        ..DiffOptions::default()
    };
    let ours = compare_traces(before, after, &options, device_type).unwrap();
    let ours = rows(&ours);
    let read = |file: String| -> Json {
        serde_json::from_str(&std::fs::read_to_string(golden.join(file)).unwrap()).unwrap()
    };
    let expected = read(format!("compare_traces__{name}.json"));
    let expected = expected.as_array().unwrap();
    let key = if short_names { "short_name" } else { "name" };
    let theirs: BTreeMap<&str, Vec<String>> = expected
        .iter()
        .map(|row| {
            let number = |column: &str| {
                let value = row[column].as_f64().unwrap();
                assert!(value.fract() == 0.0, "{column}");
                (value as i64).to_string()
            };
            // Microseconds there, nanoseconds here.
            let time = |column: &str| (number(column).parse::<i64>().unwrap() * 1_000).to_string();
            let values = vec![
                number("Control_counts"),
                time("Control_total_duration"),
                number("Test_counts"),
                time("Test_total_duration"),
                number("diff_counts"),
                time("diff_duration"),
                row["counts_change_categories"].as_str().unwrap().to_owned(),
            ];
            (row[key].as_str().unwrap(), values)
        })
        .collect();
    assert_eq!(theirs.len(), expected.len(), "{name}: names are keys");
    let ours_without_change: BTreeMap<&str, Vec<String>> =
        ours.iter().map(|(name, values)| (name.as_str(), values[..7].to_vec())).collect();
    for (row, values) in &theirs {
        assert_eq!(ours_without_change.get(row), Some(values), "{name}: {row}");
    }
    assert_eq!(ours_without_change.len(), theirs.len(), "{name}: as many rows");

    // HTA's `ops_diff` does not know short names.
    if !short_names {
        let lists = read(format!("ops_diff__{name}.json"));
        for change in ["added", "deleted", "increased", "decreased", "unchanged"] {
            let theirs: BTreeSet<&str> =
                lists[change].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
            let ours: BTreeSet<&str> = ours
                .iter()
                .filter(|(_, values)| values[7] == change)
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(ours, theirs, "{name}: {change}");
        }
    }
    expected.len()
}

fn rows(batch: &RecordBatch) -> BTreeMap<String, Vec<String>> {
    let text = |column: &str, row: usize| {
        batch.column_by_name(column).unwrap().as_string::<i32>().value(row).to_owned()
    };
    let number = |column: &str, row: usize| {
        let array = batch.column_by_name(column).unwrap().as_primitive::<Int64Type>();
        array.value(row).to_string()
    };
    (0..batch.num_rows())
        .map(|row| {
            let values = vec![
                number("before_count", row),
                number("before_dur_ns", row),
                number("after_count", row),
                number("after_dur_ns", row),
                number("diff_count", row),
                number("diff_dur_ns", row),
                text("counts_change", row),
                text("change", row),
            ];
            (text("name", row), values)
        })
        .collect()
}
