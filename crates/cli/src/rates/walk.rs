//! Finds the runs below a directory.

use std::io;
use std::path::{Path, PathBuf};

/// Directories that trainers create inside the directory of a run, one per kind of file.
const RUN_PARTS: [&str; 2] = ["composer_profiler", "torch_profiler"];

/// The directories from `root` down that are a run, ordered by path. A run contains traces, or the directories
/// into which a trainer sorts them; everything below a run is part of it.
pub fn runs_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut runs = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut below = Vec::new();
        let mut is_run = false;
        for entry in folder.read_dir()? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                is_run |= RUN_PARTS.contains(&&*name);
                below.push(path);
            } else {
                is_run |= [".json", ".json.gz", ".jsonl"].iter().any(|end| name.ends_with(end));
            }
        }
        if is_run {
            runs.push(folder);
        } else {
            folders.extend(below);
        }
    }
    runs.sort();
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::runs_below;

    #[test]
    fn runs_below_stops_at_directories_with_traces() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "a/rank0.json.gz",
            "a/old/rank0.json",
            "b/c/composer_profiler/ep0-ba1-rank0.json",
            "b/c/torch_profiler/rank0.json",
            "b/notes.txt",
            "d/metrics.jsonl",
        ] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let runs = runs_below(root.path()).unwrap();
        let names: Vec<_> = runs.iter().map(|r| r.strip_prefix(root.path()).unwrap()).collect();
        assert_eq!(
            names.iter().map(|n| n.to_str().unwrap()).collect::<Vec<_>>(),
            ["a", "b/c", "d"]
        );
    }
}
