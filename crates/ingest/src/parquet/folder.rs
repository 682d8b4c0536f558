//! The output folder of an export, which is written in a work folder until it is complete. It replaces an earlier export
//! at once, and only if that holds nothing else.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use private_files::Access;

use super::bounds;
use super::manifest::{self, Manifest};
use crate::error::{Error, ExportProblem};
use crate::output::work_folder::WorkFolder;

/// Name of the export in its work folder.
const CONTENT: &str = "export";

/// A folder under construction; removed unless it is completed.
#[derive(Debug)]
pub(crate) struct Folder {
    to: PathBuf,
    /// The destination as given, for messages.
    given: PathBuf,
    content: PathBuf,
    access: Access,
    work: WorkFolder,
}

impl Folder {
    /// Creates a folder beside `to`, which must not exist, be an empty folder or, with `overwrite`, an export. It
    /// may be accessed as `access` says.
    pub(crate) fn create(to: &Path, overwrite: bool, access: Access) -> Result<Self, Error> {
        let given = to.to_owned();
        let write_error = |e| Error::write(&given, e);
        // Without a slash at the end, which would follow a link.
        let to: PathBuf = std::path::absolute(to).map_err(write_error)?.components().collect();
        check(&to, &given, overwrite)?;
        let Some(parent) = to.parent() else { return Err(Error::Occupied { path: given }) };
        access.create_folders(parent).map_err(|e| Error::write(parent, e))?;
        let work = WorkFolder::create_in(parent).map_err(write_error)?;
        let content = work.path().join(CONTENT);
        access.create_folder(&content).map_err(write_error)?;
        Ok(Self { to, given, content, access, work })
    }

    /// The folder to write to until the export is complete.
    pub(crate) fn path(&self) -> &Path {
        &self.content
    }

    /// Who may access what is written there.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Writes the manifest, and gives the folder its name.
    pub(crate) fn complete(self, manifest: &Manifest, overwrite: bool) -> Result<(), Error> {
        let file = self.content.join(manifest::FILE);
        let text = manifest.to_text().map_err(io::Error::other);
        let written = text.and_then(|text| self.access.write_file(&file, text.as_bytes()));
        written.map_err(|e| Error::write(&file, e))?;
        check(&self.to, &self.given, overwrite)?;
        let write_error = |e| Error::write(&self.given, e);
        let Ok(old) = fs::symlink_metadata(&self.to) else {
            return fs::rename(&self.content, &self.to).map_err(write_error);
        };
        if self.access == Access::Umask {
            fs::set_permissions(&self.content, old.permissions()).map_err(write_error)?;
        }
        if !exchange(&self.content, &self.to).map_err(write_error)? {
            return self.replace_in_steps(overwrite);
        }
        // Something may have been added to the old one before it was out of reach.
        check(&self.content, &self.given, overwrite).inspect_err(|_| {
            // The first error is the one to report.
            let _ = exchange(&self.content, &self.to);
        })
    }

    /// Replaces the old folder where the system cannot do it at once. Between the steps, the old one has a name that says
    /// what it is, and that nothing removes.
    fn replace_in_steps(&self, overwrite: bool) -> Result<(), Error> {
        let write_error = |e| Error::write(&self.given, e);
        let mut name = OsString::from(self.to.file_name().unwrap_or_default());
        name.push(format!(".previous-{}", self.work.id()));
        let previous = self.to.with_file_name(name);
        fs::rename(&self.to, &previous).map_err(write_error)?;
        let checked = check(&previous, &self.given, overwrite);
        let replaced =
            checked.and_then(|()| fs::rename(&self.content, &self.to).map_err(write_error));
        // The old one goes where it is removed with the work folder, or back.
        let then = if replaced.is_ok() { &self.content } else { &self.to };
        let moved = fs::rename(&previous, then);
        replaced.and_then(|()| moved.map_err(|e| Error::write(&previous, e)))
    }
}

/// Exchanges two folders at once. Returns false if the system or the file system cannot.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
fn exchange(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns an error if an export must not take the place of `folder`, which is called `to`.
fn check(folder: &Path, to: &Path, overwrite: bool) -> Result<(), Error> {
    let path = || to.to_owned();
    let error = |e| Error::write(to, e);
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(meta) if meta.is_symlink() => return Err(Error::Link { path: path(), is_folder: true }),
        Ok(_) => return Err(Error::Occupied { path: path() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(error(e)),
    }
    if folder.read_dir().map_err(error)?.next().is_none() {
        return Ok(());
    }
    let manifest = folder.join(manifest::FILE);
    let meta = fs::symlink_metadata(&manifest).ok().filter(fs::Metadata::is_file);
    let head = || crate::input::storage::File::Local(manifest.clone()).head(100);
    let is_export = || head().is_ok_and(|head| manifest::is_manifest(manifest::FILE, &head));
    let Some(meta) = meta.filter(|_| is_export()) else {
        return Err(Error::Occupied { path: path() });
    };
    if !overwrite {
        return Err(Error::Exists { path: path(), is_source: false });
    }
    let damaged = |reason: String| Error::Export {
        path: to.display().to_string(),
        problem: ExportProblem::Unnamed(reason),
    };
    if meta.len() > bounds::MAX_BYTES {
        return Err(damaged(format!("{} is far too long", manifest::FILE)));
    }
    let text = fs::read(&manifest).map_err(error)?;
    let files = manifest::partition_files(&text).map_err(|e| damaged(e.to_string()))?;
    let others = others(folder, &files).map_err(error)?;
    if others.is_empty() { Ok(()) } else { Err(Error::OtherFiles { path: path(), others }) }
}

/// What a folder holds besides the manifest and these files, sorted. A link is never a file of an export.
fn others(folder: &Path, files: &BTreeSet<String>) -> io::Result<Vec<String>> {
    let tables: BTreeSet<&str> = files.iter().filter_map(|file| file.split('/').next()).collect();
    let mut others = Vec::new();
    for entry in folder.read_dir()? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type()?;
        if kind.is_dir() && tables.contains(&*name) {
            for entry in entry.path().read_dir()? {
                let entry = entry?;
                let file = format!("{name}/{}", entry.file_name().to_string_lossy());
                if !entry.file_type()?.is_file() || !files.contains(&file) {
                    others.push(file);
                }
            }
        } else if !kind.is_file() || name != manifest::FILE {
            others.push(name);
        }
    }
    others.sort();
    Ok(others)
}

#[cfg(test)]
mod tests {
    use trace_model::RunInfo;

    use super::*;
    use crate::parquet::manifest::Partition;

    fn manifest(rank: i32) -> Manifest {
        let partition = Partition {
            table: "kernels".to_owned(),
            rank: Some(rank),
            rows: 1,
            bytes: 2,
            memory_bytes: 3,
            crc32: 4,
        };
        Manifest::new(&RunInfo::default(), &[], vec![partition])
    }

    /// An export with the kernels of this rank.
    fn begin(to: &Path, rank: i32) -> Folder {
        let folder = Folder::create(to, true, Access::Umask).unwrap();
        let table = folder.path().join("kernels");
        fs::create_dir(&table).unwrap();
        fs::write(table.join(format!("rank-0000{rank}.parquet")), "rows").unwrap();
        folder
    }

    fn ranks(to: &Path) -> Vec<bool> {
        (0..3).map(|rank| to.join(format!("kernels/rank-0000{rank}.parquet")).exists()).collect()
    }

    fn count(folder: &Path) -> usize {
        folder.read_dir().unwrap().count()
    }

    #[test]
    fn complete_replaces_an_export_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("run.pq");
        begin(&to, 0).complete(&manifest(0), true).unwrap();
        assert!(matches!(Folder::create(&to, false, Access::Umask), Err(Error::Exists { .. })));
        begin(&to, 1).complete(&manifest(1), true).unwrap();
        assert_eq!(ranks(&to), [false, true, false]);
        assert_eq!(count(place.path()), 1);

        // What appears while the new export is written is not lost either.
        let folder = begin(&to, 2);
        fs::write(to.join("kernels/notes"), "mine").unwrap();
        let error = folder.complete(&manifest(2), true).unwrap_err();
        assert!(
            error.to_string().ends_with("holds more than the export: kernels/notes"),
            "{error}"
        );
        assert_eq!(ranks(&to), [false, true, false]);
        assert_eq!(fs::read_to_string(to.join("kernels/notes")).unwrap(), "mine");
        assert_eq!(count(place.path()), 1);
    }

    #[test]
    fn replace_in_steps_does_the_same() {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("run.pq");
        begin(&to, 0).complete(&manifest(0), true).unwrap();
        let folder = begin(&to, 1);
        folder.replace_in_steps(true).unwrap();
        drop(folder);
        assert_eq!(ranks(&to), [false, true, false]);
        assert_eq!(count(place.path()), 1);

        fs::write(to.join("run.json"), manifest(1).to_text().unwrap()).unwrap();
        fs::write(to.join("notes"), "mine").unwrap();
        // The folder was checked before the notes were there.
        let place_of_new = tempfile::tempdir_in(place.path()).unwrap();
        let folder = begin(&place_of_new.path().join("new"), 2);
        let folder = Folder { to: to.clone(), ..folder };
        assert!(matches!(folder.replace_in_steps(true), Err(Error::OtherFiles { .. })));
        assert_eq!((ranks(&to), to.join("notes").exists()), (vec![false, true, false], true));
    }

    #[test]
    #[cfg(unix)]
    fn links_are_no_files_of_an_export() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("run.pq");
        begin(&to, 0).complete(&manifest(0), true).unwrap();
        let link = place.path().join("link");
        symlink(&to, &link).unwrap();
        for path in [link.clone(), link.join("")] {
            let error = Folder::create(&path, true, Access::Umask).unwrap_err();
            assert!(matches!(error, Error::Link { is_folder: true, .. }), "{error}");
        }
        let elsewhere = place.path().join("kernels");
        fs::rename(to.join("kernels"), &elsewhere).unwrap();
        symlink(&elsewhere, to.join("kernels")).unwrap();
        let error = Folder::create(&to, true, Access::Umask).unwrap_err();
        assert!(error.to_string().ends_with("holds more than the export: kernels"), "{error}");
        assert_eq!(count(&elsewhere), 1);
    }
}
