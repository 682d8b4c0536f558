//! Temporary files without a name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// A temporary file without a name, where the system has such files: nobody else can open it, and it is gone when the
/// process ends, however it ends. Its readers and writers do not share a position.
#[derive(Debug)]
pub struct TemporaryFile {
    file: File,
}

impl TemporaryFile {
    /// Creates an empty file in the temporary directory.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create() -> io::Result<Arc<Self>> {
        let file = tempfile::tempfile()?;
        // The umask decides otherwise, and /proc names open files.
        #[cfg(unix)]
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Arc::new(Self { file }))
    }

    /// Its length in bytes.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Removes what is behind this length.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Reads at a position. Returns the number of bytes read; 0 at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.file, buffer, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.file, buffer, at);
    }

    /// Writes at a position. Returns the number of bytes written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.file, bytes, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.file, bytes, at);
    }

    /// Reads from the beginning.
    pub fn reader(self: &Arc<Self>) -> TemporaryFileReader {
        self.reader_from(0)
    }

    /// Reads from a position on.
    pub fn reader_from(self: &Arc<Self>, at: u64) -> TemporaryFileReader {
        TemporaryFileReader { file: Arc::clone(self), at }
    }

    /// Writes behind what is there.
    ///
    /// # Errors
    /// If the system does not tell the length.
    pub fn writer(self: &Arc<Self>) -> io::Result<TemporaryFileWriter> {
        Ok(TemporaryFileWriter { at: self.bytes()?, file: Arc::clone(self) })
    }
}

/// Reads a temporary file.
#[derive(Debug)]
pub struct TemporaryFileReader {
    file: Arc<TemporaryFile>,
    at: u64,
}

impl Read for TemporaryFileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// Adds to a temporary file.
#[derive(Debug)]
pub struct TemporaryFileWriter {
    file: Arc<TemporaryFile>,
    at: u64,
}

impl TemporaryFileWriter {
    /// The file that is written.
    pub fn into_file(self) -> Arc<TemporaryFile> {
        self.file
    }
}

impl Write for TemporaryFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(bytes, self.at)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(file: &Arc<TemporaryFile>) -> String {
        io::read_to_string(file.reader()).unwrap()
    }

    #[test]
    fn readers_and_writers_have_positions_of_their_own() {
        let file = TemporaryFile::create().unwrap();
        let mut writer = file.writer().unwrap();
        writer.write_all(b"one ").unwrap();
        let mut reader = file.reader();
        reader.read_exact(&mut [0; 2]).unwrap();
        writer.write_all(b"two ").unwrap();
        assert_eq!(text(&file), "one two ");
        file.writer().unwrap().write_all(b"three").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "e two three");
        file.truncate(3).unwrap();
        assert_eq!((text(&file).as_str(), file.bytes().unwrap()), ("one", 3));
    }

    #[test]
    #[cfg(unix)]
    fn file_has_no_name() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let meta = TemporaryFile::create().unwrap().file.metadata().unwrap();
        assert_eq!((meta.nlink(), meta.permissions().mode() & 0o777), (0, 0o600));
    }
}
