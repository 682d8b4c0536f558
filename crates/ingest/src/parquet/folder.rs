//! The output folder of an export, which has another name until it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::{self, Manifest};
use crate::error::Error;

/// A folder under construction; removed unless it is completed.
#[derive(Debug)]
pub(super) struct Folder {
    to: PathBuf,
    partial: PathBuf,
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
        let pid = std::process::id();
        let mut number = 0;
        loop {
            let name = format!(".{}.partial-{pid}-{number}", name.display());
            let partial = parent.join(name);
            match fs::create_dir(&partial) {
                Ok(()) => return Ok(Self { to, partial, is_complete: false }),
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
            // An error is being reported already.
            let _ = fs::remove_dir_all(&self.partial);
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
