//! One build of DataFusion serves the program, the Python package, the cluster and all tests.
//!
//! Cargo unites the features of the crates that one command builds. If a crate asks for a feature that others do without,
//! the crate and whatever depends on it are built once more for some commands: of DataFusion, that takes 20 minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Commands build these: `cargo build`, maturin, `--package cluster`, tests. Tests include dependencies for development.
const SELECTIONS: [(&str, &[&str], &str); 4] = [
    ("the program", &["--package", "cli"], "normal"),
    ("the Python package", &["--package", "python"], "normal"),
    ("the cluster", &["--package", "cluster"], "normal"),
    ("the tests", &["--workspace"], "normal,dev"),
];

/// A package with its version, and its features.
type Built = (String, String);

/// The dependencies of each package that a selection builds.
fn tree(packages: &[&str], edges: &str) -> BTreeMap<Built, BTreeSet<Built>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.args(["tree", "--locked", "--color", "never", "--prefix", "depth", "--edges", edges]);
    let output = command.args(["--format", "|{p}|{f}|"]).args(packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut tree = BTreeMap::<Built, BTreeSet<Built>>::new();
    let mut path: Vec<Built> = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines().filter(|line| !line.is_empty()) {
        let mut parts = line.split('|');
        let mut next = || parts.next().unwrap();
        let (depth, package, features): (usize, _, _) = (next().parse().unwrap(), next(), next());
        let mut words = package.split(' ');
        let package = format!("{} {}", words.next().unwrap(), words.next().unwrap());
        let built = (package, features.to_owned());
        path.truncate(depth);
        if let Some(user) = path.last() {
            tree.get_mut(user).unwrap().insert(built.clone());
        }
        tree.entry(built.clone()).or_default();
        path.push(built);
    }
    tree
}

fn is_expensive(name: &str) -> bool {
    let is_engine = name.starts_with("datafusion") || name.starts_with("arrow");
    // `arrow-flight` is a part of the cluster alone.
    (is_engine || name == "parquet" || name == "object_store") && name != "arrow-flight"
}

/// What DataFusion, Arrow and Parquet are built of, with features.
fn engine(tree: &BTreeMap<Built, BTreeSet<Built>>) -> BTreeSet<Built> {
    let mut open: Vec<&Built> = tree
        .keys()
        .filter(|(package, _)| is_expensive(package.split(' ').next().unwrap()))
        .collect();
    let mut found = BTreeSet::new();
    while let Some(built) = open.pop() {
        if found.insert(built.clone()) {
            open.extend(&tree[built]);
        }
    }
    found
}

#[test]
fn commands_share_one_build_of_the_engine() {
    let built = SELECTIONS.map(|(name, packages, edges)| (name, engine(&tree(packages, edges))));
    let (first, expected) = &built[0];
    assert!(expected.len() > 100, "only {} packages", expected.len());
    for (name, found) in &built[1..] {
        let differences: Vec<String> = expected
            .symmetric_difference(found)
            .map(|(package, features)| format!("{package} [{features}]"))
            .collect();
        assert!(
            differences.is_empty(),
            "{first} and {name} build these packages with different features; name the features in Cargo.toml, and the \
             packages in crates/query/Cargo.toml:\n{}",
            differences.join("\n")
        );
    }
}
