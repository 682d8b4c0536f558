//! Folders that outputs are written in until they are complete, and temporary folders.
//!
//! A work folder lies beside its output, so that renaming moves the output to its place. A temporary folder is a work folder
//! in the temporary directory. Its name is random and only its
//! owner may enter it, so nobody can plant a link where the program writes. A file in it is locked as long as its
//! process is alive. The next process that writes beside it removes what a dead process left.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use private_files::{Access, open_without_waiting};

use crate::error::Error;

/// End of the names of what is not complete. Files with such names are not read as part of a run.
pub(crate) const PARTIAL_SUFFIX: &str = ".partial";
const PREFIX: &str = ".advisor-";
/// Random characters of a name.
const RANDOM_LEN: usize = 12;
/// File that is locked as long as the process is alive.
const LOCK: &str = "lock";
/// Text of that file. A folder without it is not ours.
const MARKER: &str =
    "Trace Advisor writes here until an output is complete, and then removes this folder.\n";

/// The work folders of this process.
static LIVING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn living() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A folder for an output under construction; removed with its content when dropped.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    path: PathBuf,
    lock: Option<File>,
}

impl WorkFolder {
    /// Creates a work folder, after which those of dead processes in `parent` are removed.
    pub(crate) fn create_in(parent: &Path) -> io::Result<Self> {
        let parent = std::path::absolute(parent)?;
        let mut living = living();
        // While another output is written beside this one, the leftovers are known to be gone.
        let is_first = !living.iter().any(|folder| folder.parent() == Some(&parent));
        let folder = loop {
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX).suffix(PARTIAL_SUFFIX).rand_bytes(RANDOM_LEN);
            builder.disable_cleanup(true);
            #[cfg(unix)]
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
            let path = builder.tempdir_in(&parent)?.keep();
            match lock(&path) {
                Ok(lock) => break Self { path, lock: Some(lock) },
                Err(error) => {
                    let _ = remove(&path);
                    // Another process took the empty folder for that of a dead one.
                    if error.kind() != io::ErrorKind::NotFound {
                        return Err(error);
                    }
                }
            }
        };
        living.insert(folder.path.clone());
        drop(living);
        if is_first && let Ok(ours) = fs::symlink_metadata(&folder.path) {
            remove_abandoned(&parent, &ours);
        }
        Ok(folder)
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The random part of its name.
    pub(crate) fn id(&self) -> &str {
        let name = self.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        id(name).unwrap_or_default()
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way, and the next process tries again.
        let _ = remove_content(&self.path);
        drop(self.lock.take());
        let _ = remove(&self.path);
        living().remove(&self.path);
    }
}

/// A temporary folder for what is derived from a run. Only its owner can enter it; it is removed with its content when
/// dropped, and by [`remove_unfinished_outputs`].
#[derive(Debug)]
pub struct TemporaryFolder(WorkFolder);

impl TemporaryFolder {
    /// Creates a folder in the temporary directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create() -> Result<Self, Error> {
        Self::create_in(&std::env::temp_dir())
    }

    /// Creates a folder in another one.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_in(parent: &Path) -> Result<Self, Error> {
        WorkFolder::create_in(parent).map(Self).map_err(|e| Error::write(parent, e))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Marks a folder as ours, and as that of a process that is alive.
fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(LOCK);
    let mut file = Access::Owner.create_file(&path)?;
    // Where files cannot be locked, nothing says that this process is alive: without the marker, nobody takes the folder
    // for that of a dead one.
    if file.lock().is_ok() {
        file.write_all(MARKER.as_bytes())?;
        // Until it was locked, it could be removed.
        fs::symlink_metadata(path)?;
    }
    Ok(file)
}

/// Returns whether a file or folder has the name of a folder that outputs are written in until they are complete.
pub fn is_work_name(name: &OsStr) -> bool {
    name.to_str().and_then(id).is_some()
}

fn id(name: &str) -> Option<&str> {
    let id = name.strip_prefix(PREFIX)?.strip_suffix(PARTIAL_SUFFIX)?;
    let is_random = id.len() == RANDOM_LEN && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_random.then_some(id)
}

/// Removes a work folder. The lock goes last: until then, another process can tell that the folder is ours.
fn remove(folder: &Path) -> io::Result<()> {
    remove_content(folder)?;
    match fs::remove_file(folder.join(LOCK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir(folder),
    }
}

fn remove_content(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes the work folders of dead processes. `ours` describes one of this process.
fn remove_abandoned(parent: &Path, ours: &Metadata) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_work_name(&entry.file_name()) {
            // What cannot be removed is in nobody's way.
            let _ = remove_if_abandoned(&entry.path(), ours);
        }
    }
}

fn remove_if_abandoned(folder: &Path, ours: &Metadata) -> io::Result<()> {
    let meta = fs::symlink_metadata(folder)?;
    if !meta.is_dir() || !have_one_owner(&meta, ours) {
        return Ok(());
    }
    let mut lock = match open_without_waiting(&folder.join(LOCK)) {
        // Its process ended before or after everything else. This fails unless the folder is empty.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fs::remove_dir(folder),
        lock => lock?,
    };
    if !lock.metadata()?.is_file() {
        return Ok(());
    }
    lock.try_lock()?;
    let mut text = String::new();
    (&mut lock).take(MARKER.len() as u64 + 1).read_to_string(&mut text)?;
    let is_alone = || folder.read_dir().is_ok_and(|entries| entries.count() == 1);
    if text == MARKER || text.is_empty() && is_alone() {
        remove_content(folder)?;
        // The lock is held until the lock file is gone: a living process that waits for the lock then checks that the file exists.
        fs::remove_file(folder.join(LOCK))?;
        drop(lock);
        return fs::remove_dir(folder);
    }
    Ok(())
}

#[cfg(unix)]
fn have_one_owner(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    one.uid() == other.uid()
}

#[cfg(not(unix))]
fn have_one_owner(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Removes what this process has written of outputs that are not complete, for a program that is about to end. A thread
/// that begins another output afterwards waits for the end.
pub fn remove_unfinished_outputs() {
    let living = living();
    for folder in living.iter() {
        // Other threads may be adding files to it. What cannot be removed cannot be reported either.
        let _ = (0..10).find(|_| remove(folder).is_ok());
    }
    std::mem::forget(living);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn make(parent: &Path, name: &str, lock: Option<&str>) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        if let Some(text) = lock {
            fs::write(folder.join(LOCK), text).unwrap();
        }
        folder
    }

    #[test]
    fn create_removes_only_folders_of_dead_processes() {
        let place = tempfile::tempdir().unwrap();
        let name =
            |id: char| format!("{PREFIX}{}{PARTIAL_SUFFIX}", id.to_string().repeat(RANDOM_LEN));
        let dead = make(place.path(), &name('a'), Some(MARKER));
        fs::create_dir(dead.join("kernels")).unwrap();
        fs::write(dead.join("kernels/rows"), "old").unwrap();
        let died_early = make(place.path(), &name('b'), None);
        let died_before_lock = make(place.path(), &name('c'), Some(""));
        let gone = [dead, died_early, died_before_lock];

        let alive = make(place.path(), &name('d'), Some(MARKER));
        let lock = File::open(alive.join(LOCK)).unwrap();
        lock.lock().unwrap();
        let without_marker = make(place.path(), &name('e'), Some("mine"));
        let with_files = make(place.path(), &name('f'), None);
        fs::write(with_files.join("notes"), "mine").unwrap();
        let with_empty_lock = make(place.path(), &name('g'), Some(""));
        fs::write(with_empty_lock.join("notes"), "mine").unwrap();
        let other_name = make(place.path(), ".advisor-mine.partial", Some(MARKER));
        let file = place.path().join(name('h'));
        fs::write(&file, MARKER).unwrap();
        let kept = [alive, without_marker, with_files, with_empty_lock, other_name, file];

        let folder = WorkFolder::create_in(place.path()).unwrap();
        assert_eq!(gone.map(|path| path.exists()), [false; 3]);
        assert_eq!(kept.map(|path| path.exists()), [true; 6]);
        assert!(
            is_work_name(folder.path().file_name().unwrap()) && folder.id().len() == RANDOM_LEN
        );
        let beside = WorkFolder::create_in(place.path()).unwrap();
        assert!(folder.path().exists() && beside.path() != folder.path());
        let paths = [folder.path().to_owned(), beside.path().to_owned()];
        drop((folder, beside));
        assert_eq!(paths.map(|path| path.exists()), [false; 2]);
    }

    #[test]
    fn folders_that_appear_while_abandoned_ones_are_removed_stay() {
        let place = tempfile::tempdir().unwrap();
        let ours = fs::symlink_metadata(place.path()).unwrap();
        let is_over = AtomicBool::new(false);
        // What other processes do that write to the same folder.
        let remove = || {
            while !is_over.load(Ordering::Relaxed) {
                remove_abandoned(place.path(), &ours);
            }
        };
        std::thread::scope(|scope| {
            let removing = [scope.spawn(remove), scope.spawn(remove)];
            let are_there = (0..3000).all(|_| {
                let is_there = |folder: WorkFolder| folder.path().join(LOCK).exists();
                WorkFolder::create_in(place.path()).is_ok_and(is_there)
            });
            is_over.store(true, Ordering::Relaxed);
            assert!(are_there && removing.into_iter().all(|thread| thread.join().is_ok()));
        });
    }

    #[test]
    #[cfg(unix)]
    fn create_follows_no_link_and_waits_for_no_pipe() {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
        let place = tempfile::tempdir().unwrap();
        let elsewhere = make(place.path(), "elsewhere", Some(MARKER));
        let link = place.path().join(".advisor-aaaaaaaaaaaa.partial");
        symlink(&elsewhere, &link).unwrap();
        let with_link = make(place.path(), ".advisor-bbbbbbbbbbbb.partial", None);
        symlink(elsewhere.join(LOCK), with_link.join(LOCK)).unwrap();
        let with_pipe = make(place.path(), ".advisor-cccccccccccc.partial", None);
        let pipe = with_pipe.join(LOCK);
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let folder = WorkFolder::create_in(place.path()).unwrap();
        assert!(elsewhere.join(LOCK).exists() && link.is_symlink() && with_link.exists());
        assert!(fs::metadata(pipe).unwrap().file_type().is_fifo());
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
