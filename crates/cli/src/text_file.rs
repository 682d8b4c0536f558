//! Text files named on the command line: rule files, device tables, lists. They are read whole, so their size is
//! limited, and they must be regular files: a device or pipe may never end.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use anyhow::Context as _;

use crate::diagnostics::with_help;

/// Maximum bytes of a handwritten file: rules, devices, healthy runs. All shipped rules together take half of that.
pub(crate) const MAX_WRITTEN_BYTES: u64 = 1 << 20;

/// Maximum bytes of SQL from a file or stdin.
pub(crate) const MAX_SQL_BYTES: u64 = 8 << 20;

/// Maximum bytes of a file of reports.
pub(crate) const MAX_REPORT_BYTES: u64 = 256 << 20;

/// Reads a file. `what` describes the expected content in messages, such as `rule file`.
pub(crate) fn read(path: &Path, what: &str, max_bytes: u64) -> anyhow::Result<String> {
    let cannot = || format!("cannot read the {what} {}", path.display());
    require_file(&fs::metadata(path).with_context(cannot)?).with_context(cannot)?;
    let file = File::open(path).with_context(cannot)?;
    let metadata = file.metadata().with_context(cannot)?;
    require_file(&metadata).with_context(cannot)?;
    if metadata.len() == 0 {
        // Kernel files such as /proc/kmsg also report no bytes, and reading them may block forever.
        return Ok(String::new());
    }
    read_from(file, max_bytes).with_context(cannot)
}

/// Reads a text of at most `max_bytes`.
pub(crate) fn read_from(input: impl Read, max_bytes: u64) -> anyhow::Result<String> {
    let mut text = Vec::new();
    input.take(max_bytes + 1).read_to_end(&mut text)?;
    if text.len() as u64 > max_bytes {
        let help = "split it into several files";
        return Err(with_help(format!("it is larger than {max_bytes} bytes"), help));
    }
    String::from_utf8(text).map_err(|_| io::Error::other("it is not UTF-8 text").into())
}

fn require_file(metadata: &Metadata) -> anyhow::Result<()> {
    match kind(metadata) {
        None => Ok(()),
        Some(kind) => anyhow::bail!("it is {kind}, not a regular file"),
    }
}

/// Returns the kind of a non-file for messages, or `None` for a regular file.
fn kind(metadata: &Metadata) -> Option<&'static str> {
    if metadata.is_file() {
        return None;
    }
    if metadata.is_dir() {
        return Some("a directory");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = metadata.file_type();
        if kind.is_fifo() {
            return Some("a pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
    }
    Some("a device")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read;

    #[test]
    fn read_takes_files_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        for (text, outcome) in [("", Ok("")), ("abcd", Ok("abcd")), ("abcde", Err(()))] {
            std::fs::write(&file, text).unwrap();
            let read = read(&file, "rule file", 4);
            assert_eq!(read.as_deref().map_err(|_| ()), outcome);
        }
        let message = |path: &Path| format!("{:#}", read(path, "rule file", 4).unwrap_err());
        assert!(message(&file).ends_with("it is larger than 4 bytes"), "{}", message(&file));
        assert!(message(folder.path()).ends_with("it is a directory, not a regular file"));
        std::fs::write(&file, [0xff]).unwrap();
        assert!(message(&file).ends_with("it is not UTF-8 text"));
        if cfg!(unix) {
            assert!(
                message(Path::new("/dev/zero")).ends_with("it is a device, not a regular file")
            );
        }
    }
}
