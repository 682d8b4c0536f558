//! Reading, as a ratio to the floor measured in the same run: read the file, inflate it, and pass
//! over the text once to find each event (`"ph"`, which every event has exactly once).
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::Path;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

fn floor(file: &Path) -> usize {
    let packed = std::fs::read(file).expect("the file was just written");
    let length = packed.last_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b) as usize);
    let mut text = vec![0; length];
    libdeflater::Decompressor::new()
        .gzip_decompress(&packed, &mut text)
        .expect("gzip of one member");
    memchr::memmem::find_iter(&text, b"\"ph\"").count()
}

fn read(run: &Path) -> usize {
    let dataset = ingest::read_run(run, &ingest::Options::default(), &ingest::NoProgress);
    dataset.expect("a whole trace").run.sources.len()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ingest");
    group.sample_size(10);
    for (name, ranks, json_bytes) in
        [("one 55 MB trace", 1, 55_000_000), ("8 ranks of 7 MB", 8, 55_000_000)]
    {
        let run = support::demo_run(ranks, json_bytes);
        group.throughput(Throughput::Bytes(run.json_bytes));
        group.bench_with_input(BenchmarkId::new("floor", name), &run, |b, run| {
            b.iter(|| run.files.iter().map(|f| black_box(floor(f))).sum::<usize>());
        });
        group.bench_with_input(BenchmarkId::new("read_run", name), &run, |b, run| {
            b.iter(|| black_box(read(run.path())));
        });
        let floor = support::seconds(|| run.files.iter().map(|f| floor(f)).sum::<usize>());
        let read = support::seconds(|| read(run.path()));
        println!("{name}: read_run takes {:.2} times the floor ({floor:.3} s)", read / floor);
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
