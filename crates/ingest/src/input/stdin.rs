//! A trace on stdin, which is copied to a temporary file because traces are read more than once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::NamedTempFile;

/// The path that stands for stdin.
pub(super) const PATH: &str = "-";
/// Name of the trace in results and messages.
pub(super) const NAME: &str = "stdin";

/// The copy of stdin; it is removed with this value.
#[derive(Debug, Default)]
pub(super) struct Stdin {
    copy: OnceLock<NamedTempFile>,
}

impl Stdin {
    /// The path of the copy. The first call reads stdin to its end.
    pub(super) fn file(&self) -> io::Result<PathBuf> {
        if let Some(copy) = self.copy.get() {
            return Ok(copy.path().to_owned());
        }
        let mut copy = NamedTempFile::with_prefix("advisor-stdin-")?;
        io::copy(&mut io::stdin().lock(), copy.as_file_mut())?;
        Ok(self.copy.get_or_init(|| copy).path().to_owned())
    }
}

/// Returns whether a path stands for stdin. A file of that name is `./-`.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == PATH
}
