//! Slices of slow suites: together they are everything, and what `tests/slices.txt` lists exists.

use std::path::{Path, PathBuf};

use super::layering::rust_files;
use crate::support::slice::{SUITES, Slice, suites};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn each_item_is_in_one_of_the_slices() {
    let slices = ["1/3", "2/3", "3/3"].map(|text| Slice::parse(text).unwrap().unwrap());
    for position in 0..10 {
        assert_eq!(slices.iter().filter(|slice| slice.has(position)).count(), 1, "{position}");
    }
    for everything in ["", "all"] {
        assert_eq!(Slice::parse(everything), Ok(None));
    }
    for wrong in ["0/4", "5/4", "4", "1/", "a/b", "-1/4", "All"] {
        assert!(Slice::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn listed_suites_exist() {
    let tests = repository().join("tests");
    let lines = SUITES.lines().filter(|line| !line.starts_with('#')).count();
    let known: usize =
        ["golden", "loop", "test", "pytest"].map(|kind| suites(kind).count()).iter().sum();
    assert_eq!(lines, known, "tests/slices.txt has a line of another kind");
    let golden = read(&tests.join("golden/main.rs"));
    for name in suites("golden") {
        assert!(golden.contains(&format!("name: \"{name}\", ")), "no suite of golden is {name}");
    }
    for name in suites("pytest") {
        assert!(tests.join("python").join(name).is_dir(), "tests/python has no folder {name}");
    }
    for name in suites("loop").chain(suites("test")) {
        let (module, test) = name.rsplit_once("::").unwrap();
        let modules = ["integration", "golden"]
            .map(|suite| tests.join(suite).join(module.replace("::", "/")));
        let mut files =
            modules.iter().flat_map(|module| [module.with_extension("rs"), module.join("mod.rs")]);
        let text = read(&files.find(|file| file.is_file()).expect(name));
        assert!(text.contains(&format!("fn {test}(")), "there is no test {name}");
        let is_loop = suites("loop").any(|other| other == name);
        assert!(
            !is_loop || text.contains(&format!("\"{name}\"")),
            "{name} does not take its slice"
        );
    }
}

/// `.ci/run` runs the ignored tests of these programs.
#[test]
fn ignored_tests_are_where_they_run() {
    let mark = concat!("#[", "ignore");
    let mut count = 0;
    for folder in ["crates", "tests"] {
        for file in rust_files(&repository().join(folder)) {
            let marks = read(&file).matches(mark).count();
            let path = file.strip_prefix(repository()).unwrap();
            let is_run = ["tests/integration", "tests/golden", "crates/cluster/tests"];
            let is_run = is_run.iter().any(|folder| path.starts_with(folder));
            assert!(
                marks == 0 || is_run,
                "{}: .ci/run does not run its ignored tests",
                path.display()
            );
            count += marks;
        }
    }
    assert!(count > 30, "only {count} ignored tests");
}
