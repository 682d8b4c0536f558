//! Reading, as a ratio to floors measured in the same run, and peak memory as a ratio to the JSON.
//!
//! The floor reads the file, inflates it (libdeflate), and passes over the text once to find each event (`"ph"`,
//! which every event has exactly once); it makes nothing of what it finds. The second floor does the same window
//! by window, so that text never leaves the cache and no memory is asked for: what no reader that keeps
//! something can reach.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use flate2::bufread::MultiGzDecoder;
use rayon::prelude::*;

/// Set in a child that only reads the run it names, and says how much memory that took.
const READ_ALONE: &str = "ADVISOR_BENCH_READ_ALONE";
/// Text that the second floor holds.
const WINDOW: usize = 512 << 10;

fn is_gzip(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}

fn events(text: &[u8]) -> usize {
    memchr::memmem::find_iter(text, b"\"ph\"").count()
}

fn floor(file: &Path) -> usize {
    let stored = std::fs::read(file).expect("the file was just written");
    if !is_gzip(file) {
        return events(&stored);
    }
    let length = stored.last_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b) as usize);
    let mut text = vec![0; length];
    libdeflater::Decompressor::new()
        .gzip_decompress(&stored, &mut text)
        .expect("gzip of one member");
    events(&text)
}

fn windowed_floor(file: &Path) -> usize {
    let stored = std::fs::File::open(file).expect("the file was just written");
    let mut reader: Box<dyn Read> = if is_gzip(file) {
        Box::new(MultiGzDecoder::new(std::io::BufReader::with_capacity(WINDOW, stored)))
    } else {
        Box::new(stored)
    };
    let mut window = vec![0; WINDOW];
    let mut found = 0;
    loop {
        let mut filled = 0;
        while filled < WINDOW {
            match reader.read(&mut window[filled..]).expect("a whole file") {
                0 => break,
                got => filled += got,
            }
        }
        if filled == 0 {
            return found;
        }
        found += events(&window[..filled]);
    }
}

fn read(run: &Path) -> usize {
    let dataset = ingest::read_run(run, &ingest::Options::default(), &ingest::NoProgress);
    dataset.expect("a whole trace").run.sources.len()
}

/// Peak of the memory of a process that reads a run on so many threads, and does nothing else.
fn peak_bytes(run: &Path, threads: usize) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().ok()?);
    child.env(READ_ALONE, run).env("RAYON_NUM_THREADS", threads.to_string());
    support::peak_of(&mut child)
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ingest");
    group.sample_size(10);
    for (name, ranks, json_bytes) in [
        ("8 MB", 1, 8_000_000),
        ("55 MB", 1, 55_000_000),
        ("8 ranks of 7 MB", 8, 55_000_000),
        ("457 MB", 1, 457_000_000),
    ] {
        for gzip in [false, true] {
            let run = support::demo_run_as(ranks, json_bytes, gzip);
            let name = format!("{name}, {}", if gzip { "gzip" } else { "plain" });
            if json_bytes < 100_000_000 {
                group.throughput(Throughput::Bytes(run.json_bytes));
                group.bench_with_input(BenchmarkId::new("floor", &name), &run, |b, run| {
                    b.iter(|| run.files.iter().map(|f| black_box(floor(f))).sum::<usize>());
                });
                group.bench_with_input(BenchmarkId::new("read_run", &name), &run, |b, run| {
                    b.iter(|| black_box(read(run.path())));
                });
            }
            print_ratios(&name, &run);
        }
    }
    group.finish();
}

fn print_ratios(name: &str, run: &support::DemoRun) {
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.expect("a few threads");
        let over_files = |pass: fn(&Path) -> usize| {
            pool.install(|| {
                support::seconds(|| run.files.par_iter().map(|f| pass(f)).sum::<usize>())
            })
        };
        let [floor, windowed] = [over_files(floor), over_files(windowed_floor)];
        let read = pool.install(|| support::seconds(|| read(run.path())));
        let json = run.json_bytes as f64;
        let peak = peak_bytes(run.path(), threads).map_or("unknown".to_owned(), |bytes| {
            format!("{:.2} bytes a byte of JSON", bytes as f64 / json)
        });
        println!(
            "{name}, {threads} threads: read_run {read:.3} s, {:.2} times the floor, {:.1} times the windowed one; peak {peak}",
            read / floor,
            read / windowed
        );
    }
}

criterion_group!(benches, bench);

fn main() {
    if let Some(run) = std::env::var_os(READ_ALONE) {
        read(Path::new(&run));
        support::print_peak();
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
