//! Many checks: concurrently on one cache, and repeatedly in one process, which must not leak. `.ci/soak` runs more.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use trace_advisor::advisor::Policy;
use trace_advisor::ingest::{Cache, NoProgress};
use trace_advisor::{OpenOptions, check, default_rules};
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::process::alone;
use crate::support::sandbox::Sandbox;

/// Number of runs that are checked concurrently.
const RUNS: u64 = 24;

/// Number of consecutive checks, unless `ADVISOR_SOAK_CHECKS` is set.
const CHECKS: usize = 100;

/// Maximum growth of the minimum of memory from the second to the last quarter of the checks.
const MAX_GROWTH_BYTES: i64 = 12 << 20;

/// Makes glibc return memory that is free: one arena for all threads, and thresholds that do not adapt.
const MALLOC: &str =
    "export MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=65536 MALLOC_MMAP_THRESHOLD_=131072";

/// Time limit for finished threads to exit.
const MAX_EXIT_TIME: Duration = Duration::from_secs(10);

fn write_demo(folder: &Path, seed: u64) {
    let bottleneck =
        [Bottleneck::DataLoading, Bottleneck::Sync, Bottleneck::None][seed as usize % 3];
    let options = Options { bottleneck, seed, ranks: 1, steps: 4, layers: 1, ..Options::default() };
    write_run(&options, folder).unwrap();
}

/// Returns the report of a run, and whether its traces were read.
fn report(sandbox: &Sandbox, run: &str, cache: &[&str]) -> (String, bool) {
    let mut args =
        vec!["check", run, "--exit-zero", "--select", "IN", "--format", "json", "--timings"];
    args.extend_from_slice(cache);
    let output = sandbox.run(&args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(!errors.lines().any(|line| line.starts_with("warning")), "{errors}");
    let was_read = errors.lines().any(|line| line.starts_with("read "));
    (String::from_utf8(output.stdout).unwrap(), was_read)
}

#[test]
#[ignore = "takes a minute"]
fn checks_at_once_on_one_cache_report_as_one_after_another() {
    const CACHE: [&str; 2] = ["--cache-dir", "cache"];
    let sandbox = Sandbox::new();
    let runs: Vec<String> = (0..RUNS).map(|run| format!("run-{run}")).collect();
    for (seed, run) in runs.iter().enumerate() {
        write_demo(&sandbox.path(run), seed as u64);
    }
    let expected: Vec<_> =
        runs.iter().map(|run| report(&sandbox, run, &["--no-cache"]).0).collect();
    let sandbox = &sandbox;
    thread::scope(|scope| {
        let checks: Vec<_> =
            runs.iter().map(|run| scope.spawn(move || report(sandbox, run, &CACHE).0)).collect();
        for (check, expected) in checks.into_iter().zip(&expected) {
            assert_eq!(check.join().unwrap(), *expected);
        }
    });
    // No entry was lost, and each belongs to its run.
    assert_eq!(fs::read_dir(sandbox.path("cache")).unwrap().count(), runs.len());
    for (run, expected) in runs.iter().zip(&expected) {
        let (cached, was_read) = report(sandbox, run, &CACHE);
        assert!(!was_read, "the answers about {run} were lost");
        assert_eq!(cached, *expected);
    }
}

/// Resources held by a process.
#[derive(Debug, Clone, Copy)]
struct Held {
    rss_bytes: i64,
    files: usize,
    threads: usize,
}

impl Held {
    fn now() -> Self {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: i64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
        let count = |folder| fs::read_dir(folder).unwrap().count();
        Self {
            rss_bytes: pages * 4096,
            files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}

#[test]
#[ignore = "takes a minute"]
fn checks_in_a_row_leave_nothing_behind() {
    alone("soak::checks_in_a_row_leave_nothing_behind", MALLOC, || {
        let checks = std::env::var_os("ADVISOR_SOAK_CHECKS")
            .map_or(CHECKS, |count| count.to_str().unwrap().parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        write_demo(&run, 0);
        let select = Policy { select: Some(vec!["IN".to_owned()]), ..Policy::default() };
        let rules = default_rules().with_policy(&select).unwrap();
        let cache = Cache { folder: folder.path().join("cache"), max_bytes: Cache::MAX_BYTES };
        // Every third check uses the cache.
        let options =
            [None, Some(cache), None].map(|cache| OpenOptions { cache, ..OpenOptions::default() });
        let report = |number: usize| {
            let checked = check(&run, &options[number % 3], &rules, &NoProgress).unwrap();
            assert!(checked.cache_error.is_none());
            serde_json::to_string(&checked.report).unwrap()
        };
        let expected = report(0);
        // Memory goes up and down between checks, but a leak raises its minimum.
        let check_quarter = |quarter: usize| {
            let numbers = quarter * checks / 4..(quarter + 1) * checks / 4;
            let held: Vec<_> = numbers
                .map(|number| {
                    assert_eq!(report(number + 1), expected, "check {number}");
                    Held::now()
                })
                .collect();
            let rss_bytes = held.iter().map(|held| held.rss_bytes).min().unwrap();
            Held { rss_bytes, ..*held.last().unwrap() }
        };
        let [_, half, _, last] = [0, 1, 2, 3].map(check_quarter);
        // A finished thread stays listed for a moment, and nothing joins the timer of a query.
        let start = Instant::now();
        let mut end = Held::now();
        while end.threads > half.threads && start.elapsed() < MAX_EXIT_TIME {
            thread::sleep(Duration::from_millis(10));
            end = Held::now();
        }
        end.rss_bytes = last.rss_bytes;
        let growth = end.rss_bytes - half.rss_bytes;
        println!("{checks} checks: {half:?}, then {end:?}");
        assert!(growth < MAX_GROWTH_BYTES, "{growth} bytes more: {half:?}, then {end:?}");
        assert!(end.files <= half.files && end.threads <= half.threads, "{half:?}, then {end:?}");
    });
}
