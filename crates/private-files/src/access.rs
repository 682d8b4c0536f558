//! Who may access the files and folders that are created.

use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Who may access what is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only the owner, whatever the umask: for everything but outputs that the user names.
    Owner,
    /// Whoever the umask allows: for outputs that the user names.
    Umask,
}

impl Access {
    /// Creates a file for writing. Content that is there is lost, and the file keeps its permissions.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_file(self, path: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        if self == Self::Owner {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        options.open(path)
    }

    /// Writes a file with this content.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn write_file(self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.create_file(path)?.write_all(content)
    }

    /// Creates a folder, which must not exist.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create_folder(self, path: &Path) -> io::Result<()> {
        self.folder_builder().create(path)
    }

    /// Creates a folder and those above it, as far as they do not exist. Existing folders keep their permissions.
    ///
    /// # Errors
    /// If one of them cannot be created.
    pub fn create_folders(self, path: &Path) -> io::Result<()> {
        self.folder_builder().recursive(true).create(path)
    }

    fn folder_builder(self) -> DirBuilder {
        #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        if self == Self::Owner {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700);
        }
        builder
    }
}

/// Writes a file that only its owner can read, in place of the file, link or pipe that is there. Other processes see the
/// old content or the new one, never a part.
///
/// # Errors
/// If it cannot be written.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_has_access_to_what_is_created() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b");
        Access::Owner.create_folders(&folder).unwrap();
        Access::Owner.create_folder(&folder.join("c")).unwrap();
        Access::Owner.write_file(&folder.join("file"), b"text").unwrap();
        replace_file(&folder.join("replaced"), b"text").unwrap();
        for path in ["a", "a/b", "a/b/c"] {
            assert_eq!(mode(&place.path().join(path)), 0o700, "{path}");
        }
        for path in ["file", "replaced"] {
            assert_eq!(mode(&folder.join(path)), 0o600, "{path}");
        }
    }
}
