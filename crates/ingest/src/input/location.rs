//! Locations of runs: paths, and addresses of folders or objects in a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, StoreKind};
#[cfg(feature = "cloud")]
use crate::input::remote::{self, Address};
use crate::input::secrets::without_secrets;
#[cfg(feature = "cloud")]
use crate::input::storage::Folder;
use crate::input::storage::{File, Place};

/// The location of a run: a path, or the address of a folder or an object in a store.
///
/// Text that starts with `s3://`, `gs://`, `az://`, `abfss://`, `https://` and the like is an address;
/// any other text is a path. For a folder with such a name, write `./` in front.
#[derive(Clone)]
pub struct Location(Inner);

#[derive(Clone)]
enum Inner {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Remote(std::sync::Arc<Address>),
}

impl Location {
    /// Reads a path or an address. Accesses neither the disk nor the network.
    ///
    /// # Errors
    /// If an address is malformed, or this program was built without stores.
    pub fn parse(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let Some(text) = address(path) else {
            return Ok(Self(Inner::Local(path.to_owned())));
        };
        #[cfg(feature = "cloud")]
        return Address::parse(text).map(|address| Self(Inner::Remote(address.into())));
        #[cfg(not(feature = "cloud"))]
        Err(Error::Store {
            address: without_secrets(text),
            store: StoreKind::of_address(text),
            problem: crate::error::StoreProblem::Unsupported,
            message: "this program was built without object stores (feature `cloud`)".to_owned(),
        })
    }

    /// Returns whether a path is an address.
    pub fn is_address(path: impl AsRef<Path>) -> bool {
        address(path.as_ref()).is_some()
    }

    /// Returns whether the run is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.0, Inner::Local(_))
    }

    /// The folder or file at the location. Uses the network for addresses.
    pub(crate) fn place(&self, timeout: Option<Duration>) -> Result<Place, Error> {
        #[cfg(not(feature = "cloud"))]
        let _ = timeout;
        match &self.0 {
            Inner::Local(path) => match (Place::local(path), unknown_scheme(path)) {
                (Err(Error::Io { .. }), Some(scheme)) => Err(Error::UnknownScheme {
                    address: without_secrets(&path.to_string_lossy()),
                    scheme: scheme.to_owned(),
                }),
                (place, _) => place,
            },
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => Ok(match address.place(timeout)? {
                remote::Place::Object(object, name) => {
                    Place::File { file: File::Remote(object), name }
                }
                remote::Place::Folder(folder) => Place::Folder(Folder::Remote(folder)),
            }),
        }
    }

    /// One of the files of the run, by its name in the run.
    pub(crate) fn file(&self, name: &str) -> Result<File, Error> {
        match self.place(None)? {
            Place::File { file, .. } => Ok(file),
            Place::Folder(folder) => folder.file(name),
        }
    }
}

impl fmt::Display for Location {
    /// The location as given, without secrets: the query of an address may be a signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Local(path) => write!(f, "{}", path.display()),
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => write!(f, "{address}"),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
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
