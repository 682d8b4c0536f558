//! Traces of trainers, as ratios to floors measured in the same run: a merged trace of 8 ranks against a pass
//! over its text, the merge itself against a copy of its input, Determined's metrics against parsing their JSON.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ingest::{Location, Merge, NoProgress, Options};

fn read(path: &Path) -> trace_model::Dataset {
    ingest::read_run(path, &Options::default(), &NoProgress).expect("a whole run")
}

fn merge(run: &Path, to: &Path) -> u64 {
    let location = Location::parse(run).expect("a path");
    let dataset = read(run);
    let (info, tables) = (&dataset.run, &dataset.tables);
    let merge = Merge { run: &location, info, tables, to, overwrite: true };
    ingest::merge(&merge, &NoProgress).expect("a place to write").events
}

/// Reads and looks for the start of each event.
fn pass(file: &Path) -> usize {
    let text = std::fs::read(file).expect("the file was just written");
    memchr::memmem::find_iter(&text, b"\"ph\"").count()
}

/// Series of system metrics of one trial, as the server streams them.
fn metrics(points: usize) -> String {
    const FLUSH: usize = 100;
    let mut text = String::new();
    for flush in 0..points / FLUSH {
        let values: Vec<String> = (0..FLUSH).map(|i| format!("{}.5", (flush + i) % 100)).collect();
        let batches: Vec<String> = (0..FLUSH).map(|i| (flush * FLUSH + i).to_string()).collect();
        let times: Vec<String> = (0..FLUSH)
            .map(|i| {
                let second = flush * 10 + i / 10;
                let (hours, minutes) = (second / 3600 % 24, second / 60 % 60);
                let (seconds, tenth) = (second % 60, i % 10);
                format!("\"2026-11-21T{hours:02}:{minutes:02}:{seconds:02}.{tenth}00123Z\"")
            })
            .collect();
        let _ = writeln!(
            text,
            r#"{{"result":{{"batch":{{"values":[{}],"batches":[{}],"timestamps":[{}],"labels":{{"trialId":1,"name":"cpu_util_simple","agentId":"agent-{}","gpuUuid":"","metricType":"PROFILER_METRIC_TYPE_SYSTEM"}}}}}}}}"#,
            values.join(","),
            batches.join(","),
            times.join(","),
            flush % 8,
        );
    }
    text
}

fn parse(file: &Path) -> usize {
    let text = std::fs::read(file).expect("the file was just written");
    let values = serde_json::Deserializer::from_slice(&text).into_iter::<serde_json::Value>();
    values.map(|value| usize::from(value.expect("JSON").is_object())).sum()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("trainers");
    group.sample_size(10);
    let run = support::demo_run(8, 55_000_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let merged = folder.path().join("merged.json");
    merge(run.path(), &merged);

    group.throughput(Throughput::Bytes(run.json_bytes));
    group.bench_function("merge 8 ranks", |b| b.iter(|| black_box(merge(run.path(), &merged))));
    group
        .bench_function("read a merged trace", |b| b.iter(|| black_box(read(&merged).run.wall_ns)));
    let floor = support::seconds(|| pass(&merged));
    let reading = support::seconds(|| read(run.path()).run.wall_ns);
    let merging = support::seconds(|| merge(run.path(), &merged));
    let again = support::seconds(|| read(&merged).run.wall_ns);
    println!(
        "merge: {:.2} times reading the run ({reading:.3} s); reading the merged trace: {:.2} times a pass over it ({floor:.3} s)",
        merging / reading,
        again / floor
    );

    let file = folder.path().join("metrics.jsonl");
    std::fs::write(&file, metrics(500_000)).expect("a place to write");
    group.throughput(Throughput::Elements(500_000));
    group.bench_function("Determined's metrics", |b| b.iter(|| black_box(read(&file).run.wall_ns)));
    let floor = support::seconds(|| parse(&file));
    let reading = support::seconds(|| read(&file).run.wall_ns);
    println!(
        "Determined's metrics: {:.2} times parsing their JSON ({floor:.3} s)",
        reading / floor
    );
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
