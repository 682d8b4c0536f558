//! Objects: their first bytes, which say what they are, and where all others come from.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange};

use super::error::StoreError;
use super::fetch::{Source, Version};
use super::readers::{Parts, Whole};
use super::store::{Pending, Store, all};
use crate::discover::PREFIX;
use crate::error::StoreProblem;
use crate::storage::{Entry, File};

/// Bytes asked for at a time.
pub(super) const PART: u64 = 8 << 20;

/// An object that is read.
#[derive(Debug)]
pub(crate) struct Object {
    store: Arc<Store>,
    path: Path,
    /// Its length; as listed until it is opened.
    bytes: u64,
    version: Version,
    /// Its first bytes, at most [`PREFIX`]; all of it if it is that short.
    head: Vec<u8>,
    /// The server gives only all of it.
    is_whole_only: bool,
    /// All of it, on its way.
    ahead: Mutex<Option<Pending<Vec<u8>>>>,
}

/// What the first request brought.
struct Opened {
    version: Version,
    head: Vec<u8>,
    is_whole_only: bool,
}

impl Object {
    /// An object as a listing has it; its content is not looked at yet.
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

    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The first bytes, at most [`PREFIX`].
    pub(crate) fn head(&self, want: usize) -> Vec<u8> {
        self.head[..want.min(self.head.len())].to_vec()
    }

    fn is_all_here(&self) -> bool {
        self.head.len() as u64 == self.bytes
    }

    fn source(&self) -> Source {
        Source { store: self.store.clone(), path: self.path.clone(), version: self.version.clone() }
    }

    /// Whether it is worth fetching before anybody asks.
    pub(super) fn is_small(&self) -> bool {
        self.bytes <= PART && !self.is_whole_only && !self.is_all_here()
    }

    /// Starts to fetch all of it.
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
            return Box::new(Whole::new(self.source()));
        }
        Box::new(Parts::new(self.source()))
    }
}

/// Opens several objects at once; an object that cannot be opened stays as it was listed.
pub(crate) fn open_all(entries: Vec<Entry>) -> Vec<(Entry, io::Result<()>)> {
    let work = entries.iter().filter_map(|entry| match &entry.file {
        File::Remote(object) => Some((object.store.clone(), object.path.clone(), object.bytes)),
        File::Local(_) => None,
    });
    let work: Vec<_> = work.collect();
    let Some((store, ..)) = work.first() else { return Vec::new() };
    let store = store.clone();
    let work = work.into_iter().map(|(store, path, bytes)| async move {
        // Nothing can be asked of what is empty.
        if bytes == 0 { Ok(None) } else { begin(store, path).await.map(Some) }
    });
    let results = match all(&store, work.collect()) {
        Ok(results) => results,
        Err(error) => entries.iter().map(|_| Err(error.clone())).collect(),
    };
    let opened = entries.into_iter().zip(results).map(|(mut entry, result)| {
        let result = result.map(|opened| {
            if let (File::Remote(object), Some(opened)) = (&mut entry.file, opened) {
                entry.bytes = opened.version.bytes;
                object.opened(opened);
            }
        });
        (entry, result.map_err(io::Error::from))
    });
    opened.collect()
}

/// Asks for the first bytes: they say what it is, how long, and which version.
async fn begin(store: Arc<Store>, path: Path) -> Result<Opened, StoreError> {
    let range = Some(GetRange::Bounded(0..PREFIX as u64));
    let options = GetOptions { range, ..GetOptions::default() };
    let (result, is_whole_only) = match store.objects.get_opts(&path, options).await {
        Ok(result) => (result, false),
        Err(error) => {
            let error = StoreError::from(error);
            let is_range = error.problem == StoreProblem::Unsupported;
            if !is_range {
                return Err(error);
            }
            // Either it gives no ranges, or there is not a byte to give.
            match store.objects.get_opts(&path, GetOptions::default()).await {
                Ok(result) => (result, true),
                Err(_) => return Err(error),
            }
        }
    };
    let version = Version::of(&result.meta);
    let mut head = Vec::new();
    let mut pieces = result.into_stream();
    while head.len() < PREFIX
        && let Some(piece) = pieces.next().await
    {
        let piece = piece.map_err(StoreError::from)?;
        store.count(piece.len());
        head.extend_from_slice(&piece);
    }
    head.truncate(PREFIX);
    let is_whole_only = is_whole_only && head.len() as u64 != version.bytes;
    Ok(Opened { version, head, is_whole_only })
}
