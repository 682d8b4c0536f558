//! `advisor diff --hta` against what `TraceDiff` of Holistic Trace Analysis 0.5.0 computed on the pairs
//! of the corpus. Every row is compared; there are no exceptions: what we count otherwise (see
//! `docs/differences.md`) does not occur in these traces.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use serde_json::Value as Json;
use support::corpus;
use trace_advisor::compare::{DeviceType, DiffOptions, SideOptions};
use trace_advisor::{Run, compare_traces};

/// `(golden, device type, steps, short names)`.
const VARIANTS: &[(&str, DeviceType, &str, bool)] = &[
    ("default_ALL", DeviceType::All, "first", false),
    ("CPU", DeviceType::Cpu, "first", false),
    ("GPU", DeviceType::Gpu, "first", false),
    ("ALL_short", DeviceType::All, "first", true),
    ("ALL_iters_1009_1010", DeviceType::All, "1009,1010", false),
];

#[test]
fn two_traces_compare_as_in_hta() {
    let Some(corpus) = corpus() else { return };
    let traces = corpus.join("traces");
    let control = Run::open(traces.join("diff_control")).unwrap();
    let test = Run::open(traces.join("diff_test")).unwrap();
    let golden = corpus.join("golden/hta/diff");
    let rows: usize =
        VARIANTS.iter().map(|variant| compare(&control, &test, variant, &golden)).sum();
    assert_eq!(rows, 432 + 231 + 201 + 310 + 433);
}

#[test]
fn the_small_pair_compares_as_in_hta() {
    let Some(corpus) = corpus() else { return };
    let traces = corpus.join("traces");
    let base = Run::open(traces.join("compare_base")).unwrap();
    let test = Run::open(traces.join("compare_test")).unwrap();
    let golden = corpus.join("golden/hta/compare");
    assert_eq!(compare(&base, &test, &VARIANTS[0], &golden), 7);
}

/// Compares all rows of a golden; how many there are.
fn compare(
    before: &Run,
    after: &Run,
    &(name, device_type, steps, short_names): &(&str, DeviceType, &str, bool),
    golden: &Path,
) -> usize {
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
