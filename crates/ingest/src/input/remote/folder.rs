//! Folders in object stores.

use std::sync::Arc;

use object_store::path::Path;

use super::object::Object;
use super::store::Store;
use crate::error::{Error, StoreError, StoreProblem};

/// A folder with more objects than this is not a run.
const MAX_OBJECTS: usize = 20_000;

/// An object of a folder.
pub(crate) struct ListedObject {
    pub(crate) object: Object,
    /// Path below the folder that is searched, with `/`.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A folder in a store.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(super) store: Arc<Store>,
    pub(super) path: Path,
    /// Its address, without secrets.
    pub(super) shown: String,
}

impl Folder {
    /// The objects and folders in a folder of this one, in order of their names.
    pub(crate) fn list(&self, folder: &Self) -> Result<(Vec<ListedObject>, Vec<Self>), Error> {
        let (objects, path) = (self.store.objects.clone(), folder.path.clone());
        let listed =
            self.store.start(async move { Ok(objects.list_with_delimiter(Some(&path)).await?) });
        let listed = listed.wait().map_err(|error| error.at(self.shown.clone()))?;
        // Some stores have an object with the name of the folder.
        let mut metas: Vec<_> =
            listed.objects.into_iter().filter(|meta| meta.location != folder.path).collect();
        if metas.len() > MAX_OBJECTS {
            let message =
                format!("the folder has {} objects: give the folder of one run", metas.len());
            return Err(StoreError::new(StoreProblem::Unsupported, message).at(self.shown.clone()));
        }
        if metas.is_empty() && listed.common_prefixes.is_empty() && folder.path == self.path {
            let message = "there is neither an object nor a folder of this name";
            return Err(StoreError::new(StoreProblem::NotFound, message).at(self.shown.clone()));
        }
        metas.sort_by(|a, b| a.location.cmp(&b.location));
        let below = self.path.as_ref();
        let files = metas.into_iter().map(|meta| {
            let key = meta.location.as_ref();
            let name = key.strip_prefix(below).unwrap_or(key).trim_start_matches('/').to_owned();
            let object = Object::listed(&self.store, meta.location, meta.size);
            ListedObject { object, name, bytes: meta.size }
        });
        let folder = |path| Self { store: self.store.clone(), path, shown: self.shown.clone() };
        Ok((files.collect(), listed.common_prefixes.into_iter().map(folder).collect()))
    }

    /// Its name: the last part of its address.
    pub(crate) fn name(&self) -> String {
        self.path.filename().unwrap_or_default().to_owned()
    }

    /// Its address, without secrets.
    pub(crate) fn shown(&self) -> String {
        self.shown.clone()
    }

    /// An object of this folder, by its name below it.
    pub(crate) fn object(&self, name: &str) -> Result<Object, Error> {
        let shown = || format!("{}/{name}", self.shown.trim_end_matches('/'));
        let path = self.path_of(name).map_err(|error| error.at(shown()))?;
        Object::open(&self.store, &path).map_err(|error| error.at(shown()))
    }

    /// The path of an object, by its name below this folder.
    pub(super) fn path_of(&self, name: &str) -> Result<Path, StoreError> {
        let path = Path::parse(format!("{}/{name}", self.path));
        path.map_err(|e| StoreError::new(StoreProblem::Unsupported, e.to_string()))
    }
}
