//! Finds the corpus of real traces and reference numbers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of the corpus: `ADVISOR_CORPUS`, or `shared` beside the repository. `None` if neither exists.
///
/// # Panics
/// If `ADVISOR_CORPUS` is set and does not hold traces: a typo must not turn tests off.
pub(crate) fn find() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "the one place where tests read it")]
    let set = std::env::var("ADVISOR_CORPUS").ok();
    let path = set.as_ref().map_or_else(default_folder, PathBuf::from);
    if path.join("traces").is_dir() {
        return Some(path);
    }
    assert!(set.is_none(), "ADVISOR_CORPUS={} does not hold traces", path.display());
    None
}

/// The folder of the corpus.
///
/// # Panics
/// If there is no corpus.
pub(crate) fn corpus() -> PathBuf {
    find().unwrap_or_else(|| {
        let path = default_folder();
        panic!("there is no corpus at {}: set ADVISOR_CORPUS to its folder", path.display())
    })
}

fn default_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")
}

/// Every folder that holds a trace, by path.
pub(crate) fn runs(traces: &Path) -> Vec<PathBuf> {
    let mut runs = Vec::new();
    let mut folders = vec![traces.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries: Vec<PathBuf> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let is_trace = |path: &PathBuf| {
            let name = path.to_string_lossy();
            path.is_file() && (name.ends_with(".json") || name.ends_with(".json.gz"))
        };
        if entries.iter().any(is_trace) {
            runs.push(folder);
        }
        folders.extend(entries.into_iter().filter(|path| path.is_dir()));
    }
    runs.sort();
    runs
}

/// Traces with the folders of what Holistic Trace Analysis computed on them, the unrounded one where
/// there is one.
pub(crate) fn goldens(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for kind in ["hta", "hta_exact"] {
        for group in ["", "generated/"] {
            let Ok(folder) = std::fs::read_dir(root.join(kind).join(group)) else { continue };
            for entry in folder.map(Result::unwrap) {
                if entry.path().join("load_info.json").is_file() {
                    let name = entry.file_name().into_string().unwrap();
                    found.insert(format!("{group}{name}"), entry.path());
                }
            }
        }
    }
    found
}
