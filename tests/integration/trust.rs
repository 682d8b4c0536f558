//! Checks that the tests named in `docs/trust.md` exist.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::layering::rust_files;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the source of a module of this test program, including its submodules.
fn source(module: &str) -> Option<String> {
    let tests = repository().join("tests/integration");
    let (file, folder) = (tests.join(format!("{module}.rs")), tests.join(module));
    if file.is_file() {
        return Some(std::fs::read_to_string(file).unwrap());
    }
    folder
        .is_dir()
        .then(|| rust_files(&folder).iter().map(|f| std::fs::read_to_string(f).unwrap()).collect())
}

#[test]
fn named_tests_exist() {
    let page = std::fs::read_to_string(repository().join("docs/trust.md")).unwrap();
    let name = Regex::new("`([a-z][a-z0-9_]*)(?:::([a-z][a-z0-9_]*))?`").unwrap();
    let crates = rust_files(&repository().join("crates"));
    let crates: String = crates.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let mut count = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let tests = line.split('|').nth(2).unwrap();
        for found in name.captures_iter(tests) {
            let (first, second) = (&found[1], found.get(2).map(|second| second.as_str()));
            let has_test = |text: &str, test: &str| text.contains(&format!("fn {test}("));
            let exists = match (source(first), second) {
                (Some(module), Some(test)) => has_test(&module, test),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => has_test(&crates, first),
            };
            assert!(exists, "docs/trust.md names {}, which is no test", &found[0]);
            count += 1;
        }
    }
    assert!(count > 20, "docs/trust.md names {count} tests");
}
