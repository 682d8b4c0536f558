//! The output folder of an export, which has another name until it is complete. A lock on a file in it shows that its
//! process is alive; the next export to the same place removes what dead processes left.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::{self, Manifest};
use crate::error::Error;

/// A folder under construction; removed unless it is completed.
#[derive(Debug)]
pub(super) struct Folder {
    to: PathBuf,
    partial: PathBuf,
    /// Locked until the folder is complete.
    lock: Option<File>,
    is_complete: bool,
}

impl Folder {
    /// Creates a folder next to `to`, which must not exist, be an empty folder or, with `overwrite`, an export.
    pub(super) fn create(to: &Path, overwrite: bool) -> Result<Self, Error> {
        check(to, overwrite)?;
        let to = std::path::absolute(to).map_err(|e| Error::write(to, e))?;
        let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
            return Err(Error::Occupied { path: to });
        };
        fs::create_dir_all(parent).map_err(|e| Error::write(parent, e))?;
        // What cannot be removed is in nobody's way.
        for partial in partial_folders(&to) {
            let _ = remove_if_abandoned(&partial);
        }
        let pid = std::process::id();
        let mut number = 0;
        loop {
            let mut name = partial_prefix(name);
            name.push(format!("{pid}-{number}"));
            let partial = parent.join(name);
            match fs::create_dir(&partial) {
                Ok(()) => {
                    let lock = File::create(partial.join(LOCK)).ok();
                    let lock = lock.filter(|file| file.try_lock().is_ok());
                    return Ok(Self { to, partial, lock, is_complete: false });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(Error::write(partial, e)),
            }
        }
    }

    /// The folder to write to until the export is complete.
    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes the manifest, and gives the folder its name.
    pub(super) fn complete(mut self, manifest: &Manifest, overwrite: bool) -> Result<(), Error> {
        let file = self.partial.join(manifest::FILE);
        let text = manifest.to_text().map_err(io::Error::other);
        text.and_then(|text| fs::write(&file, text)).map_err(|e| Error::write(&file, e))?;
        drop(self.lock.take());
        let lock = self.partial.join(LOCK);
        if lock.exists() {
            fs::remove_file(&lock).map_err(|e| Error::write(&lock, e))?;
        }
        check(&self.to, overwrite)?;
        let mut old = self.partial.clone().into_os_string();
        old.push(".old");
        let old = PathBuf::from(old);
        let write_error = |e| Error::write(&self.to, e);
        let had_one = self.to.exists();
        if had_one {
            fs::rename(&self.to, &old).map_err(write_error)?;
        }
        if let Err(error) = fs::rename(&self.partial, &self.to) {
            if had_one {
                // The first error is the one to report.
                let _ = fs::rename(&old, &self.to);
            }
            return Err(write_error(error));
        }
        self.is_complete = true;
        if had_one {
            fs::remove_dir_all(&old).map_err(|e| Error::write(&old, e))?;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_complete {
            drop(self.lock.take());
            // An error is being reported already.
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// File in an incomplete export that its process locks.
const LOCK: &str = "lock";

/// Beginning of the names of incomplete exports to a folder of this name.
fn partial_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".partial-");
    prefix
}

/// The incomplete exports to a folder.
fn partial_folders(to: &Path) -> Vec<PathBuf> {
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else { return Vec::new() };
    let prefix = partial_prefix(name);
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names
        .filter(|name| name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes()))
        .map(|name| parent.join(name))
        .collect()
}

/// Removes an incomplete export whose process is gone. Without a lock file there is no telling.
fn remove_if_abandoned(partial: &Path) -> io::Result<()> {
    let lock = File::open(partial.join(LOCK))?;
    lock.try_lock()?;
    fs::remove_dir_all(partial)
}

/// Removes what this process has written of exports to a folder, for a program that is about to end.
pub fn remove_partial_exports(to: &Path) {
    let Ok(to) = std::path::absolute(to) else { return };
    let Some(name) = to.file_name() else { return };
    let mut prefix = partial_prefix(name);
    prefix.push(format!("{}-", std::process::id()));
    for partial in partial_folders(&to) {
        let is_ours = |name: &OsStr| name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        if partial.file_name().is_some_and(is_ours) {
            // Other threads may be adding files to it.
            let _ = (0..10).find(|_| fs::remove_dir_all(&partial).is_ok());
        }
    }
}

/// Returns an error if an export must not be written to `to`.
fn check(to: &Path, overwrite: bool) -> Result<(), Error> {
    let first = match fs::read_dir(to) {
        Ok(mut entries) => entries.next(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(Error::Occupied { path: to.to_owned() });
        }
        Err(e) => return Err(Error::write(to, e)),
    };
    if first.is_none() {
        return Ok(());
    }
    let head = crate::input::storage::File::Local(to.join(manifest::FILE)).head(100);
    let is_export = head.is_ok_and(|head| manifest::is_manifest(manifest::FILE, &head));
    match (is_export, overwrite) {
        (true, true) => Ok(()),
        (true, false) => Err(Error::Exists { path: to.to_owned(), is_source: false }),
        (false, _) => Err(Error::Occupied { path: to.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_removes_only_abandoned_exports_to_the_same_folder() {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("run.pq");
        let make = |name: &str| {
            let folder = place.path().join(name);
            fs::create_dir(&folder).unwrap();
            File::create(folder.join(LOCK)).unwrap();
            folder
        };
        let abandoned = make(".run.pq.partial-1-0");
        let of_another = make(".other.pq.partial-1-0");
        let alive = make(".run.pq.partial-2-0");
        let lock = File::open(alive.join(LOCK)).unwrap();
        lock.lock().unwrap();

        let folder = Folder::create(&to, false).unwrap();
        let partial = folder.path().to_owned();
        let exist = |paths: [&PathBuf; 4]| paths.map(|path| path.exists());
        assert_eq!(exist([&abandoned, &of_another, &alive, &partial]), [false, true, true, true]);
        // Another export at the same time leaves it alone.
        let other = Folder::create(&to, false).unwrap();
        assert!(partial.exists() && other.path() != partial);

        remove_partial_exports(&to);
        assert_eq!(exist([&of_another, &alive, &partial, &to]), [true, true, false, false]);
    }
}
