//! Runs the fuzz targets on their seeds and a fixed list of mutations. `.ci/fuzz` runs them for longer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fuzz_targets::{Target, format_targets, mutate, target, targets};

/// Maximum time for a small input, even on a slow and busy machine.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Returns the number of mutations of each seed: `ADVISOR_FUZZ_MUTATIONS`, or the number that a test run has time for.
fn mutation_count(usual: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "chosen by the person who runs the tests")]
    let chosen = std::env::var("ADVISOR_FUZZ_MUTATIONS");
    chosen.map_or(usual, |count| count.parse().expect("a number of mutations"))
}

/// Runs the seeds of a target and mutations of each.
fn smoke(name: &str, usual_mutations: u64) {
    let target = target(name);
    let mutations = mutation_count(usual_mutations);
    for (number, seed) in target.seeds().iter().enumerate() {
        run(target, &seed.name, &seed.bytes);
        for mutation in 0..mutations {
            let mut rng = Rng::with_seed(((number as u64) << 32) + mutation);
            run(
                target,
                &format!("{}, mutation {mutation}", seed.name),
                &mutate(&seed.bytes, &mut rng),
            );
        }
    }
}

/// Runs one input. If it breaks a promise, saves it to a file and panics.
fn run(target: &Target, input: &str, bytes: &[u8]) {
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| target.run(bytes)));
    let elapsed = start.elapsed();
    if result.is_ok() && elapsed < MAX_TIME {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("{}-{}", target.name, input.replace(['/', ',', ' '], "-")));
    std::fs::write(&file, bytes).unwrap();
    panic!("{} of {input}, {elapsed:?}; the input is {}", target.name, file.display());
}

#[test]
fn every_target_has_seeds_and_is_run() {
    let here = include_str!("fuzz.rs");
    let formats: Vec<&str> = format_targets().map(|target| target.name).collect();
    for target in targets() {
        let is_run = here.contains(&format!("smoke(\"{}\"", target.name));
        assert!(is_run || formats.contains(&target.name), "no test runs {}", target.name);
        assert!(!target.seeds().is_empty(), "{}", target.name);
    }
}

/// Every format that can be read: a new one needs no test of its own here.
#[test]
fn files_of_each_format_keep_the_promises() {
    let targets: Vec<&Target> = format_targets().collect();
    assert!(targets.len() >= 8);
    // Threads of their own: a worker of a pool would run other targets while it waits, which counts as time of its input.
    std::thread::scope(|scope| {
        for target in targets {
            scope.spawn(|| smoke(target.name, 150));
        }
    });
}

#[test]
fn exports_keep_the_promises() {
    smoke("export", 40);
}

/// Runs in a process with limited address space, where an excessive allocation aborts.
#[cfg(unix)]
#[test]
fn rule_files_keep_the_promises_in_little_memory() {
    let work = || smoke("rules", 400);
    crate::support::process::alone(
        "fuzz::rule_files_keep_the_promises_in_little_memory",
        "ulimit -v 4000000",
        work,
    );
}

#[test]
fn reports_keep_the_promises() {
    smoke("report", 3);
}
