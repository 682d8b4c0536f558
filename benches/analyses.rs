//! Analyses beside reading: what each costs on top, and how that grows when the trace is four times as
//! long. A growth of 4 is linear.
#![allow(clippy::print_stdout, reason = "the ratios are the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trace_advisor::Run;

/// The costly ones: sweeps, graphs, trees.
const VIEWS: &[&str] = &[
    "gpu_temporal_breakdown",
    "gpu_idle_causes",
    "op_device_time",
    "kernel_annotations",
    "critical_path",
    "critical_what_if",
    "hta_critical_path",
    "op_calls",
    "op_by_shape",
    "op_by_stack",
    "module_calls",
    "source_lines",
    "op_roofline",
    "op_kernel_sequences",
    "memory_curve",
    "memory_allocations",
    "memory_by_op",
    "memory_peak_holders",
    "memory_growth",
];

/// Those that hold ranks against each other.
const ACROSS_RANKS: &[&str] = &["comm_matches", "comm_stragglers", "comm_wait", "comm_clocks"];

/// Views of SQL alone: with joins, texts that are read more than once, running sums.
const IN_SQL: &[&str] = &[
    "gpu_utilization",
    "kernel_families",
    "kernel_variation",
    "run_warmup",
    "memory_log",
    "step_outliers",
];

fn rows(run: &support::DemoRun, view: &str) -> usize {
    let run = Run::open(run.path()).expect("a whole trace");
    run.analyze(view).expect("a view").len()
}

fn read(run: &support::DemoRun) -> bool {
    Run::open(run.path()).is_ok()
}

fn bench(criterion: &mut Criterion) {
    let small = support::demo_run(1, 14_000_000);
    let large = support::demo_run(1, 56_000_000);
    let mut group = criterion.benchmark_group("analyses");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(large.json_bytes));
    group.bench_function("read", |b| b.iter(|| black_box(read(&large))));
    for view in ["critical_path", "op_kernel_sequences"] {
        group.bench_function(view, |b| b.iter(|| black_box(rows(&large, view))));
    }
    group.finish();

    print_planned(&large);
    print_growth(&small, &large, VIEWS);
    // Four times the ranks, each with as many collectives.
    let few = support::demo_run(4, 14_000_000);
    let many = support::demo_run(16, 56_000_000);
    print_growth(&few, &many, ACROSS_RANKS);
}

/// What views cost on top of reading, and what the same SQL does as a user's query: as DataFusion plans and runs it.
fn print_planned(run: &support::DemoRun) {
    let alone = support::seconds(|| read(run));
    for view in IN_SQL {
        let text = trace_advisor::analyses::catalog().inlined_sql(view).expect("a view");
        let asked =
            || Run::open(run.path()).expect("a whole trace").sql(&text).expect("a query").len();
        let [view_s, query_s] = [support::seconds(|| rows(run, view)), support::seconds(asked)]
            .map(|s| (s - alone).max(1e-6));
        println!(
            "{view:24} {:7.1} ms; as a query, its text takes {:.1} times as long",
            view_s * 1e3,
            query_s / view_s
        );
    }
}

/// What views cost on top of reading, on a run and on one four times as large.
fn print_growth(small: &support::DemoRun, large: &support::DemoRun, views: &[&str]) {
    let alone = [small, large].map(|run| support::seconds(|| read(run)));
    println!("reading takes {:.1} ms", alone[1] * 1e3);
    for view in views {
        let with = [small, large].map(|run| support::seconds(|| rows(run, view)));
        let [few, many] = [with[0] - alone[0], with[1] - alone[1]].map(|s| s.max(1e-6));
        println!(
            "{view:24} {:7.1} ms, {:.2} times reading; {:.1} times that of a quarter of the trace",
            many * 1e3,
            many / alone[1],
            many / few
        );
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
