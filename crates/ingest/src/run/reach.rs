//! The files that are read as part of a run: a file that is written there changes the run.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::Error;
use crate::input::limits::HEAD_BYTES;
use crate::input::location::Location;
use crate::input::pattern::Pattern;
use crate::input::storage::{File, Folder, Place};
use crate::options::Options;
use crate::run::discover::{self, DiscoveredFiles, FoundRun};

/// The beginning of any trace that this program writes.
const TRACE_HEAD: &[u8] = b"{\"traceEvents\": [";

/// The files that are read as part of a run on this machine.
#[derive(Debug)]
pub struct RunReach {
    run: Location,
    /// `None` for a run that no file can be added to: one file, an export, or a run in a store.
    folder: Option<SearchedFolder>,
}

#[derive(Debug)]
struct SearchedFolder {
    /// Without links.
    root: PathBuf,
    pattern: Option<Pattern>,
    found: DiscoveredFiles,
}

impl RunReach {
    /// Lists the folders of a run, if an output at `to`, or at paths below it, may be in one of them.
    ///
    /// # Errors
    /// If `to` cannot be resolved.
    pub fn of(run: &Location, to: &Path) -> Result<Self, Error> {
        let mut reach = Self { run: run.clone(), folder: None };
        if !run.is_local() {
            return Ok(reach);
        }
        // What cannot be listed is not read.
        let Ok(Place::Folder(Folder::Local(path))) = run.place(&Options::default()) else {
            return Ok(reach);
        };
        let Ok(root) = path.canonicalize() else { return Ok(reach) };
        let to = resolve_folder(to).map_err(|e| Error::write(to, e))?;
        if !to.starts_with(&root) && !root.starts_with(&to) {
            return Ok(reach);
        }
        let Ok(FoundRun { files: found, .. }) = discover::find(run, &Options::default()) else {
            return Ok(reach);
        };
        if found.export.is_none() {
            reach.folder = Some(SearchedFolder { root, pattern: run.pattern().cloned(), found });
        }
        Ok(reach)
    }

    /// Returns an error if a trace at `to` would be read as part of the run.
    ///
    /// # Errors
    /// As described, or if `to` cannot be resolved.
    pub fn refuse_trace(&self, to: &Path) -> Result<(), Error> {
        self.refuse(to, TRACE_HEAD.to_vec())
    }

    /// Returns an error if the content of a file would be read as part of the run once the file is called `to`.
    ///
    /// # Errors
    /// As described, or if `to` cannot be resolved or `content` cannot be read.
    pub fn refuse_content(&self, to: &Path, content: &Path) -> Result<(), Error> {
        if self.folder.is_none() {
            return Ok(());
        }
        let head = File::Local(content.to_owned()).head(HEAD_BYTES);
        self.refuse(to, head.map_err(|e| Error::read(content, e))?)
    }

    fn refuse(&self, to: &Path, head: Vec<u8>) -> Result<(), Error> {
        let Some(SearchedFolder { root, pattern, found }) = &self.folder else { return Ok(()) };
        let resolved = resolve_folder(to).map_err(|e| Error::write(to, e))?;
        let Ok(name) = resolved.strip_prefix(root) else { return Ok(()) };
        let name = name.to_string_lossy().replace('\\', "/");
        let is_selected = pattern.as_ref().is_none_or(|pattern| pattern.matches(&name));
        if is_selected && found.would_include(&name, head) {
            return Err(Error::PartOfRun { path: to.to_owned(), run: self.run.to_string() });
        }
        Ok(())
    }
}

/// Returns whether an output at `to` would be in a folder, or at any depth below it.
///
/// # Errors
/// If one of the paths cannot be resolved.
pub fn is_below(to: &Path, folder: &Path) -> io::Result<bool> {
    Ok(resolve_folder(to)?.starts_with(folder.canonicalize()?))
}

/// The path without links in its folders, which need not exist. The last part stays: a link there is replaced.
fn resolve_folder(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut resolved = PathBuf::new();
    let mut parts = absolute.components().peekable();
    while let Some(part) = parts.next() {
        match part {
            Component::CurDir => {}
            // `resolved` has no links, so that this is the folder that the system goes to.
            Component::ParentDir => {
                resolved.pop();
            }
            part => {
                resolved.push(part);
                if parts.peek().is_some()
                    && let Ok(real) = resolved.canonicalize()
                {
                    resolved = real;
                }
            }
        }
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TRACE: &str = r#"{"schemaVersion": 1, "traceEvents": []}"#;

    /// Whether a trace at each of these paths would be part of the run.
    fn refused<const N: usize>(run: &Path, files: [&str; N]) -> [bool; N] {
        let run_at = Location::parse(run).unwrap();
        let place = run.parent().unwrap();
        files.map(|file| {
            let to = place.join(file);
            match RunReach::of(&run_at, &to).and_then(|reach| reach.refuse_trace(&to)) {
                Ok(()) => false,
                Err(Error::PartOfRun { .. }) => true,
                Err(error) => panic!("{error}"),
            }
        })
    }

    #[test]
    fn refuse_follows_the_search_of_the_reader() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        fs::create_dir_all(place.path().join("other")).unwrap();
        fs::create_dir(&run).unwrap();
        fs::write(run.join("rank0.json"), TRACE).unwrap();
        let files = [
            "run/merged.json",
            "run/merged.txt",
            "other/../run/./merged.json",
            "new/../run/merged.json",
            "merged.json",
            "run/new/merged.json",
            "run/new/capture.json",
        ];
        assert_eq!(refused(&run, files), [true, true, true, true, false, false, true]);
        let pattern = run.join("rank*.json");
        let place = |file: &str| format!("../{file}");
        let files = ["run/rank1.json", "run/merged.json"].map(place);
        assert_eq!(refused(&pattern, [&files[0], &files[1]]), [true, false]);
        assert_eq!(refused(&run.join("rank0.json"), ["merged.json"]), [false]);

        // Without a trace on top, folders are searched for all that a run may hold.
        fs::create_dir(run.join("traces")).unwrap();
        fs::rename(run.join("rank0.json"), run.join("traces/rank0.json")).unwrap();
        let files = ["run/merged.json", "run/new/merged.json", "run/a/b/c/d/merged.json"];
        assert_eq!(refused(&run, files), [true, true, false]);
    }

    #[test]
    #[cfg(unix)]
    fn refuse_sees_through_links() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        fs::create_dir_all(run.join("plots")).unwrap();
        fs::write(run.join("rank0.json"), TRACE).unwrap();
        std::os::unix::fs::symlink(&run, place.path().join("link")).unwrap();
        std::os::unix::fs::symlink(run.join("plots"), place.path().join("plots")).unwrap();
        let files = ["link/merged.json", "plots/../merged.json", "plots/merged.json"];
        assert_eq!(refused(&run, files), [true, true, false]);
        assert_eq!(refused(&place.path().join("link"), ["run/merged.json"]), [true]);
    }

    #[test]
    fn refuse_content_looks_at_what_was_written() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        fs::create_dir(&run).unwrap();
        fs::write(run.join("rank0.json"), TRACE).unwrap();
        let reach = RunReach::of(&Location::parse(&run).unwrap(), place.path()).unwrap();
        let content = place.path().join("content");
        for (text, is_read) in [
            (r#"{"schema_version": 1, "findings": []}"#, false),
            (r#"[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]"#, true),
            ("<!doctype html><title>report</title>", false),
            (
                "name,dur_ns
a,1
",
                false,
            ),
        ] {
            fs::write(&content, text).unwrap();
            let refused = reach.refuse_content(&run.join("x.json"), &content).is_err();
            assert_eq!(refused, is_read, "{text}");
            assert!(reach.refuse_content(&place.path().join("x.json"), &content).is_ok());
        }
    }
}
