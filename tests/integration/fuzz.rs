//! Runs the fuzz targets on their seeds and a fixed list of mutations. `.ci/fuzz` runs them for longer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use fuzz_targets::{TARGETS, Target, mutate, target};

/// Maximum time for a small input, even on a slow and busy machine.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Runs the seeds of a target and `mutations` mutations of each.
fn smoke(name: &str, mutations: u64) {
    let target = target(name);
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
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
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
fn every_target_is_run() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let here = include_str!("fuzz.rs");
    let programs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    for name in &names {
        assert!(here.contains(&format!("smoke(\"{name}\"")), "no test runs {name}");
        assert!(programs.join(format!("{name}.rs")).is_file(), "no program runs {name}");
    }
    assert_eq!(programs.read_dir().unwrap().count(), names.len(), "{names:?}");
}

#[test]
fn kineto_traces_keep_the_promises() {
    smoke("kineto", 150);
}

#[test]
fn pickles_keep_the_promises() {
    smoke("pickle", 150);
}

#[test]
fn metrics_of_determined_keep_the_promises() {
    smoke("determined", 150);
}

#[test]
fn traces_of_composer_keep_the_promises() {
    smoke("composer", 300);
}

#[test]
fn dumps_of_the_flight_recorder_keep_the_promises() {
    smoke("flight_recorder", 150);
}

#[test]
fn logs_of_compilers_keep_the_promises() {
    smoke("compile_log", 150);
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
