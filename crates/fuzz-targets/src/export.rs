//! Target for exports with one modified file. The first byte selects the file, and the others are its content.

use std::path::Path;
use std::sync::LazyLock;

use ingest::{Location, NoProgress, Options};
use trace_model::Dataset;

use crate::seeds::Seed;
use crate::tables::{assert_same, folder, read};

/// An intact export.
struct Export {
    /// Paths and contents of its files, sorted by path.
    files: Vec<(String, Vec<u8>)>,
    dataset: Dataset,
}

static EXPORT: LazyLock<Export> = LazyLock::new(|| {
    let trace = include_bytes!("../../../fuzz/seeds/kineto/training.json");
    let run = folder(&[("trace.json", trace)]);
    let to = run.path().join("export");
    let location = Location::parse(run.path().join("trace.json")).expect("a path");
    ingest::export(&location, &Options::default(), &to, false, &NoProgress).expect("an export");
    let mut files = Vec::new();
    collect(&to, &to, &mut files);
    files.sort();
    Export { files, dataset: read(&to).expect("a sound export") }
});

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in folder.read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path.strip_prefix(root).expect("a path below").to_string_lossy();
            files.push((name.into_owned(), std::fs::read(&path).expect("a file")));
        }
    }
}

/// The manifest and some of the tables.
pub(crate) fn seeds() -> Vec<Seed> {
    let files = EXPORT.files.iter().enumerate();
    let chosen = files.filter(|(at, (name, _))| at % 8 == 0 || name == "run.json");
    let seed = |(at, (name, bytes)): (usize, &(String, Vec<u8>))| {
        let bytes = [&[at as u8], bytes.as_slice()].concat();
        Seed { name: name.clone(), bytes }
    };
    chosen.map(seed).collect()
}

/// Panics if the export is read with different content. Without a manifest that says so, the files are no export.
pub(crate) fn run(bytes: &[u8]) {
    let Some((&at, content)) = bytes.split_first() else { return };
    let changed = at as usize % EXPORT.files.len();
    let files = EXPORT.files.iter().enumerate();
    let files = files.map(|(at, (name, bytes))| {
        (name.as_str(), if at == changed { content } else { bytes.as_slice() })
    });
    let export = folder(&files.collect::<Vec<_>>());
    let is_export = EXPORT.files[changed].0 != "run.json"
        || content.starts_with(br#"{"format":"trace-advisor export""#);
    if let Some(dataset) = read(export.path())
        && is_export
    {
        assert_same(&dataset, &EXPORT.dataset);
    }
}
