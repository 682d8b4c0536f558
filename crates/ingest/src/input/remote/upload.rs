//! Writes objects.

use std::path::PathBuf;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutMode, PutPayload, WriteMultipart};

use super::folder::Folder;
use super::store::Store;
use crate::error::{Error, StoreError, StoreProblem};

/// Objects that are written at once.
const OBJECTS_AT_ONCE: usize = 16;
/// Larger files are uploaded in parts of this size.
const PART_BYTES: usize = 16 << 20;
/// Parts of one object that are uploaded at once.
const PARTS_AT_ONCE: usize = 4;

impl Folder {
    /// Uploads files, each to its name below this folder. Objects of these names are replaced.
    pub(crate) fn upload(&self, files: Vec<(String, PathBuf)>) -> Result<(), Error> {
        let failed = |error: StoreError| error.at_output(self.shown.clone());
        let uploads: Vec<(Path, PathBuf)> = files
            .into_iter()
            .map(|(name, file)| Ok((self.path_of(&name)?, file)))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        let store = Arc::clone(&self.store);
        let uploaded = self.store.start(async move {
            let upload = |(path, file)| upload(Arc::clone(&store), path, file);
            let uploads = futures::stream::iter(uploads).map(upload);
            uploads.buffer_unordered(OBJECTS_AT_ONCE).try_collect::<()>().await
        });
        uploaded.wait().map_err(failed)
    }

    /// Writes an object below this folder unless there is one of this name, which stays.
    pub(crate) fn create(&self, name: &str, content: Vec<u8>) -> Result<(), Error> {
        let failed = |error: StoreError| error.at_output(self.shown.clone());
        let path = self.path_of(name).map_err(failed)?;
        let objects = Arc::clone(&self.store.objects);
        let created = self.store.start(async move {
            let payload = PutPayload::from(content);
            match objects.put_opts(&path, payload.clone(), PutMode::Create.into()).await {
                Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
                // Stores without conditional writes: another process writes the same content.
                Err(
                    object_store::Error::NotImplemented { .. }
                    | object_store::Error::NotSupported { .. },
                ) => Ok(objects.put(&path, payload).await.map(drop)?),
                created => Ok(created.map(drop)?),
            }
        });
        created.wait().map_err(failed)
    }
}

async fn upload(store: Arc<Store>, path: Path, file: PathBuf) -> Result<(), StoreError> {
    let read_error = |e: std::io::Error| {
        StoreError::new(StoreProblem::Other, format!("cannot read {}: {e}", file.display()))
    };
    // Files are short: a larger one is the table of one rank.
    let content = std::fs::read(&file).map_err(read_error)?;
    if content.len() <= PART_BYTES {
        store.objects.put(&path, PutPayload::from(content)).await?;
        return Ok(());
    }
    let content = bytes::Bytes::from(content);
    let parts = store.objects.put_multipart(&path).await?;
    let mut parts = WriteMultipart::new_with_chunk_size(parts, PART_BYTES);
    for start in (0..content.len()).step_by(PART_BYTES) {
        parts.wait_for_capacity(PARTS_AT_ONCE).await?;
        parts.put(content.slice(start..content.len().min(start + PART_BYTES)));
    }
    parts.finish().await?;
    Ok(())
}
