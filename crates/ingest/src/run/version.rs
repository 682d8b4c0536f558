//! Versions of files, and of a run as a whole: what tells that they have changed.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::discover::{self, InputFile};
use crate::error::Error;
use crate::input::location::Location;
use crate::options::Options;

/// A version of a file. Another file with the same name is another version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct FileVersion {
    /// Path relative to the run.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// Time of the last change, or the version identifier of the store.
    version: String,
}

impl FileVersion {
    /// The current version of a file of a run.
    ///
    /// # Errors
    /// If it cannot be accessed.
    pub(crate) fn of(file: &InputFile) -> Result<Self, Error> {
        let read_error = |e| Error::read(&file.file, e);
        let version = file.stored.version().map_err(read_error)?;
        let bytes = file.stored.bytes().map_err(read_error)?;
        Ok(Self { file: file.file.clone(), bytes, version })
    }
}

/// A text that differs if files that belong to a run are added, removed or changed: a digest of their names, lengths, and
/// times of the last change or identifiers of the store. Only the first bytes of files are read, to tell their formats.
///
/// # Errors
/// If the location cannot be read, or holds no trace.
pub fn run_version(run: &Location, options: &Options) -> Result<String, Error> {
    let found = discover::find(run, options)?.files;
    let mut digest = Sha256::new();
    for file in &found.traces {
        let FileVersion { file, bytes, version } = FileVersion::of(file)?;
        digest.update(format!("{file}\0{bytes}\0{version}\0"));
    }
    if let Some((_, manifest)) = &found.export {
        digest.update(manifest.version().map_err(|e| Error::read(run.to_string(), e))?);
    }
    Ok(format!("{:x}", digest.finalize()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::run_version;
    use crate::{Location, Options};

    #[test]
    fn run_version_changes_with_the_files_of_the_run() {
        const TRACE: &str = r#"{"traceEvents": []}"#;
        let folder = tempfile::tempdir().unwrap();
        let run = Location::parse(folder.path()).unwrap();
        let version = || run_version(&run, &Options::default());
        assert!(version().is_err(), "there is no trace");
        fs::write(folder.path().join("rank0.pt.trace.json"), TRACE).unwrap();
        let one = version().unwrap();
        fs::write(folder.path().join("notes.txt"), "not a part of the run").unwrap();
        assert_eq!(version().unwrap(), one);
        fs::write(folder.path().join("rank1.pt.trace.json"), TRACE).unwrap();
        let two = version().unwrap();
        fs::write(folder.path().join("rank1.pt.trace.json"), format!("{TRACE}\n")).unwrap();
        let longer = version().unwrap();
        assert!(one != two && two != longer);
    }
}
