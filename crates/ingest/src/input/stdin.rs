//! A trace on stdin, which is copied to a temporary file because traces are read more than once.

use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use private_files::TemporaryFile;

use crate::error::Error;

/// The path that stands for stdin.
pub(super) const PATH: &str = "-";
/// Name of the trace in results and messages.
pub(super) const NAME: &str = "stdin";

/// Length of a trace on stdin above which it is refused, if no other limit is set. The traces of a rank have at most a few
/// gigabytes, and the temporary directory is often in memory.
const MAX_BYTES: u64 = 16 << 30;

/// The copy of stdin. It has no name, so it is gone when the process ends, however it ends.
#[derive(Debug, Default)]
pub(super) struct Stdin {
    copy: Mutex<Option<Arc<TemporaryFile>>>,
}

impl Stdin {
    /// The copy. The first call reads stdin to its end, or to more than `max_bytes`; 0 stands for the default limit.
    pub(super) fn file(&self, max_bytes: u64) -> Result<Arc<TemporaryFile>, Error> {
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = &*copy {
            return Ok(Arc::clone(copy));
        }
        let max_bytes = if max_bytes == 0 { MAX_BYTES } else { max_bytes };
        Ok(Arc::clone(copy.insert(copy_of(io::stdin().lock(), max_bytes)?)))
    }
}

fn copy_of(from: impl Read, max_bytes: u64) -> Result<Arc<TemporaryFile>, Error> {
    let copied = || {
        let file = TemporaryFile::create()?;
        let mut writer = file.writer()?;
        let bytes = io::copy(&mut from.take(max_bytes.saturating_add(1)), &mut writer)?;
        writer.flush()?;
        Ok((file, bytes))
    };
    let (file, bytes) = copied().map_err(|e: io::Error| Error::read(NAME, e))?;
    if bytes > max_bytes { Err(Error::StdinTooLong { max_bytes }) } else { Ok(file) }
}

/// Returns whether a path stands for stdin. A file of that name is `./-`.
pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == PATH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_refused_above_the_limit() {
        let file = copy_of(&b"1234"[..], 4).unwrap();
        assert_eq!(io::read_to_string(file.reader()).unwrap(), "1234");
        // Without the limit, the copy would take all space.
        let error = copy_of(io::repeat(b'x'), 1 << 20).unwrap_err();
        assert!(matches!(error, Error::StdinTooLong { max_bytes: 1_048_576 }), "{error}");
    }
}
