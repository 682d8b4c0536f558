//! The runs below a folder.

use std::io;
use std::path::{Path, PathBuf};

/// Folders that trainers make inside that of a run, one a kind of file.
const PARTS: [&str; 2] = ["composer_profiler", "torch_profiler"];

/// The folders from `root` down that are a run: with traces in them, or with the folders into which a trainer
/// sorts them. What is below a run is part of it. Ordered by path.
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
                is_run |= PARTS.contains(&&*name);
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
    fn a_run_is_a_folder_with_traces_and_what_is_below() {
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
