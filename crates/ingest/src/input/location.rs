//! Where a run is: a path, or the address of a folder or an object in a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
#[cfg(feature = "cloud")]
use crate::remote::Address;
use crate::storage::Place;

/// Schemes of addresses, `scheme://...`; any other text is a path.
const SCHEMES: [&str; 10] =
    ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https"];

/// Where a run is: a path, or the address of a folder or an object in a store.
///
/// What begins with `s3://`, `gs://`, `az://`, `abfss://`, `https://` and the like is an address;
/// everything else is a path. A folder of that name is reached with `./` in front.
#[derive(Clone)]
pub struct Location(Inner);

#[derive(Clone)]
enum Inner {
    Local(PathBuf),
    #[cfg(feature = "cloud")]
    Remote(std::sync::Arc<Address>),
}

impl Location {
    /// Reads a path or an address. Nothing is looked at yet, and no network is used.
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
            problem: crate::error::StoreProblem::Unsupported,
            message: "this program was built without object stores (feature `cloud`)".to_owned(),
        })
    }

    /// Whether a path is an address.
    pub fn is_address(path: impl AsRef<Path>) -> bool {
        address(path.as_ref()).is_some()
    }

    /// Whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.0, Inner::Local(_))
    }

    /// The folder or file that is there. The network is used from here on.
    pub(crate) fn place(&self, timeout: Option<Duration>) -> Result<Place, Error> {
        #[cfg(not(feature = "cloud"))]
        let _ = timeout;
        match &self.0 {
            Inner::Local(path) => Place::local(path),
            #[cfg(feature = "cloud")]
            Inner::Remote(address) => address.place(timeout),
        }
    }

    /// One of the files of the run, by its name in the run.
    pub(crate) fn file(&self, name: &str) -> Result<crate::storage::File, Error> {
        match self.place(None)? {
            Place::File { file, .. } => Ok(file),
            Place::Folder(folder) => folder.file(name),
        }
    }
}

impl fmt::Display for Location {
    /// As it was given, but for what is secret in it: the query of an address may be a signature.
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

/// The text of a path that is an address.
fn address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(text)
}

/// An address without what may be secret in it: query, fragment, and who logs in.
pub(crate) fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    // Elsewhere `?` and `#` are letters of a key, unless somebody put a signature there.
    let at = rest.find(['?', '#']).filter(|at| is_web || rest[*at..].contains("sig"));
    let rest = &rest[..at.unwrap_or(rest.len())];
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = match host.rsplit_once('@') {
        // abfss has a container before its `@`.
        Some((who, host)) if is_web || who.contains(':') => host,
        _ => host,
    };
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        for address in ["s3://bucket/run/", "S3://bucket", "https://host/a.json", "az://c/x"] {
            assert!(Location::is_address(address), "{address}");
        }
        for path in ["run/", "C:\\run", "./s3://bucket", "/s3://x", "s3:", "s3:/bucket", "file"] {
            assert!(!Location::is_address(path), "{path}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = |text| without_secrets(text);
        assert_eq!(shown("https://host/a/b.json?X-Amz-Signature=1#f"), "https://host/a/b.json");
        assert_eq!(shown("https://me:pass@host?sig=2"), "https://host");
        assert_eq!(shown("https://host/a@b/c"), "https://host/a@b/c");
        assert_eq!(shown("s3://bucket/what?/#1"), "s3://bucket/what?/#1");
        assert_eq!(shown("s3://key:secret@bucket/a"), "s3://bucket/a");
        assert_eq!(shown("az://files/a.json?sv=1&sig=secret"), "az://files/a.json");
        assert_eq!(
            shown("abfss://files@me.dfs.core.windows.net/x"),
            "abfss://files@me.dfs.core.windows.net/x"
        );
    }
}
