//! Dependencies between crates: the table of ARCHITECTURE.md against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Our crates, with those of ours that they may use.
const OURS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("private-files", &[]),
    ("trace-model", &[]),
    ("ingest", &["private-files", "trace-model"]),
    ("query", &["private-files", "trace-model"]),
    ("what-if", &["trace-model", "query"]),
    ("analyses", &["trace-model", "query", "what-if"]),
    ("compare", &["trace-model", "query"]),
    ("advisor", &["trace-model"]),
    (
        "trace-advisor",
        &["trace-model", "ingest", "query", "what-if", "analyses", "compare", "advisor"],
    ),
    ("trace-demo", &["ingest"]),
    ("page", &["trace-advisor"]),
    ("cli", &["allocator", "private-files", "trace-advisor", "trace-demo", "page"]),
    ("python", &["trace-advisor", "page", "cli"]),
    ("cluster", &["trace-advisor", "page"]),
    // Exercises everything that reads untrusted input. Without default features, it builds without the query engine.
    ("fuzz-targets", &["trace-model", "ingest", "advisor", "trace-advisor", "cli"]),
];

/// Third-party crates that only some of ours may name.
const GUARDED: &[(&str, &[&str])] = &[
    // `cluster` hands plans to Ballista.
    ("datafusion", &["query", "cluster"]),
    ("datafusion-proto", &["query", "cluster"]),
    ("prost", &["query", "cluster", "ingest"]),
    ("ballista-core", &["cluster"]),
    ("ballista-executor", &["cluster"]),
    ("ballista-scheduler", &["cluster"]),
    ("tonic", &["cluster"]),
    // `query` runs DataFusion on it, `ingest` reads object stores, `cli` serves one file.
    ("tokio", &["query", "ingest", "cli", "cluster"]),
    ("object_store", &["ingest"]),
    ("hyper", &["cli"]),
    ("parquet", &["ingest"]),
    ("rusqlite", &["ingest"]),
    ("minijinja", &["advisor"]),
    ("schemars", &["advisor"]),
    // `advisor`, `trace-demo`: optional, derives `ValueEnum` for options of the command line.
    ("clap", &["advisor", "trace-demo", "cli", "cluster"]),
    ("pyo3", &["python"]),
    ("anyhow", &["cli", "python", "cluster"]),
    ("anstream", &["cli"]),
    ("annotate-snippets", &["cli"]),
    ("comfy-table", &["cli"]),
    ("ctrlc", &["cli"]),
    ("indicatif", &["cli"]),
    ("rustyline", &["cli"]),
    // `query`: for a feature, see its Cargo.toml.
    ("libc", &["allocator", "query"]),
    ("mimalloc", &["allocator"]),
    ("nix", &["cli"]),
    ("signal-hook", &["cli"]),
];

/// Crates that are not published. All others are: the facade and the program depend on them.
const NOT_PUBLISHED: &[&str] = &["cluster", "fuzz-targets", "python"];

/// Files of `ingest` that may name the modules of Kineto, below `src/`: the list of formats, the fallback for files of no known
/// format, Composer, whose files are Chrome traces, Perfetto, whose events are converted to Chrome trace events, and the code
/// that copies parts of Chrome traces.
const USERS_OF_KINETO: &[&str] = &[
    "formats/composer/",
    "formats/kineto/",
    "formats/mod.rs",
    "formats/perfetto/",
    "formats/recognize.rs",
    "trace_writer/",
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
fn published_crates_depend_on_published_crates_only() {
    let packages = metadata().packages;
    for package in &packages {
        let is_published = package.publish.is_none();
        let is_declared = !NOT_PUBLISHED.contains(&package.name.as_str());
        assert_eq!(is_published, is_declared, "{}: `publish` in its Cargo.toml", package.name);
    }
    for (name, edges) in edges() {
        if !NOT_PUBLISHED.contains(&name.as_str()) {
            let missing = edges.iter().find(|used| NOT_PUBLISHED.contains(&used.as_str()));
            assert_eq!(missing, None, "{name} is published");
        }
    }
    let architecture = include_str!("../../ARCHITECTURE.md");
    for (name, _) in OURS {
        assert!(architecture.contains(&format!("\n| `{name}` |")), "{name} in ARCHITECTURE.md");
    }
}

/// A format is known to its own folder and to the list of formats.
#[test]
fn kineto_is_one_format_among_many() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/src");
    let mut users = 0;
    for file in rust_files(&root) {
        let below = file.strip_prefix(&root).expect("a file of ingest");
        let below = below.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&file).expect("a source file");
        if text.contains("kineto::") {
            users += 1;
            let may = USERS_OF_KINETO.iter().any(|user| below.starts_with(user));
            assert!(may, "{below} names modules of Kineto: use `timeline` instead");
        }
    }
    assert!(users > 0, "no file names modules of Kineto: the test looks for the wrong text");
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

/// Libraries return data; only the programs print.
#[test]
fn only_the_programs_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for (crate_name, _) in OURS.iter().filter(|(name, _)| !["cli", "cluster"].contains(name)) {
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
