//! Locations of runs: paths, and addresses of folders or objects in a store.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::error::{Error, StoreKind};
use crate::input::pattern::{self, Pattern};
#[cfg(feature = "cloud")]
use crate::input::remote::{self, Address};
use crate::input::secrets::without_secrets;
use crate::input::stdin::{self, Stdin};
use crate::input::storage::{File, Folder, Place};
use crate::options::Options;

/// The location of a run: a path, the address of a folder or an object in a store, or stdin.
///
/// The path `-` is a trace on stdin, which is copied to a temporary file once. A file of that name is `./-`.
/// Text that starts with `s3://`, `gs://`, `az://`, `abfss://`, `https://` and the like is an address;
/// any other text is a path. For a folder with such a name, write `./` in front.
///
/// A path that does not exist may end in a pattern that selects files of a folder: `run/rank-*.json.gz`,
/// `run/{a,b}.json`. In an address only `*` and `{` begin a pattern.
#[derive(Clone)]
pub struct Location {
    inner: Inner,
    pattern: Option<Pattern>,
}

#[derive(Clone)]
enum Inner {
    Local(PathBuf),
    Stdin(Arc<Stdin>),
    #[cfg(feature = "cloud")]
    Remote(Arc<Address>),
}

impl Location {
    /// Reads a path or an address. Accesses the disk only to tell patterns from paths, and never the network.
    ///
    /// # Errors
    /// If an address is malformed, or this program was built without stores.
    pub fn parse(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if stdin::is_stdin(path) {
            return Ok(Self { inner: Inner::Stdin(Arc::default()), pattern: None });
        }
        let Some(text) = address(path) else {
            return Ok(Self::local(path));
        };
        #[cfg(feature = "cloud")]
        {
            let (root, pattern) = split_pattern(text, &['*', '{']).unwrap_or((text, None));
            let address = Address::parse(root)?;
            Ok(Self { inner: Inner::Remote(address.into()), pattern })
        }
        #[cfg(not(feature = "cloud"))]
        Err(Error::Store {
            address: without_secrets(text),
            store: StoreKind::of_address(text),
            problem: crate::error::StoreProblem::Unsupported,
            message: "this program was built without object stores (feature `cloud`)".to_owned(),
        })
    }

    fn local(path: &Path) -> Self {
        let split = || split_pattern(path.to_str()?, &['*', '?', '[', '{']);
        match split().filter(|_| !path.exists()) {
            Some((root, pattern)) => {
                let root = if root.is_empty() { "." } else { root };
                Self { inner: Inner::Local(root.into()), pattern }
            }
            None => Self { inner: Inner::Local(path.to_owned()), pattern: None },
        }
    }

    /// The location of files that are named one by one; `None` if they are not files on this machine.
    ///
    /// # Errors
    /// If their folder cannot be read.
    pub fn of_files(files: &BTreeSet<&PathBuf>) -> io::Result<Option<Self>> {
        let Some(mut root) = files.first().and_then(|file| file.parent()) else { return Ok(None) };
        while !files.iter().all(|file| file.starts_with(root)) {
            let Some(above) = root.parent() else { return Ok(None) };
            root = above;
        }
        let names: Option<BTreeSet<&str>> =
            files.iter().map(|file| file.strip_prefix(root).ok()?.to_str()).collect();
        let Some(names) = names else { return Ok(None) };
        let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        // Folders below are not listed, so only names in the folder itself may become a wildcard.
        let is_flat = names.iter().all(|name| !name.contains('/'));
        let listed = root.read_dir()?.map(|entry| Ok(entry?.file_name()));
        let listed: Vec<OsString> = listed.collect::<io::Result<_>>()?;
        let others = listed.iter().filter_map(|name| name.to_str());
        let text =
            if is_flat { pattern::selecting(&names, others) } else { pattern::listing(&names) };
        Ok(Pattern::new(&text)
            .map(|pattern| Self { inner: Inner::Local(root.to_owned()), pattern: Some(pattern) }))
    }

    /// Returns whether a path stands for stdin.
    pub fn is_stdin(path: impl AsRef<Path>) -> bool {
        stdin::is_stdin(path.as_ref())
    }

    /// Returns whether a path is an address.
    pub fn is_address(path: impl AsRef<Path>) -> bool {
        address(path.as_ref()).is_some()
    }

    /// Returns whether the run is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.inner, Inner::Local(_))
    }

    /// Selects files of the folder at the location.
    pub(crate) fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }

    /// The folder or file at the location, without its pattern.
    #[must_use]
    pub fn root(&self) -> Self {
        Self { inner: self.inner.clone(), pattern: None }
    }

    /// The folder or file at the location. Uses the network for addresses.
    pub(crate) fn place(&self, options: &Options) -> Result<Place, Error> {
        match &self.inner {
            Inner::Local(path) => match (Place::local(path), unknown_scheme(path)) {
                (Err(Error::Io { .. }), Some(scheme)) => Err(Error::UnknownScheme {
                    address: without_secrets(&path.to_string_lossy()),
                    scheme: scheme.to_owned(),
                }),
                (place, _) => place,
            },
            Inner::Stdin(stdin) => {
                let file = stdin.file(options.max_json_bytes)?;
                Ok(Place::File { file: File::Temporary(file), name: stdin::NAME.to_owned() })
            }
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => Ok(match address.place(options.timeout)? {
                remote::Place::Object(object, name) => {
                    Place::File { file: File::Remote(object), name }
                }
                remote::Place::Folder(folder) => Place::Folder(Folder::Remote(folder)),
            }),
        }
    }

    /// The folder at the location. A folder on this machine may not exist.
    pub(crate) fn folder(&self, timeout: Option<Duration>) -> Result<Folder, Error> {
        #[cfg(not(feature = "cloud"))]
        let _ = timeout;
        match &self.inner {
            Inner::Local(path) => Ok(Folder::Local(path.clone())),
            Inner::Stdin(_) => {
                Err(Error::read(stdin::NAME, io::Error::from(io::ErrorKind::NotADirectory)))
            }
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => Ok(Folder::Remote(address.folder(timeout)?)),
        }
    }

    /// One of the files of the run, by its name in the run.
    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        match self.place(&Options::default())? {
            Place::File { file, .. } => Ok(file),
            Place::Folder(folder) => folder.file(name),
        }
    }
}

impl fmt::Display for Location {
    /// The location as given, without secrets: the query of an address may be a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Inner::Local(path) => write!(f, "{}", path.display())?,
            Inner::Stdin(_) => f.write_str(stdin::NAME)?,
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => write!(f, "{address}")?,
        }
        match &self.pattern {
            Some(pattern) => write!(f, "/{pattern}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

/// The folder before the first of the `marks`, and the pattern from there on.
fn split_pattern<'a>(text: &'a str, marks: &[char]) -> Option<(&'a str, Option<Pattern>)> {
    let at = text.find(marks)?;
    let (root, pattern) = match text[..at].rfind('/') {
        Some(0) => ("/", &text[1..]),
        Some(slash) => (&text[..slash], &text[slash + 1..]),
        None => ("", text),
    };
    Some((root, Some(Pattern::new(pattern)?)))
}

/// The text of a path, if it is an address.
fn address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    StoreKind::of_scheme(scheme).map(|_| text)
}

/// The scheme of a path that is written like an address, `hdfs://cluster/run`, but of no known store.
fn unknown_scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    // One letter is a drive.
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (is_scheme && StoreKind::of_scheme(scheme).is_none()).then_some(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scheme_ignores_paths_and_known_stores() {
        assert_eq!(unknown_scheme(Path::new("hdfs://cluster/run")), Some("hdfs"));
        for path in ["s3://bucket", "./hdfs://x", "C:\\run", "C://run", "run/", "://x"] {
            assert_eq!(unknown_scheme(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn is_address_distinguishes_addresses_from_paths() {
        for address in ["s3://bucket/run/", "S3://bucket", "https://host/a.json", "az://c/x"] {
            assert!(Location::is_address(address), "{address}");
        }
        for path in ["run/", "C:\\run", "./s3://bucket", "/s3://x", "s3:", "s3:/bucket", "file"] {
            assert!(!Location::is_address(path), "{path}");
        }
    }
}
