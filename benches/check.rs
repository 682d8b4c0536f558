//! The main job end to end, `check` with the shipped rules on a 55 MB trace, beside reading alone; a second time, with
//! what the first one kept; and with the report as a page. Then the fixed cost: `check` on an almost empty trace.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]
#![allow(missing_docs, reason = "criterion's macros document nothing")]

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use trace_advisor::ingest::{Cache, NoProgress};
use trace_advisor::{OpenOptions, RuleSet, Run};

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
    fixed_cost(&rules);
}

/// A trace of one operator. All kinds of data that it lacks should cost nothing.
const ONE_OPERATOR: &str = r#"{"traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
]}"#;

/// About as complex as a view.
const QUERY: &str = "
    WITH busy AS (SELECT rank, name, step, count(*) AS n, sum(dur_ns) AS sum_ns FROM cpu_ops GROUP BY rank, name, step)
    SELECT s.rank, s.step, b.name, b.n, b.sum_ns / s.dur_ns AS share, sum(b.sum_ns) OVER (PARTITION BY s.rank) AS all_ns
    FROM steps s LEFT JOIN busy b ON b.rank = s.rank AND b.step = s.step
    WHERE NOT s.is_last ORDER BY s.rank, s.step";

/// The fixed cost of a rule may be this part of the time of [`QUERY`].
const MAX_QUERIES_PER_RULE: f64 = 0.3;

fn fixed_cost(rules: &RuleSet) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("rank0.pt.trace.json");
    std::fs::write(&trace, ONE_OPERATOR).expect("a file in a temporary folder");
    let check = || Run::open(&trace).and_then(|run| run.check(rules)).expect("a whole trace");
    let run = Run::open(&trace).expect("a whole trace");
    let queries = || (0..20).all(|_| run.sql(QUERY).is_ok());
    assert!(queries(), "the query is valid");
    let (checked, queried) = support::seconds_in_turn(check, queries);
    let (query, count) = (queried / 20.0, rules.rules().len() as f64);
    let per_rule = checked / query / count;
    println!(
        "check of an almost empty trace takes {checked:.3} s, {:.2} ms and {per_rule:.2} queries per rule",
        1e3 * checked / count
    );
    assert!(per_rule <= MAX_QUERIES_PER_RULE, "the fixed cost of rules has grown");
}

criterion_group!(benches, bench);
criterion_main!(benches);
