//! Generated runs of a wanted size, a median of a few timings, and the peak of a process.
#![allow(dead_code, reason = "each bench uses its own part")]
#![allow(missing_docs, reason = "not a library")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use allocator::SizedAllocator;

/// That of the program.
#[global_allocator]
static ALLOCATOR: SizedAllocator = SizedAllocator;

/// A run in a folder of its own, removed at the end.
pub(crate) struct DemoRun {
    folder: tempfile::TempDir,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) json_bytes: u64,
}

impl DemoRun {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Writes a run of `ranks` traces with about `json_bytes` of JSON in all.
pub(crate) fn demo_run(ranks: u32, json_bytes: u64) -> DemoRun {
    demo_run_as(ranks, json_bytes, true)
}

/// The same, as gzip or as plain JSON.
pub(crate) fn demo_run_as(ranks: u32, json_bytes: u64, gzip: bool) -> DemoRun {
    let mut options = trace_demo::Options {
        gzip,
        ranks,
        steps: 2,
        layers: 8,
        bottleneck: trace_demo::Bottleneck::None,
        ..trace_demo::Options::default()
    };
    let sample =
        trace_demo::render_rank(&options, 0, Vec::new()).expect("writing to memory").len() as u64;
    let per_step = sample / u64::from(options.steps);
    options.steps = u32::try_from(json_bytes / u64::from(ranks) / per_step).unwrap_or(2).max(2);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = trace_demo::write_run(&options, folder.path()).expect("writing the run");
    let json_bytes = (0..ranks)
        .map(|rank| {
            trace_demo::render_rank(&options, rank, Vec::new()).expect("writing to memory").len()
                as u64
        })
        .sum();
    DemoRun { files: written.files, folder, json_bytes }
}

/// Writes a run that is not compressed.
pub(crate) fn write_demo(options: &trace_demo::Options) -> DemoRun {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = trace_demo::write_run(options, folder.path()).expect("writing the run");
    DemoRun { files: written.files, folder, json_bytes: written.bytes }
}

/// The most memory that this process had, where the system says it.
pub(crate) fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// For a process of its own: says what its peak was, to who started it with [`peak_of`].
pub(crate) fn print_peak() {
    println!("{}", peak_bytes().map_or_else(String::new, |bytes| bytes.to_string()));
}

/// The peak of a process that ends with [`print_peak`].
pub(crate) fn peak_of(process: &mut Command) -> Option<u64> {
    String::from_utf8(process.output().ok()?.stdout).ok()?.trim().parse().ok()
}

/// Median of five runs.
pub(crate) fn seconds<T>(mut work: impl FnMut() -> T) -> f64 {
    median((0..5).map(|_| once(&mut work)).collect())
}

/// Medians of nine runs of each, in turn: what else the machine does slows down both.
pub(crate) fn seconds_in_turn<T, U>(
    mut one: impl FnMut() -> T,
    mut other: impl FnMut() -> U,
) -> (f64, f64) {
    let times = (0..9).map(|_| (once(&mut one), once(&mut other)));
    let (ones, others) = times.unzip();
    (median(ones), median(others))
}

fn once<T>(work: &mut impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    std::hint::black_box(work());
    start.elapsed().as_secs_f64()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
