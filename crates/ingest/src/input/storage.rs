//! The only access to input: files and folders, on this machine or in a store.

use std::fs;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use private_files::TemporaryFile;

use crate::error::{Error, StoreProblem};
#[cfg(feature = "cloud")]
use crate::input::remote;
use crate::options::Progress;
use crate::output::work_folder::{PARTIAL_SUFFIX, is_work_name};

/// Files whose first bytes are requested at once.
#[cfg(feature = "cloud")]
const HEADS_AT_ONCE: usize = 32;

/// The content of a location.
pub(crate) enum Place {
    /// A file, with its name.
    File {
        file: File,
        name: String,
    },
    Folder(Folder),
}

/// A folder.
#[derive(Debug, Clone)]
pub(crate) enum Folder {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Remote(remote::Folder),
}

/// A file.
#[derive(Debug)]
pub(crate) enum File {
    Local(PathBuf),
    /// A copy of stdin.
    Temporary(Arc<TemporaryFile>),
    #[cfg(feature = "cloud")]
    Remote(remote::Object),
}

/// A file of a folder.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) file: File,
    /// Path below the folder that was searched, with `/`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl Place {
    pub(crate) fn local(path: &Path) -> Result<Self, Error> {
        let meta = fs::metadata(path).map_err(|e| Error::read(path, e))?;
        if !meta.is_file() {
            return Ok(Self::Folder(Folder::Local(path.to_owned())));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self::File { file: File::Local(path.to_owned()), name })
    }
}

impl Folder {
    /// The files and folders in it, in order of their names; names are relative to `self` if `below`
    /// is a folder below it.
    pub(crate) fn list(&self, below: &Self) -> Result<(Vec<Entry>, Vec<Self>), Error> {
        match (self, below) {
            (Self::Local(root), Self::Local(folder)) => list_local(root, folder),
            #[cfg(feature = "cloud")]
            (Self::Remote(root), Self::Remote(folder)) => {
                let (objects, folders) = root.list(folder)?;
                let files =
                    objects.into_iter().map(|remote::ListedObject { object, name, bytes }| Entry {
                        file: File::Remote(object),
                        name,
                        bytes,
                    });
                Ok((files.collect(), folders.into_iter().map(Self::Remote).collect()))
            }
            #[cfg(feature = "cloud")]
            _ => Ok((Vec::new(), Vec::new())),
        }
    }

    /// The folders in it, in order of their names. None if it does not exist.
    pub(crate) fn folders_if_any(&self) -> Result<Vec<Self>, Error> {
        if let Self::Local(path) = self
            && !path.exists()
        {
            return Ok(Vec::new());
        }
        match self.list(self) {
            Err(Error::Store { problem: StoreProblem::NotFound, .. }) => Ok(Vec::new()),
            listed => Ok(listed?.1),
        }
    }

    /// One of its files, by its name in the folder, with `/`; `None` if there is no such file.
    pub(crate) fn file_if_any(&self, name: &str) -> Result<Option<File>, Error> {
        if let Self::Local(path) = self
            && !path.join(name).is_file()
        {
            return Ok(None);
        }
        match self.file(name) {
            Err(Error::Store { problem: StoreProblem::NotFound, .. }) => Ok(None),
            file => file.map(Some),
        }
    }

    /// Its name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Local(path) => {
                path.file_name().unwrap_or_default().to_string_lossy().into_owned()
            }
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => folder.name(),
        }
    }

    /// Its path or address, without secrets.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Local(path) => path.display().to_string(),
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => folder.shown(),
        }
    }

    /// One of its files, by its name in the folder, with `/`.
    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        match self {
            Self::Local(path) => Ok(File::Local(local_file(path, name))),
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => Ok(File::Remote(folder.object(name)?)),
        }
    }
}

/// A file by its name as [`Folder::list`] gives it: a name that is not UTF-8 has lost characters.
fn local_file(folder: &Path, name: &str) -> PathBuf {
    let exact = folder.join(name);
    if !name.contains(char::REPLACEMENT_CHARACTER) || exact.exists() {
        return exact;
    }
    name.split('/').fold(folder.to_owned(), |folder, part| {
        let named = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy() == part);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut matching: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(named).collect();
        matching.sort();
        matching.into_iter().next().unwrap_or_else(|| folder.join(part))
    })
}

fn list_local(root: &Path, folder: &Path) -> Result<(Vec<Entry>, Vec<Folder>), Error> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<PathBuf>>>()
    });
    let mut entries = entries.map_err(|e| Error::read(folder, e))?;
    entries.sort();
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for path in entries {
        match fs::metadata(&path) {
            Ok(_) if path.file_name().is_some_and(is_work_name) => {}
            Ok(meta) if meta.is_dir() => folders.push(Folder::Local(path)),
            Ok(_) if path.to_string_lossy().ends_with(PARTIAL_SUFFIX) => {}
            Ok(meta) if meta.is_file() => {
                let name = path.strip_prefix(root).unwrap_or(&path);
                let name = name.to_string_lossy().into_owned();
                files.push(Entry { file: File::Local(path), name, bytes: meta.len() });
            }
            _ => {} // sockets, dangling links
        }
    }
    Ok((files, folders))
}

impl File {
    /// Bytes it has.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        match self {
            Self::Local(path) => Ok(fs::metadata(path)?.len()),
            Self::Temporary(file) => file.bytes(),
            #[cfg(feature = "cloud")]
            Self::Remote(object) => Ok(object.bytes()),
        }
    }

    /// Distinguishes versions of the same length: the time of the last change, or the version identifier of the store.
    pub(crate) fn version(&self) -> io::Result<String> {
        match self {
            Self::Local(path) => {
                let changed = fs::metadata(path)?.modified()?;
                let since = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                Ok(since.as_nanos().to_string())
            }
            // Nothing else writes to it.
            Self::Temporary(_) => Ok(String::new()),
            #[cfg(feature = "cloud")]
            Self::Remote(object) => Ok(object.version_text()),
        }
    }

    /// All of it.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Local(path) => {
                let mut bytes = Vec::new();
                open_local(path)?.read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Self::Temporary(file) => {
                let mut bytes = Vec::new();
                file.reader().read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            #[cfg(feature = "cloud")]
            Self::Remote(object) => object.read(),
        }
    }

    /// Its bytes from first to last.
    pub(crate) fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Local(path) => Box::new(open_local(path)?),
            Self::Temporary(file) => Box::new(file.reader()),
            #[cfg(feature = "cloud")]
            Self::Remote(object) => object.reader(),
        })
    }

    /// Its first `want` bytes.
    pub(crate) fn head(&self, want: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Local(path) => {
                let mut head = Vec::with_capacity(want);
                open_local(path)?.take(want as u64).read_to_end(&mut head)?;
                Ok(head)
            }
            Self::Temporary(file) => {
                let mut head = Vec::with_capacity(want);
                file.reader().take(want as u64).read_to_end(&mut head)?;
                Ok(head)
            }
            #[cfg(feature = "cloud")]
            Self::Remote(object) => Ok(object.head(want)),
        }
    }

    /// Its last four bytes, if the file is on this machine.
    pub(crate) fn tail(&self) -> Option<[u8; 4]> {
        let mut tail = [0; 4];
        match self {
            Self::Local(path) => {
                let mut file = fs::File::open(path).ok()?;
                file.seek(SeekFrom::End(-4)).ok()?;
                file.read_exact(&mut tail).ok()?;
            }
            Self::Temporary(file) => {
                let at = file.bytes().ok()?.checked_sub(4)?;
                file.reader_from(at).read_exact(&mut tail).ok()?;
            }
            #[cfg(feature = "cloud")]
            Self::Remote(_) => return None,
        }
        Some(tail)
    }

    /// Its path, if it has one on this machine.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Temporary(_) => None,
            #[cfg(feature = "cloud")]
            Self::Remote(_) => None,
        }
    }

    /// Returns whether the file is read over a network, so that reading it twice is expensive.
    pub(crate) fn is_remote(&self) -> bool {
        #[cfg(feature = "cloud")]
        return matches!(self, Self::Remote(_));
        #[cfg(not(feature = "cloud"))]
        false
    }
}

/// Opens a local file. Files that report a size of 0 are not read, because reading kernel files such as /proc/kmsg may
/// block forever.
fn open_local(path: &Path) -> io::Result<io::Take<fs::File>> {
    let file = fs::File::open(path)?;
    let limit = if file.metadata()?.len() == 0 { 0 } else { u64::MAX };
    Ok(file.take(limit))
}

/// Returns whether the store as a whole is unavailable: then reading must not continue without this file.
pub(crate) fn is_outage(error: &io::Error) -> bool {
    #[cfg(feature = "cloud")]
    if let Some(error) = crate::error::StoreError::of(error) {
        return error.is_outage();
    }
    let _ = error;
    false
}

/// Calls `work` with an iterator over the positions of the files, in order. Remote files are prefetched a few positions
/// ahead, and `progress` is notified of received bytes.
pub(crate) fn with_prefetch<T>(
    files: &[&File],
    progress: &dyn Progress,
    work: impl FnOnce(Box<dyn Iterator<Item = usize> + Send + '_>) -> T,
) -> T {
    #[cfg(feature = "cloud")]
    if let Some(File::Remote(first)) = files.first() {
        let objects: Vec<&remote::Object> = files
            .iter()
            .filter_map(|file| match file {
                File::Remote(object) => Some(object),
                File::Local(_) | File::Temporary(_) => None,
            })
            .collect();
        return remote::watch(first, progress, || work(Box::new(remote::prefetch(objects))));
    }
    let _ = progress;
    work(Box::new(0..files.len()))
}

/// Calls `visit` with the first bytes of each file, in order. Remote files are opened many at once.
pub(crate) fn read_heads(
    files: Vec<Entry>,
    want: usize,
    mut visit: impl FnMut(Entry, io::Result<Vec<u8>>) -> Result<(), Error>,
) -> Result<(), Error> {
    #[cfg(feature = "cloud")]
    if files.iter().any(|entry| entry.file.is_remote()) {
        let mut files = files.into_iter();
        loop {
            let batch: Vec<Entry> = files.by_ref().take(HEADS_AT_ONCE).collect();
            if batch.is_empty() {
                return Ok(());
            }
            for (entry, opened) in open_all(batch) {
                let head = opened.and_then(|()| entry.file.head(want));
                visit(entry, head)?;
            }
        }
    }
    for entry in files {
        let head = entry.file.head(want);
        visit(entry, head)?;
    }
    Ok(())
}

/// Opens remote files at once.
#[cfg(feature = "cloud")]
fn open_all(mut entries: Vec<Entry>) -> Vec<(Entry, io::Result<()>)> {
    let mut objects: Vec<&mut remote::Object> = entries
        .iter_mut()
        .filter_map(|entry| match &mut entry.file {
            File::Remote(object) => Some(object),
            File::Local(_) | File::Temporary(_) => None,
        })
        .collect();
    let results = remote::open_all(&mut objects);
    for entry in &mut entries {
        if let File::Remote(object) = &entry.file {
            entry.bytes = object.bytes();
        }
    }
    entries.into_iter().zip(results).collect()
}
