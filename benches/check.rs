//! The main job end to end, `check` with the shipped rules on a 55 MB trace, beside reading alone; a second time, with
//! what the first one kept; and with the report as a page.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trace_advisor::ingest::{Cache, NoProgress};
use trace_advisor::{OpenOptions, Run};

fn bench(criterion: &mut Criterion) {
    let run = support::demo_run(1, 55_000_000);
    let rules = trace_advisor::default_rules();
    let check = || {
        let report = Run::open(run.path()).and_then(|r| r.check(&rules)).expect("a whole trace");
        report.findings.len()
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let cache = Cache { folder: folder.path().to_owned(), max_bytes: Cache::MAX_BYTES };
    let options = OpenOptions { cache: Some(cache), ..OpenOptions::default() };
    let cached = || {
        let checked = trace_advisor::check(run.path(), &options, &rules, &NoProgress);
        checked.expect("a whole trace").run.is_none()
    };
    let mut group = criterion.benchmark_group("check");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(run.json_bytes));
    group.bench_function("read", |b| b.iter(|| black_box(Run::open(run.path()).is_ok())));
    group.bench_function("check", |b| b.iter(|| black_box(check())));
    cached();
    assert!(cached(), "the second time nothing is read");
    group.bench_function("cached", |b| b.iter(|| black_box(cached())));
    group.finish();
    let opened = support::seconds(|| Run::open(run.path()).is_ok());
    let checked = support::seconds(check);
    println!("check takes {checked:.3} s, {:.2} times reading alone", checked / opened);
    let again = support::seconds(cached);
    println!("a second time it takes {again:.4} s: {:.0} times as fast", checked / again);
    let options = OpenOptions { later_views: page::VIEWS, ..OpenOptions::default() };
    let with_page = || {
        let run = Run::open_with(run.path(), &options, &NoProgress).expect("a whole trace");
        let report = run.check(&rules).expect("a whole trace");
        page::report(&run, &report, &page::Options::default()).expect("a whole trace").len()
    };
    let (checked, paged) = support::seconds_in_turn(check, with_page);
    println!("the page adds {:.0} % to the time of check", 100.0 * (paged / checked - 1.0));
}

criterion_group!(benches, bench);
criterion_main!(benches);
