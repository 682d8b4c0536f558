//! Dependencies between crates: the table of ARCHITECTURE.md against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Our crates, with those of ours that they may use.
const OURS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("trace-model", &[]),
    ("ingest", &["trace-model"]),
    ("query", &["trace-model"]),
    ("analyses", &["trace-model", "query"]),
    ("compare", &["trace-model", "query"]),
    ("advisor", &["trace-model"]),
    ("trace-advisor", &["trace-model", "ingest", "query", "analyses", "compare", "advisor"]),
    ("page", &["trace-advisor"]),
    ("cli", &["allocator", "trace-advisor", "page"]),
    ("python", &["trace-advisor", "page", "cli"]),
    // Exercises everything that reads untrusted input. Without default features, it builds without the query engine.
    ("fuzz-targets", &["trace-model", "ingest", "advisor", "trace-advisor", "cli"]),
];

/// Third-party crates that only some of ours may name.
const GUARDED: &[(&str, &[&str])] = &[
    ("datafusion", &["query"]),
    ("datafusion-proto", &["query"]),
    ("prost", &["query"]),
    // `query` runs DataFusion on it, `ingest` reads object stores, `cli` serves one file.
    ("tokio", &["query", "ingest", "cli"]),
    ("object_store", &["ingest"]),
    ("hyper", &["cli"]),
    ("parquet", &["ingest"]),
    ("minijinja", &["advisor"]),
    ("schemars", &["advisor"]),
    // `advisor`: optional, derives `ValueEnum` for options of the command line.
    ("clap", &["advisor", "cli"]),
    ("pyo3", &["python"]),
    ("anyhow", &["cli", "python"]),
    ("anstream", &["cli"]),
    ("annotate-snippets", &["cli"]),
    ("comfy-table", &["cli"]),
    ("ctrlc", &["cli"]),
    ("indicatif", &["cli"]),
    ("rustyline", &["cli"]),
    ("libc", &["allocator"]),
    ("mimalloc", &["allocator"]),
    ("nix", &["cli"]),
    ("signal-hook", &["cli"]),
];

/// All that `trace-model` may use.
const TRACE_MODEL: &[&str] =
    &["arrow-array", "arrow-buffer", "arrow-schema", "rustc-hash", "serde", "strsim"];

fn metadata() -> Metadata {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata")
}

/// The dependencies that each of our packages names, except those of its tests.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    metadata()
        .packages
        .iter()
        .map(|package| {
            let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
            (package.name.to_string(), normal.map(|d| d.name.clone()).collect())
        })
        .collect()
}

#[test]
fn crates_use_each_other_as_declared() {
    let edges = edges();
    let known: BTreeSet<&str> = OURS.iter().map(|(name, _)| *name).collect();
    let packages: BTreeSet<&str> = edges.keys().map(String::as_str).collect();
    assert_eq!(packages, known, "a crate that is not in the table");
    for (name, allowed) in OURS {
        for used in edges[*name].iter().filter(|d| known.contains(d.as_str())) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
    }
}

#[test]
fn heavy_dependencies_stay_in_their_crates() {
    let edges = edges();
    for (guarded, allowed) in GUARDED {
        for (name, used) in &edges {
            assert!(
                !used.contains(*guarded) || allowed.contains(&name.as_str()),
                "{name} must not use {guarded}"
            );
        }
        let is_used = allowed.iter().any(|name| edges[*name].contains(*guarded));
        assert!(is_used, "no crate uses {guarded}: the table is out of date");
    }
    let extra: Vec<_> =
        edges["trace-model"].iter().filter(|d| !TRACE_MODEL.contains(&d.as_str())).collect();
    assert!(extra.is_empty(), "trace-model must not use {extra:?}");
}

/// Libraries return data; only the program prints.
#[test]
fn only_the_program_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for (crate_name, _) in OURS.iter().filter(|(name, _)| *name != "cli") {
        for file in rust_files(&root.join(crate_name).join("src")) {
            let text = std::fs::read_to_string(&file).expect("a source file");
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            for (number, line) in code.enumerate() {
                for word in
                    ["println!", "eprintln!", "print!(", "std::process::exit", "io::stdout()"]
                {
                    assert!(!line.contains(word), "{}: {number}: {line}", file.display());
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 30, "only {seen} files");
}

pub(crate) fn rust_files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files
}
