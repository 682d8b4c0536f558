//! Objects: opened by reading their first bytes, which also determine the format.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange};

use super::fetch::{Source, Version};
use super::readers::{RangeReader, StreamReader};
use super::store::{PART_BYTES, Pending, Store, all};
use crate::error::{StoreError, StoreProblem};
use crate::input::limits::HEAD_BYTES;

/// An object that is read.
#[derive(Debug)]
pub(crate) struct Object {
    store: Arc<Store>,
    path: Path,
    /// Its length in bytes; as listed until it is opened.
    bytes: u64,
    version: Version,
    /// Its first bytes, at most [`HEAD_BYTES`]; all of it if it is that short.
    head: Vec<u8>,
    /// The server does not support ranges.
    is_whole_only: bool,
    /// The complete content, requested ahead.
    ahead: Mutex<Option<Pending<Vec<u8>>>>,
}

/// Response to the first request.
struct Opened {
    version: Version,
    head: Vec<u8>,
    is_whole_only: bool,
}

impl Object {
    /// An object from a listing; its content has not been accessed.
    pub(super) fn listed(store: &Arc<Store>, path: Path, bytes: u64) -> Self {
        Self {
            store: store.clone(),
            path,
            bytes,
            version: Version::default(),
            head: Vec::new(),
            is_whole_only: false,
            ahead: Mutex::default(),
        }
    }

    /// Opens the object at a path.
    pub(super) fn open(store: &Arc<Store>, path: &Path) -> Result<Self, StoreError> {
        let opened = store.start(begin(store.clone(), path.clone())).wait()?;
        let mut object = Self::listed(store, path.clone(), 0);
        object.opened(opened);
        Ok(object)
    }

    fn opened(&mut self, opened: Opened) {
        self.bytes = opened.version.bytes;
        self.version = opened.version;
        self.head = opened.head;
        self.is_whole_only = opened.is_whole_only;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The version identifier of the store, as far as it is known without opening the object.
    pub(crate) fn version_text(&self) -> String {
        self.version.text()
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The first bytes, at most [`HEAD_BYTES`].
    pub(crate) fn head(&self, want: usize) -> Vec<u8> {
        self.head[..want.min(self.head.len())].to_vec()
    }

    fn is_all_here(&self) -> bool {
        self.head.len() as u64 == self.bytes
    }

    fn source(&self) -> Source {
        Source { store: self.store.clone(), path: self.path.clone(), version: self.version.clone() }
    }

    /// Returns whether the object is small enough to be prefetched as a whole.
    pub(super) fn is_small(&self) -> bool {
        self.bytes <= PART_BYTES && !self.is_whole_only && !self.is_all_here()
    }

    /// Starts to fetch the complete object.
    pub(super) fn fetch_ahead(&self) {
        let pending = self.store.start(self.source().fetch(0..self.bytes));
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = Some(pending);
    }

    /// All of it.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ahead) = ahead {
            return Ok(ahead.wait()?);
        }
        let mut bytes = Vec::with_capacity(self.bytes as usize);
        self.reader().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Its bytes from first to last.
    pub(crate) fn reader(&self) -> Box<dyn Read + Send> {
        if self.is_all_here() {
            return Box::new(io::Cursor::new(self.head.clone()));
        }
        if self.is_whole_only {
            return Box::new(StreamReader::new(self.source()));
        }
        Box::new(RangeReader::new(self.source()))
    }
}

/// Opens several objects of one store at once; an object that cannot be opened stays as it was listed.
pub(crate) fn open_all(objects: &mut [&mut Object]) -> Vec<io::Result<()>> {
    let Some(store) = objects.first().map(|object| object.store.clone()) else {
        return Vec::new();
    };
    let requests = objects.iter().map(|object| {
        let (store, path, bytes) = (object.store.clone(), object.path.clone(), object.bytes);
        async move {
            // Stores refuse ranges of empty objects.
            if bytes == 0 { Ok(None) } else { begin(store, path).await.map(Some) }
        }
    });
    let results = match all(&store, requests.collect()) {
        Ok(results) => results,
        Err(error) => objects.iter().map(|_| Err(error.clone())).collect(),
    };
    let opened = objects.iter_mut().zip(results).map(|(object, result)| {
        if let Some(opened) = result? {
            object.opened(opened);
        }
        Ok(())
    });
    opened.collect()
}

/// Requests the first bytes; the response also has the length and the version.
async fn begin(store: Arc<Store>, path: Path) -> Result<Opened, StoreError> {
    let range = Some(GetRange::Bounded(0..HEAD_BYTES as u64));
    let options = GetOptions { range, ..GetOptions::default() };
    let (result, is_whole_only) = match store.objects.get_opts(&path, options).await {
        Ok(result) => (result, false),
        Err(error) => {
            let error = StoreError::from(error);
            let is_range = error.problem == StoreProblem::Unsupported;
            if !is_range {
                return Err(error);
            }
            // Either the server does not support ranges, or the object is empty.
            match store.objects.get_opts(&path, GetOptions::default()).await {
                Ok(result) => (result, true),
                Err(_) => return Err(error),
            }
        }
    };
    let version = Version::of(&result.meta);
    let mut head = Vec::new();
    let mut pieces = result.into_stream();
    while head.len() < HEAD_BYTES
        && let Some(piece) = pieces.next().await
    {
        let piece = piece.map_err(StoreError::from)?;
        store.count(piece.len());
        head.extend_from_slice(&piece);
    }
    head.truncate(HEAD_BYTES);
    let is_whole_only = is_whole_only && head.len() as u64 != version.bytes;
    Ok(Opened { version, head, is_whole_only })
}
