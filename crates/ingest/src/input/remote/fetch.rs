//! Fetches ranges of one version of an object.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use super::store::Store;
use crate::error::{StoreError, StoreProblem};

/// Attempts in a row without data, and interruptions in total, after which a range fails.
const ATTEMPTS: u32 = 3;
const BREAKS: u32 = 50;

/// Version of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) bytes: u64,
    e_tag: Option<String>,
    modified: i64,
}

impl Version {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self {
            bytes: meta.size,
            e_tag: meta.e_tag.clone(),
            modified: meta.last_modified.timestamp_millis(),
        }
    }

    /// Distinguishes versions of the same length.
    pub(super) fn text(&self) -> String {
        self.e_tag.clone().unwrap_or_else(|| self.modified.to_string())
    }

    /// The tag for `If-Match`. Weak tags never match.
    fn strong_tag(&self) -> Option<String> {
        self.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
}

/// One version of an object in a store.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) store: Arc<Store>,
    pub(super) path: Path,
    pub(super) version: Version,
}

impl Source {
    /// Fetches a range, resuming after interruptions.
    pub(super) async fn fetch(self, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let length = (range.end - range.start) as usize;
        let mut bytes = Vec::with_capacity(length);
        let (mut failures, mut breaks) = (0, 0);
        while bytes.len() < length {
            let before = bytes.len();
            let from = range.start + before as u64;
            let error = match self.fetch_some(from..range.end, &mut bytes).await {
                Ok(()) if bytes.len() >= length => break,
                Ok(()) => StoreError::new(StoreProblem::Unreachable, "the answer ended early"),
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            failures = if bytes.len() > before { 1 } else { failures + 1 };
            breaks += 1;
            if failures >= ATTEMPTS || breaks >= BREAKS {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(100) * 2_u32.pow(failures)).await;
        }
        bytes.truncate(length);
        Ok(bytes)
    }

    async fn fetch_some(&self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<(), StoreError> {
        let options = GetOptions {
            if_match: self.version.strong_tag(),
            range: Some(GetRange::Bounded(range)),
            ..GetOptions::default()
        };
        let mut pieces = self.get(options).await?.into_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(StoreError::from)?;
            self.store.count(piece.len());
            bytes.extend_from_slice(&piece);
        }
        Ok(())
    }

    pub(super) async fn get(&self, options: GetOptions) -> Result<GetResult, StoreError> {
        let result = self.store.objects.get_opts(&self.path, options).await;
        let result = result.map_err(|error| match StoreError::from(error) {
            StoreError { problem: StoreProblem::NotFound, .. } => StoreError::new(
                StoreProblem::Changed,
                "the object was deleted while it was being read",
            ),
            error => error,
        })?;
        if Version::of(&result.meta) != self.version {
            return Err(StoreError::changed());
        }
        Ok(result)
    }
}
