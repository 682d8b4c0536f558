//! A folder that several processes write to at the same time, on this machine or in a store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use private_files::Access;

#[cfg(feature = "cloud")]
use super::work_folder::TemporaryFolder;
use super::work_folder::WorkFolder;
use crate::error::Error;
use crate::input::location::Location;
#[cfg(feature = "cloud")]
use crate::input::remote;
use crate::input::storage::Folder;

/// Name of the content in a work folder.
const CONTENT: &str = "content";

/// A folder to write to.
#[derive(Debug)]
pub(crate) enum Destination {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Remote(remote::Folder),
}

/// Where the content of a folder is written before it is published. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Draft {
    content: PathBuf,
    access: Access,
    _work: Work,
}

#[derive(Debug)]
enum Work {
    /// Beside its destination, so that it can be renamed.
    Beside { _folder: WorkFolder },
    /// In the temporary directory, from where it is uploaded.
    #[cfg(feature = "cloud")]
    Temporary { _folder: TemporaryFolder },
}

impl Draft {
    /// The folder to write to. It exists.
    pub(crate) fn path(&self) -> &Path {
        &self.content
    }

    /// Who may access what is written there.
    pub(crate) fn access(&self) -> Access {
        self.access
    }
}

impl Destination {
    /// The folder at a location; created if it is on this machine.
    pub(crate) fn at(location: &Location, timeout: Option<Duration>) -> Result<Self, Error> {
        match location.folder(timeout)? {
            Folder::Local(path) => {
                Access::Umask.create_folders(&path).map_err(|e| Error::write(&path, e))?;
                Ok(Self::Local(path))
            }
            #[cfg(feature = "cloud")]
            Folder::Remote(folder) => Ok(Self::Remote(folder)),
        }
    }

    /// The same folder for reading.
    pub(crate) fn folder(&self) -> Folder {
        match self {
            Self::Local(path) => Folder::Local(path.clone()),
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => Folder::Remote(folder.clone()),
        }
    }

    /// Begins a folder.
    pub(crate) fn draft(&self) -> Result<Draft, Error> {
        let (root, work, access) = match self {
            Self::Local(path) => {
                let folder = WorkFolder::create_in(path).map_err(|e| Error::write(path, e))?;
                (folder.path().to_owned(), Work::Beside { _folder: folder }, Access::Umask)
            }
            #[cfg(feature = "cloud")]
            Self::Remote(_) => {
                let folder = TemporaryFolder::create()?;
                (folder.path().to_owned(), Work::Temporary { _folder: folder }, Access::Owner)
            }
        };
        let content = root.join(CONTENT);
        access.create_folder(&content).map_err(|e| Error::write(&content, e))?;
        Ok(Draft { content, access, _work: work })
    }

    /// Gives a folder its name. `manifest`, the name of a file and its text, completes it: without that file, the folder does
    /// not count. If another process has published the folder, that one stays.
    pub(crate) fn publish(
        &self,
        draft: &Draft,
        name: &str,
        manifest: (&str, &str),
    ) -> Result<(), Error> {
        let (manifest, text) = manifest;
        match self {
            Self::Local(path) => {
                let file = draft.path().join(manifest);
                let written = draft.access.write_file(&file, text.as_bytes());
                written.map_err(|e| Error::write(&file, e))?;
                let to = path.join(name);
                match fs::rename(draft.path(), &to) {
                    // A folder that is not empty is not replaced.
                    Err(_) if to.join(manifest).is_file() => Ok(()),
                    renamed => renamed.map_err(|e| Error::write(&to, e)),
                }
            }
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => {
                let files = files_below(draft.path()).map_err(|e| Error::write(draft.path(), e))?;
                let files =
                    files.into_iter().map(|(below, path)| (format!("{name}/{below}"), path));
                folder.upload(files.collect())?;
                folder.create(&format!("{name}/{manifest}"), text.as_bytes().to_vec())
            }
        }
    }
}

/// The files below a folder, by their paths relative to it, with `/`; sorted.
#[cfg_attr(not(feature = "cloud"), allow(dead_code, reason = "only stores need it"))]
fn files_below(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let below = files_below(&entry.path())?;
            files.extend(below.into_iter().map(|(file, path)| (format!("{name}/{file}"), path)));
        } else {
            files.push((name, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}
