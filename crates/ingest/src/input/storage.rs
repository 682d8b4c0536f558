//! The only access to input: files and folders, on this machine or in a store.

use std::fs;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::Progress;
use crate::error::Error;
#[cfg(feature = "cloud")]
use crate::remote;

/// Files whose beginnings are asked for at a time.
#[cfg(feature = "cloud")]
const HEADS_AT_ONCE: usize = 32;

/// What is at a location.
pub(crate) enum Place {
    /// A file, with its name.
    File {
        file: File,
        name: String,
    },
    Folder(Folder),
}

/// A folder.
#[derive(Debug)]
pub(crate) enum Folder {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Remote(remote::Folder),
}

/// A file.
#[derive(Debug)]
pub(crate) enum File {
    Local(PathBuf),
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
                let (files, folders) = root.list(folder)?;
                Ok((files, folders.into_iter().map(Self::Remote).collect()))
            }
            #[cfg(feature = "cloud")]
            _ => Ok((Vec::new(), Vec::new())),
        }
    }
}

impl Folder {
    /// One of its files, by its name in the folder, with `/`.
    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        match self {
            Self::Local(path) => Ok(File::Local(path.join(name))),
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => Ok(File::Remote(folder.object(name)?)),
        }
    }
}

impl Clone for Folder {
    fn clone(&self) -> Self {
        match self {
            Self::Local(path) => Self::Local(path.clone()),
            #[cfg(feature = "cloud")]
            Self::Remote(folder) => Self::Remote(folder.clone()),
        }
    }
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
            Ok(meta) if meta.is_dir() => folders.push(Folder::Local(path)),
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
            #[cfg(feature = "cloud")]
            Self::Remote(object) => Ok(object.bytes()),
        }
    }

    /// All of it.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Local(path) => fs::read(path),
            #[cfg(feature = "cloud")]
            Self::Remote(object) => object.read(),
        }
    }

    /// Its bytes from first to last.
    pub(crate) fn reader(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Self::Local(path) => Box::new(fs::File::open(path)?),
            #[cfg(feature = "cloud")]
            Self::Remote(object) => object.reader(),
        })
    }

    /// Its first `want` bytes.
    pub(crate) fn head(&self, want: usize) -> io::Result<Vec<u8>> {
        match self {
            Self::Local(path) => {
                let mut head = Vec::with_capacity(want);
                fs::File::open(path)?.take(want as u64).read_to_end(&mut head)?;
                Ok(head)
            }
            #[cfg(feature = "cloud")]
            Self::Remote(object) => Ok(object.head(want)),
        }
    }

    /// Its last four bytes, where they are cheap to have.
    pub(crate) fn tail(&self) -> Option<[u8; 4]> {
        let mut tail = [0; 4];
        let mut file = fs::File::open(self.path()?).ok()?;
        file.seek(SeekFrom::End(-4)).ok()?;
        file.read_exact(&mut tail).ok()?;
        Some(tail)
    }

    /// Where it is, if it is on this machine.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Local(path) => Some(path),
            #[cfg(feature = "cloud")]
            Self::Remote(_) => None,
        }
    }

    /// Whether bytes come over a network, where reading them twice is to be avoided.
    pub(crate) fn is_far(&self) -> bool {
        #[cfg(feature = "cloud")]
        return matches!(self, Self::Remote(_));
        #[cfg(not(feature = "cloud"))]
        false
    }
}

/// Whether the store could not be asked at all: no reason to go on without this one file.
pub(crate) fn is_outage(error: &io::Error) -> bool {
    #[cfg(feature = "cloud")]
    if let Some(error) = remote::StoreError::of(error) {
        return error.is_outage();
    }
    let _ = error;
    false
}

/// Reads files in their order: `work` is given their numbers, and takes the next one when it has time.
/// Those that are far are fetched a little ahead, and `progress` is told what arrives.
pub(crate) fn reading<T>(
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
                File::Local(_) => None,
            })
            .collect();
        return remote::watch(first, progress, || work(Box::new(remote::ahead(objects))));
    }
    let _ = progress;
    work(Box::new(0..files.len()))
}

/// Looks into files, many at a time where they are far: `look` is told the first bytes of each.
pub(crate) fn look_into(
    files: Vec<Entry>,
    want: usize,
    mut look: impl FnMut(Entry, io::Result<Vec<u8>>) -> Result<(), Error>,
) -> Result<(), Error> {
    #[cfg(feature = "cloud")]
    if files.iter().any(|entry| entry.file.is_far()) {
        let mut files = files.into_iter();
        loop {
            let some: Vec<Entry> = files.by_ref().take(HEADS_AT_ONCE).collect();
            if some.is_empty() {
                return Ok(());
            }
            for (entry, found) in remote::open_all(some) {
                let head = found.and_then(|()| entry.file.head(want));
                look(entry, head)?;
            }
        }
    }
    for entry in files {
        let head = entry.file.head(want);
        look(entry, head)?;
    }
    Ok(())
}
