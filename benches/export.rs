//! Exporting a run, reading the export, and cutting a part out of a run, as ratios to reading its JSON in the same run; and the memory that each
//! takes at most, as a ratio to the bytes of JSON, in a process of its own: for one rank and for eight of that size.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use criterion::{Criterion, Throughput, criterion_group};
use ingest::{Location, NoProgress, Options};
use trace_advisor::query::{Range, Selection};
use trace_advisor::{Cutting, OpenOptions, Run};

const JSON_BYTES: u64 = 55_000_000;
const GROUPED: &str = "SELECT name, count(*), sum(dur_ns) FROM kernels GROUP BY name";

/// Work on a run and its export.
type Work = fn(&Path, &Path);

/// What is measured, by its name on the command line of a process of its own.
const WORK: [(&str, Work); 5] = [
    ("read JSON", read),
    ("export", export),
    ("read Parquet", read_export),
    ("stream", stream),
    ("cut", cut),
];

fn read(run: &Path, _: &Path) {
    black_box(ingest::read_run(run, &Options::default(), &NoProgress).expect("a whole run"));
}

fn export(run: &Path, to: &Path) {
    let location = Location::parse(run).expect("a path");
    ingest::export(&location, &Options::default(), to, true, &NoProgress).expect("an export");
}

fn read_export(_: &Path, to: &Path) {
    read(to, to);
}

/// A query over tables that are not in memory.
fn stream(_: &Path, to: &Path) {
    let options = OpenOptions { memory_bytes: Some(1), ..OpenOptions::default() };
    let run = Run::open_with(to, &options, &NoProgress).expect("an export");
    black_box(run.sql(GROUPED).expect("a query"));
}

/// A part of 50 ms.
fn cut(run: &Path, to: &Path) {
    let location = Location::parse(run).expect("a path");
    let between = Some(Range { first: 50_000_000, last: 100_000_000 });
    let selection = Selection { between, ..Selection::default() };
    let folder = to.with_file_name("cut");
    let cutting = Cutting { selection: &selection, folder: &folder, overwrite: true };
    trace_advisor::cut(&location, &Options::default(), &cutting, &NoProgress).expect("a part");
}

/// The most memory that a process takes for one thing.
fn peak_of(work: &str, run: &Path, to: &Path) -> Option<u64> {
    let mut me = Command::new(std::env::current_exe().ok()?);
    support::peak_of(me.arg("--peak-of").arg(work).arg(run).arg(to))
}

fn bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let to = folder.path().join("export");
    let mut group = criterion.benchmark_group("export");
    group.sample_size(10);
    for ranks in [1, 8] {
        let run = support::demo_run(ranks, JSON_BYTES * u64::from(ranks));
        let name = format!("{ranks} of 55 MB");
        if ranks == 1 {
            group.throughput(Throughput::Bytes(run.json_bytes));
            for (what, work) in WORK {
                group.bench_function(what, |b| b.iter(|| work(run.path(), &to)));
            }
        }
        let seconds = WORK.map(|(_, work)| support::seconds(|| work(run.path(), &to)));
        for ((what, _), took) in WORK.iter().zip(seconds) {
            let ratio = took / seconds[0];
            let memory = peak_of(what, run.path(), &to).map_or("?".to_owned(), |bytes| {
                format!("{:.2}", bytes as f64 / run.json_bytes as f64)
            });
            println!(
                "{name}: {what} takes {ratio:.2} times reading JSON ({took:.3} s), and {memory} bytes of memory per \
                 byte of JSON"
            );
        }
        let written = ingest::Export::open(&to).expect("an export");
        let bytes = written.bytes() as f64 / run.json_bytes as f64;
        println!("{name}: {bytes:.3} bytes of Parquet per byte of JSON");
    }
    group.finish();
}

criterion_group!(benches, bench);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [option, work, run, to] = args.as_slice()
        && option == "--peak-of"
    {
        let (_, work) = WORK.iter().find(|(name, _)| name == work).expect("one of those");
        work(Path::new(run), Path::new(to));
        support::print_peak();
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
