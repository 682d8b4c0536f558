//! Addresses of objects and folders in stores.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::ObjectStoreScheme;
use object_store::path::Path;
use url::Url;

use super::connect::{self, Kind};
use super::folder::Folder;
use super::object::Object;
use super::store::Store;
use crate::error::{Error, StoreError, StoreProblem};
use crate::input::secrets::without_secrets;

/// An address, and a connection to its store once it is needed.
pub(crate) struct Address {
    kind: Kind,
    /// URL of the connection: a bucket or container, or the complete web address.
    url: Url,
    path: Path,
    /// It ends in `/`, or names a bucket.
    is_folder: bool,
    /// Without secrets.
    shown: String,
    store: OnceLock<Arc<Store>>,
    /// The address was found to be a folder.
    found: OnceLock<bool>,
}

/// The content at an address.
pub(crate) enum Place {
    /// An object, with the name of its file.
    Object(Object, String),
    Folder(Folder),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let shown = without_secrets(text);
        let malformed =
            |message: String| StoreError::new(StoreProblem::Unsupported, message).at(shown.clone());
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let scheme = scheme.to_ascii_lowercase();
        if scheme == "http" || scheme == "https" {
            return Self::web(text, shown.clone()).map_err(malformed);
        }
        // Keys are used literally, as the tools of the stores do.
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let url = Url::parse(&format!("{scheme}://{bucket}"))
            .map_err(|e| malformed(format!("not an address: {e}")))?;
        let kind = match ObjectStoreScheme::parse(&url) {
            Ok((ObjectStoreScheme::AmazonS3, _)) => Kind::S3,
            Ok((ObjectStoreScheme::GoogleCloudStorage, _)) => Kind::Google,
            Ok((ObjectStoreScheme::MicrosoftAzure, _)) => Kind::Azure,
            _ => return Err(malformed("there is no bucket in this address".to_owned())),
        };
        let path = Path::parse(key).map_err(|e| malformed(e.to_string()))?;
        let is_folder = key.is_empty() || key.ends_with('/');
        Ok(Self::new(kind, url, path, is_folder, shown))
    }

    fn new(kind: Kind, url: Url, path: Path, is_folder: bool, shown: String) -> Self {
        Self { kind, url, path, is_folder, shown, store: OnceLock::new(), found: OnceLock::new() }
    }

    /// `https://...`: a store with a known host, else any web server.
    fn web(text: &str, shown: String) -> Result<Self, String> {
        let mut url = Url::parse(text).map_err(|e| format!("not an address: {e}"))?;
        url.set_fragment(None);
        // A query is a signature: the address must be requested unchanged.
        let (scheme, path) = match ObjectStoreScheme::parse(&url) {
            Ok(known) if url.query().is_none() => known,
            _ => (ObjectStoreScheme::Http, Path::default()),
        };
        let is_folder = url.path().ends_with('/');
        let kind = match scheme {
            ObjectStoreScheme::AmazonS3 => Kind::S3,
            ObjectStoreScheme::MicrosoftAzure => Kind::Azure,
            _ => {
                if is_folder {
                    return Err("folders cannot be listed over https: give the address of one \
                                trace, or of a folder in a store (s3://, gs://, az://)"
                        .to_owned());
                }
                if url.scheme() == "http" && !connect::is_loopback(&url) {
                    return Err(
                        "plain http can be read and modified in transit: use https".to_owned()
                    );
                }
                return Ok(Self::new(Kind::Web, url, Path::default(), false, shown));
            }
        };
        Ok(Self::new(kind, url, path, is_folder, shown))
    }

    fn store(&self, timeout: Option<Duration>) -> Result<&Arc<Store>, Error> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = connect::connect(self.kind, &self.url, timeout)
            .map_err(|error| error.at(self.shown.clone()))?;
        Ok(self.store.get_or_init(|| Arc::new(store)))
    }

    /// The object of this name, else the folder.
    pub(crate) fn place(&self, timeout: Option<Duration>) -> Result<Place, Error> {
        let store = self.store(timeout)?;
        if self.is_folder || self.found.get() == Some(&true) {
            return Ok(Place::Folder(self.folder(timeout)?));
        }
        let found = Object::open(store, &self.path);
        let found = match found {
            Err(error) if error.problem == StoreProblem::NotFound && self.kind != Kind::Web => None,
            found => Some(found.map_err(|error| error.at(self.shown.clone()))?),
        };
        match found {
            // Some stores have empty objects where folders are.
            Some(object) if object.bytes() > 0 || self.kind == Kind::Web => {
                let name = self.file_name();
                Ok(Place::Object(object, name))
            }
            _ => {
                let _ = self.found.set(true);
                Ok(Place::Folder(self.folder(timeout)?))
            }
        }
    }

    /// The folder, whether there is one or not.
    pub(crate) fn folder(&self, timeout: Option<Duration>) -> Result<Folder, Error> {
        let store = self.store(timeout)?.clone();
        Ok(Folder { store, path: self.path.clone(), shown: self.shown.clone() })
    }

    fn file_name(&self) -> String {
        let name = self.shown.rsplit('/').next().unwrap_or_default();
        match self.path.filename() {
            Some(name) => name.to_owned(),
            None => name.to_owned(),
        }
    }
}
