//! The cache of runs and answers: used while it is valid, and never after.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(unix)]
use crate::support::process::output_within;
use crate::support::sandbox::Sandbox;

/// A run whose tables are worth keeping is too long for a test: what rules ask is kept of any.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let made = sandbox.run(&["demo", "-o", "run", "--bottleneck", "data-loading", "--steps", "6"]);
    assert!(made.status.success());
    sandbox
}

/// The report, and the stages that made it.
fn check(sandbox: &Sandbox, more: &[&str]) -> (String, Vec<String>) {
    let mut args = vec!["check", "run", "--exit-zero", "--timings", "--format", "json"];
    args.extend_from_slice(more);
    let output = sandbox.run(&args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let stages = errors.lines().filter(|l| l.ends_with(" ms") && !l.starts_with(' '));
    let stages = stages.filter_map(|l| l.split_whitespace().next()).map(str::to_owned);
    (String::from_utf8(output.stdout).unwrap(), stages.collect())
}

fn is_from_cache(stages: &[String]) -> bool {
    stages.iter().any(|s| s == "cache") && !stages.iter().any(|s| s == "read")
}

const CACHE: [&str; 2] = ["--cache-dir", "cache"];

/// The cache, and few rules: what makes the cache invalid does not depend on the rules.
const CACHE_OF_FEW_RULES: [&str; 4] = ["--cache-dir", "cache", "--select", "IN"];

/// The files of answers in the cache.
fn answers(sandbox: &Sandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(sandbox.path("cache")).unwrap();
    let folders = entries.map(|e| e.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    files.map(|e| e.unwrap().path()).filter(|p| is_answers(p)).collect()
}

fn is_answers(path: &Path) -> bool {
    path.file_name().unwrap().to_string_lossy().starts_with("answers-")
}

#[test]
fn cache_answers_the_second_check_without_reading() {
    let sandbox = sandbox();
    let (plain, stages) = check(&sandbox, &["--no-cache"]);
    assert!(!stages.iter().any(|s| s == "cache"), "{stages:?}");
    let (first, stages) = check(&sandbox, &CACHE);
    assert!(!is_from_cache(&stages), "{stages:?}");
    let (second, stages) = check(&sandbox, &CACHE);
    assert!(is_from_cache(&stages), "{stages:?}");
    assert_eq!(plain, first);
    assert_eq!(first, second);
    // The path in a report is the one that was given.
    let dotted = sandbox.run(&["check", "./run", "--exit-zero", "--cache-dir", "cache"]);
    let text = String::from_utf8(dotted.stdout).unwrap();
    assert!(text.contains("./run"), "{text}");
}

#[test]
fn cache_distinguishes_selections_and_parameters() {
    let sandbox = sandbox();
    let (all, _) = check(&sandbox, &CACHE);
    let steps = ["--cache-dir", "cache", "--steps", "1..3"];
    let (part, stages) = check(&sandbox, &steps);
    assert!(!is_from_cache(&stages), "{stages:?}");
    assert_ne!(all, part);
    let set = ["--cache-dir", "cache", "--set", "short_kernel_us=1000"];
    assert!(!is_from_cache(&check(&sandbox, &set).1));
    assert!(is_from_cache(&check(&sandbox, &steps).1));
    // A parameter that has its default changes no answer.
    let default = ["--cache-dir", "cache", "--set", "short_kernel_us=100"];
    let stages = check(&sandbox, &default).1;
    assert!(is_from_cache(&stages), "{stages:?}");
    // Rules are judged anew: only what they have not asked yet is asked of the run.
    let (fewer, stages) = check(&sandbox, &["--cache-dir", "cache", "--select", "IN"]);
    assert!(is_from_cache(&stages), "{stages:?}");
    assert_ne!(all, fewer);
}

#[test]
fn cache_is_invalid_after_the_run_changes() {
    let sandbox = sandbox();
    let (before, _) = check(&sandbox, &CACHE_OF_FEW_RULES);
    let run = fs::read_dir(sandbox.path("run")).unwrap();
    let trace = run.map(|e| e.unwrap().path()).find(|p| p.to_string_lossy().contains("rank-0"));
    let trace = trace.unwrap();
    // Same name, same length, same time of modification: the file system knows all the same.
    let modified = fs::metadata(&trace).unwrap().modified().unwrap();
    let mut bytes = fs::read(&trace).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&trace, &bytes).unwrap();
    fs::File::options().write(true).open(&trace).unwrap().set_modified(modified).unwrap();
    let args = ["check", "run", "--exit-zero", "--timings"];
    let output = sandbox.run(&[&args[..], &CACHE_OF_FEW_RULES].concat());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("\nread "), "{errors}");
    // And back: another change, whatever it says.
    bytes[at] ^= 1;
    fs::write(&trace, &bytes).unwrap();
    let (after, stages) = check(&sandbox, &CACHE_OF_FEW_RULES);
    assert!(!is_from_cache(&stages), "{stages:?}");
    assert_eq!(before, after);
    // A file that came to the run.
    fs::write(sandbox.path("run").join("notes.txt"), "nothing").unwrap();
    assert!(!is_from_cache(&check(&sandbox, &CACHE_OF_FEW_RULES).1));
}

#[test]
fn cache_that_is_damaged_is_ignored_and_repaired() {
    let sandbox = sandbox();
    let (sound, _) = check(&sandbox, &CACHE_OF_FEW_RULES);
    let files = answers(&sandbox);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let bytes = fs::read(file).unwrap();
    let mut flipped = bytes.clone();
    let at = flipped.len() * 3 / 4;
    flipped[at] ^= 0x10;
    let mut foreign = bytes.clone();
    foreign[20] ^= 1;
    for (what, damaged) in [
        ("cut", bytes[..bytes.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("three bytes", b"tac".to_vec()),
        ("a bit flipped", flipped),
        ("of another run", foreign),
        ("text", b"not a cache at all, but long enough to look at".to_vec()),
    ] {
        fs::write(file, damaged).unwrap();
        let (report, stages) = check(&sandbox, &CACHE_OF_FEW_RULES);
        assert!(!is_from_cache(&stages), "{what}: {stages:?}");
        assert_eq!(report, sound, "{what}");
        assert!(is_from_cache(&check(&sandbox, &CACHE_OF_FEW_RULES).1), "{what}: not mended");
    }
}

#[test]
fn cache_that_cannot_be_written_is_a_warning() {
    let sandbox = sandbox();
    fs::write(sandbox.path("taken"), "a file where the folder should be").unwrap();
    let output = sandbox.run(&["check", "run", "--exit-zero", "--cache-dir", "taken"]);
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("warning: cannot write to the cache directory taken"), "{errors}");
    let plain = sandbox.run(&["check", "run", "--exit-zero", "--no-cache"]);
    assert_eq!(output.stdout, plain.stdout);
}

#[test]
fn cache_serves_concurrent_checks() {
    let sandbox = sandbox();
    let (expected, _) = check(&sandbox, &["--no-cache", "--select", "IN"]);
    std::thread::scope(|scope| {
        let checks: Vec<_> =
            (0..4).map(|_| scope.spawn(|| check(&sandbox, &CACHE_OF_FEW_RULES).0)).collect();
        for report in checks {
            assert_eq!(report.join().unwrap(), expected);
        }
    });
    let (report, stages) = check(&sandbox, &CACHE_OF_FEW_RULES);
    assert!(is_from_cache(&stages), "{stages:?}");
    assert_eq!(report, expected);
    // Nothing half written is left.
    for entry in fs::read_dir(sandbox.path("cache")).unwrap() {
        for file in fs::read_dir(entry.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            assert!(is_answers(&path), "{}", path.display());
        }
    }
}

/// Puts something that is not a plain file of this user at a path. Returns false if only root can.
#[cfg(unix)]
fn plant(what: &str, at: &Path, content: &[u8]) -> bool {
    use std::os::unix::fs::{chown, symlink};
    match what {
        "a pipe" => {
            let made = std::process::Command::new("mkfifo").arg(at).status();
            assert!(made.unwrap().success());
        }
        "a link to a device" => symlink("/dev/zero", at).unwrap(),
        "a link to a sound entry" => {
            let elsewhere = at.with_file_name("elsewhere");
            fs::write(&elsewhere, content).unwrap();
            symlink(elsewhere, at).unwrap();
        }
        "a folder" => fs::create_dir(at).unwrap(),
        "a file of another user" => {
            fs::write(at, content).unwrap();
            if chown(at, Some(12_345), None).is_err() {
                fs::remove_file(at).unwrap();
                return false;
            }
        }
        what => panic!("{what}"),
    }
    true
}

#[cfg(unix)]
const FOREIGN: [&str; 5] = [
    "a pipe",
    "a link to a device",
    "a link to a sound entry",
    "a folder",
    "a file of another user",
];

/// Runs a command that must not wait for what is in the cache.
#[cfg(unix)]
fn answer(sandbox: &Sandbox, args: &[&str]) -> (Vec<u8>, String) {
    let output = output_within(sandbox.command(args), std::time::Duration::from_mins(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    (output.stdout, errors)
}

#[cfg(unix)]
#[test]
fn cache_entries_that_are_no_files_of_the_user_are_ignored_and_replaced() {
    let sandbox = sandbox();
    let args = ["check", "run", "--exit-zero", "--timings", "--format", "json"];
    let args = [&args[..], &CACHE_OF_FEW_RULES].concat();
    let (sound, _) = answer(&sandbox, &args);
    let files = answers(&sandbox);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let content = fs::read(file).unwrap();
    for what in FOREIGN {
        fs::remove_file(file).unwrap();
        if !plant(what, file, &content) {
            fs::write(file, &content).unwrap();
            continue;
        }
        let (report, stages) = answer(&sandbox, &args);
        assert!(stages.contains("\nread ") && report == sound, "{what}: {stages}");
        assert!(fs::symlink_metadata(file).unwrap().is_file(), "{what} is still there");
        let (report, stages) = answer(&sandbox, &args);
        assert!(!stages.contains("\nread ") && report == sound, "{what} is not replaced: {stages}");
    }
    // The folder of the entry is a link to where it was.
    let (entry, elsewhere) = (file.parent().unwrap(), sandbox.path("elsewhere"));
    fs::rename(entry, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, entry).unwrap();
    let (report, stages) = answer(&sandbox, &args);
    assert!(stages.contains("\nread ") && report == sound, "{stages}");
    assert!(entry.is_dir() && !entry.is_symlink() && elsewhere.exists());
}

/// The tables of a run above the memory limit.
#[cfg(unix)]
#[test]
fn cached_tables_that_are_no_files_of_the_user_are_ignored_and_replaced() {
    let sandbox = sandbox();
    let args = ["sql", "run", "SELECT count(*) AS n FROM kernels", "--memory-limit", "1KB"];
    let args = [&args[..], &CACHE].concat();
    let (sound, _) = answer(&sandbox, &args);
    let entries = fs::read_dir(sandbox.path("cache")).unwrap();
    let entry = entries.map(|entry| entry.unwrap().path()).next().unwrap();
    let table = || {
        let files = fs::read_dir(entry.join("tables/kernels")).unwrap();
        files.map(|file| file.unwrap().path()).min().unwrap()
    };
    let (manifest, marker) = (entry.join("tables/run.json"), "tables-");
    let names = fs::read_dir(&entry).unwrap().map(|file| file.unwrap().path());
    let is_marker =
        |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(marker);
    let marker = names.into_iter().find(is_marker).unwrap();
    for what in FOREIGN {
        for file in [manifest.clone(), table(), marker.clone()] {
            let content = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            if !plant(what, &file, &content) {
                fs::write(&file, &content).unwrap();
                continue;
            }
            let told = format!("{what} at {}", file.display());
            assert!(answer(&sandbox, &args).0 == sound, "{told}");
            assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{told} is still there");
        }
    }
    fs::remove_dir_all(entry.join("tables")).unwrap();
    assert!(plant("a pipe", &entry.join("tables"), b""));
    assert!(answer(&sandbox, &args).0 == sound && manifest.is_file());
}
