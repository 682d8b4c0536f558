//! A file that a result is written to.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use super::work_folder::WorkFolder;
use crate::error::Error;

const BUFFER_BYTES: usize = 1 << 18;

/// A file under construction: it gets its name when it is complete, and is removed if it is dropped before.
///
/// A file that is replaced is replaced at once, and keeps its permissions. A symbolic link is replaced itself; its
/// target is not written to. Pipes, character devices and what `/dev/stdout` stands for are written to directly.
#[derive(Debug)]
pub struct OutputFile {
    to: PathBuf,
    out: BufWriter<File>,
    /// `None` for a file that is written to directly.
    work: Option<Work>,
}

#[derive(Debug)]
struct Work {
    folder: WorkFolder,
    overwrite: bool,
    /// Those of the file that is replaced.
    permissions: Option<Permissions>,
}

/// Name of the file in its work folder.
const CONTENT: &str = "output";

impl OutputFile {
    /// Begins a file in an existing folder. With `overwrite`, it replaces a file or a link that is there.
    ///
    /// # Errors
    /// If something is there that must not be replaced, or no file can be created there.
    pub fn create(to: &Path, overwrite: bool) -> Result<Self, Error> {
        let write_error = |e| Error::write(to, e);
        let path = to.to_owned();
        let permissions = match Destination::writable(to, overwrite)? {
            Destination::Stream => {
                // Appends, as the program would to its stdout: a file behind it may have content.
                let file = OpenOptions::new().append(true).open(to).map_err(write_error)?;
                let out = BufWriter::with_capacity(BUFFER_BYTES, file);
                return Ok(Self { to: path, out, work: None });
            }
            Destination::File(meta) => Some(meta.permissions()),
            Destination::Link | Destination::Absent => None,
        };
        let folder = WorkFolder::create_in(folder_of(to)).map_err(write_error)?;
        let file = File::create_new(folder.path().join(CONTENT)).map_err(write_error)?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { to: path, out, work: Some(Work { folder, overwrite, permissions }) })
    }

    /// Checks that [`OutputFile::create`] may create a file there, before its content is computed.
    ///
    /// # Errors
    /// If something is there that must not be replaced, or the folder does not exist.
    pub fn check(to: &Path, overwrite: bool) -> Result<(), Error> {
        if let Destination::Absent = Destination::writable(to, overwrite)? {
            fs::metadata(folder_of(to)).map_err(|e| Error::write(to, e))?;
        }
        Ok(())
    }

    /// Gives the file its name. Returns its bytes.
    ///
    /// # Errors
    /// If it cannot be written completely, or another process has created a file of this name meanwhile.
    pub fn complete(self) -> Result<u64, Error> {
        let Self { to, out, work } = self;
        let publish = || {
            let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
            let bytes = file.metadata()?.len();
            let Some(Work { folder, overwrite, permissions }) = work else { return Ok(bytes) };
            if let Some(permissions) = permissions {
                file.set_permissions(permissions)?;
            }
            drop(file);
            let from = folder.path().join(CONTENT);
            if overwrite {
                fs::rename(from, &to)?;
            } else {
                rename_to_new(from, &to)?;
            }
            Ok(bytes)
        };
        publish().map_err(|error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: to.clone(), is_source: false },
            _ => Error::write(&to, error),
        })
    }

    /// The path that its content has until it is complete; `None` for a file that is written to directly.
    pub fn content_path(&self) -> Option<PathBuf> {
        self.work.as_ref().map(|work| work.folder.path().join(CONTENT))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Renames a file, unless there is one of the new name.
fn rename_to_new(from: PathBuf, to: &Path) -> io::Result<()> {
    let Err(failed) = TempPath::try_from_path(from)?.persist_noclobber(to) else { return Ok(()) };
    if failed.error.kind() == io::ErrorKind::AlreadyExists || fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // The file system has neither hard links nor renaming that refuses to replace.
    failed.path.persist(to).map_err(|failed| failed.error)
}

/// What is at a path that is to be written.
enum Destination {
    Absent,
    File(Metadata),
    Link,
    /// Something that takes bytes and does not keep them under this name.
    Stream,
}

/// The folder of a file.
fn folder_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

impl Destination {
    /// What is at a path, if it may be written.
    fn writable(path: &Path, overwrite: bool) -> Result<Self, Error> {
        match Self::of(path)? {
            Self::File(_) if !overwrite => {
                Err(Error::Exists { path: path.to_owned(), is_source: false })
            }
            Self::Link if !overwrite => {
                Err(Error::Link { path: path.to_owned(), is_folder: false })
            }
            destination => Ok(destination),
        }
    }

    fn of(path: &Path) -> Result<Self, Error> {
        let mut meta = match fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            Err(error) => return Err(Error::write(path, error)),
        };
        if meta.is_symlink() {
            if !is_of_system(path) {
                return Ok(Self::Link);
            }
            meta = fs::metadata(path).map_err(|e| Error::write(path, e))?;
            if meta.is_file() {
                return Ok(Self::Stream);
            }
        }
        if meta.is_file() {
            return Ok(Self::File(meta));
        }
        if is_stream(&meta) {
            return Ok(Self::Stream);
        }
        let kind = if meta.is_dir() { "a directory" } else { "a device" };
        Err(Error::NotAFile { path: path.to_owned(), kind })
    }
}

/// Returns whether a link is one of the system's, such as `/dev/stdout`, which stand for open files.
fn is_of_system(link: &Path) -> bool {
    let folder = link.parent().and_then(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

#[cfg(unix)]
fn is_stream(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = meta.file_type();
    kind.is_fifo() || kind.is_char_device() || kind.is_socket()
}

#[cfg(not(unix))]
fn is_stream(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(to: &Path, text: &str, overwrite: bool) -> Result<u64, Error> {
        let mut file = OutputFile::create(to, overwrite)?;
        file.write_all(text.as_bytes()).unwrap();
        file.complete()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_has_its_name_when_it_is_complete() {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("a.json");
        let mut file = OutputFile::create(&to, false).unwrap();
        file.write_all(b"new").unwrap();
        assert!(!to.exists());
        assert_eq!(file.complete().unwrap(), 3);
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");

        let mut file = OutputFile::create(&to, true).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(names(place.path()), ["a.json"]);
    }

    #[test]
    fn complete_refuses_a_file_that_appeared_meanwhile() {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("a.json");
        let file = OutputFile::create(&to, false).unwrap();
        fs::write(&to, "theirs").unwrap();
        assert!(matches!(file.complete(), Err(Error::Exists { .. })));
        assert_eq!(fs::read_to_string(&to).unwrap(), "theirs");
        assert_eq!(names(place.path()), ["a.json"]);
    }

    #[test]
    fn create_refuses_folders() {
        let place = tempfile::tempdir().unwrap();
        let error = write(place.path(), "", true).unwrap_err();
        assert!(error.to_string().ends_with("is a directory, not a regular file"), "{error}");
    }

    #[test]
    #[cfg(unix)]
    fn replaced_files_keep_their_permissions() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("a.json");
        fs::write(&to, "old").unwrap();
        fs::set_permissions(&to, Permissions::from_mode(0o640)).unwrap();
        write(&to, "new", true).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
