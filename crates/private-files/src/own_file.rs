//! Files that may be something else than what this program has left there.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Opens a plain file of this user for reading. Follows no link, waits for no pipe, and opens no device.
///
/// # Errors
/// If it cannot be opened, is not a plain file, or belongs to another user.
pub fn open_own_file(path: &Path) -> io::Result<File> {
    let require_own = |meta: &Metadata| {
        let is_own = meta.is_file() && is_of_this_user(meta);
        is_own.then_some(()).ok_or_else(|| io::Error::other("not a plain file of this user"))
    };
    require_own(&fs::symlink_metadata(path)?)?;
    let file = open_without_waiting(path)?;
    // Something else may have taken its place meanwhile.
    require_own(&file.metadata()?)?;
    Ok(file)
}

/// Opens a file for reading, but follows no link and waits for no writer of a pipe.
///
/// # Errors
/// If it cannot be opened, or is a link.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;

        use rustix::fs::OFlags;
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    }
    options.open(path)
}

/// Returns whether a path is a folder of this user, not a link to one.
pub fn is_own_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && is_of_this_user(&meta))
}

/// Returns whether a path is a folder of this user with nothing at and below it but plain files and folders of this user.
/// Names of folders must have no extension: a folder may have taken the place of a file.
pub fn are_own_files(folder: &Path) -> bool {
    let is_own = |path: &Path| match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => path.extension().is_none() && are_own_files(path),
        Ok(meta) => meta.is_file() && is_of_this_user(&meta),
        Err(_) => false,
    };
    let are_own = |mut entries: fs::ReadDir| {
        entries.all(|entry| entry.is_ok_and(|entry| is_own(&entry.path())))
    };
    is_own_folder(folder) && fs::read_dir(folder).is_ok_and(are_own)
}

/// Returns whether this user owns a file.
#[cfg(unix)]
fn is_of_this_user(meta: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::OnceLock;

    // The owner of a file that this process creates: the standard library does not tell who the user is.
    static USER: OnceLock<Option<u32>> = OnceLock::new();
    let user = || Some(tempfile::tempfile().ok()?.metadata().ok()?.uid());
    *USER.get_or_init(user) == Some(meta.uid())
}

#[cfg(not(unix))]
fn is_of_this_user(_: &Metadata) -> bool {
    true
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_plain_files_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        fs::write(path("file"), "text").unwrap();
        assert!(open_own_file(&path("file")).is_ok() && are_own_files(place.path()));
        symlink(path("file"), path("link")).unwrap();
        symlink("/dev/zero", path("zero")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        symlink(path("folder"), path("link-to-folder")).unwrap();
        assert!(Command::new("mkfifo").arg(path("folder/pipe")).status().unwrap().success());
        for name in ["link", "zero", "folder", "folder/pipe", "absent"] {
            assert!(open_own_file(&path(name)).is_err(), "{name}");
        }
        assert!(is_own_folder(&path("folder")) && !is_own_folder(&path("link-to-folder")));
        // The pipe is one folder below.
        for name in ["link", "zero", "link-to-folder"] {
            fs::remove_file(path(name)).unwrap();
        }
        assert!(!are_own_files(place.path()));
        fs::remove_file(path("folder/pipe")).unwrap();
        assert!(are_own_files(place.path()));
    }
}
