//! Launches of device work: delays, queues, operators.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_model::{MetricTable, Value};

use super::compare::{Differences, Numbers, Run, key, keyed, number, numbers, only, rows};

/// The launching functions HTA knows; the first two launch kernels.
const KNOWN: [&str; 4] =
    ["cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync"];

pub(crate) fn launches(run: &Run, expected: &Json, found: &mut Differences) {
    let table = only(&run.view("kernel_launch_stats"), "launch_name", &KNOWN);
    for row in rows(expected) {
        let rank = key(row, &["rank"]);
        let mine = of_rank(&table, &rank);
        found.exact(&format!("{rank} rows"), mine.len() as f64, number(row, "rows"));
        if mine.is_empty() {
            continue;
        }
        for (column, theirs) in [
            ("launch_dur_ns", "cpu_duration"),
            ("device_dur_ns", "gpu_duration"),
            ("launch_delay_ns", "launch_delay"),
        ] {
            let mut values: Vec<f64> = mine.iter().map(|row| row[column]).collect();
            values.sort_by(f64::total_cmp);
            let sum: f64 = values.iter().sum();
            let of = |of: &str| number(row, &format!("{theirs}.{of}"));
            found.total(&format!("{theirs}.sum"), sum, of("sum"));
            for (what, value) in [
                ("mean", sum / values.len() as f64),
                ("max", values[values.len() - 1]),
                ("min", values[0]),
                ("p50", f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])),
            ] {
                found.time(&format!("{theirs}.{what}"), value, of(what));
            }
        }
        for (column, theirs) in [
            ("is_short", "short_kernels(cpu<=50 & gpu<cpu)"),
            ("is_runtime_outlier", "runtime_outliers(cpu>50)"),
            ("is_delay_outlier", "launch_delay_outliers(>100)"),
        ] {
            let count = mine.iter().filter(|row| row[column] > 0.0).count();
            found.exact(theirs, count as f64, number(row, theirs));
        }
    }
}

pub(crate) fn launches_of_kernels(run: &Run, expected: &Json, found: &mut Differences) {
    let table = only(&run.view("kernel_launch_stats"), "launch_name", &KNOWN[..2]);
    for row in rows(expected) {
        let rank = key(row, &["rank"]);
        found.exact(&rank, of_rank(&table, &rank).len() as f64, number(row, "rows"));
    }
}

fn of_rank(table: &MetricTable, rank: &str) -> Vec<Numbers> {
    let at = table.index("rank").unwrap();
    let rows = table.rows.iter().filter(|row| row[at].to_string() == rank);
    rows.map(|row| numbers(table, row)).collect()
}

const STREAM: [&str; 2] = ["rank", "stream"];

pub(crate) fn queue_length(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("queue_length"), &STREAM);
    found.same_keys(&ours, rows(expected), &STREAM);
    for row in rows(expected) {
        let stream = key(row, &STREAM);
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
            found.exact(&format!("{stream} {column}"), mine[column], theirs);
        }
    }
}

pub(crate) fn full_queue_10(run: &Run, expected: &Json, found: &mut Differences) {
    full_queue(10.0, run, expected, found);
}

pub(crate) fn full_queue_100(run: &Run, expected: &Json, found: &mut Differences) {
    full_queue(100.0, run, expected, found);
}

pub(crate) fn full_queue_1024(run: &Run, expected: &Json, found: &mut Differences) {
    full_queue(1024.0, run, expected, found);
}

/// HTA prints one stream of a rank; all that it prints must be among ours, and no rank be missing.
fn full_queue(limit: f64, run: &Run, expected: &Json, found: &mut Differences) {
    let table = run.view_with(&[("max_queue_length", limit)], "queue_length");
    let mut ours = keyed(&table, &STREAM);
    ours.retain(|_, mine| mine["full_ns"] > 0.0);
    for row in rows(expected) {
        let what = key(row, &STREAM);
        let mine = ours.get(&what).map_or(f64::NAN, |mine| mine["full_ns"]);
        found.about("");
        found.total(&what, mine, number(row, "duration_at_max_queue_length"));
        found.about("ratio");
        let ratio = ours.get(&what).map_or(f64::NAN, |mine| mine["full_ratio"]);
        found.exact(&what, ratio, number(row, "relative_duration_at_max_queue_length"));
    }
    found.about("");
    let known: Vec<String> = rows(expected).iter().map(|row| key(row, &["rank"])).collect();
    for what in ours.keys() {
        if !known.iter().any(|rank| what.split(" | ").next() == Some(rank)) {
            found.note(format!("{what}: only we have it"));
        }
    }
}

/// HTA's rows of a rank also hold those of the ranks before it: so do ours here.
pub(crate) fn op_kernels(run: &Run, expected: &Json, found: &mut Differences) {
    let table = run.view("op_kernels");
    let at = |column| table.index(column).unwrap();
    let text = |row: &[Value], column| row[at(column)].to_string();
    // Calls, and sums of both delays.
    let mut ours: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for (rank, theirs) in expected.as_object().unwrap() {
        for row in table.rows.iter().filter(|row| text(row, "rank") == *rank) {
            let name = text(row, "name");
            if !name.starts_with("aten::") {
                continue;
            }
            let mine = numbers(&table, row);
            let calls = mine["call_count"];
            let sums =
                ours.entry(format!("{name} | {}", text(row, "kernel_sequence"))).or_default();
            sums[0] += calls;
            sums[1] += calls * mine["mean_launch_delay_ns"];
            sums[2] += calls * mine["mean_runtime_delay_ns"];
        }
        let keys = ["aten_op_name", "kernel_sequence"];
        found.same_keys(&ours, rows(theirs), &keys);
        for row in rows(theirs) {
            let what = key(row, &keys);
            let Some(&[calls, launch, runtime]) = ours.get(&what) else { continue };
            found.exact(&format!("{what} calls"), calls, number(row, "occurrence_count"));
            for (sum, theirs) in
                [(launch, "avg_aten_op_launch_delay"), (runtime, "avg_runtime_delay")]
            {
                found.printed_time(
                    &format!("{what} {theirs}"),
                    sum / calls,
                    number(row, theirs),
                    3,
                );
            }
        }
    }
}
