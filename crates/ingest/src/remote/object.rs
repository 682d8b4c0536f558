//! Objects: their first bytes, all of them, or one after the other in ranges that are fetched ahead.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta};

use super::error::StoreError;
use super::store::{Pending, Store, all};
use crate::discover::PREFIX;
use crate::error::StoreProblem;
use crate::storage::{Entry, File};

/// Bytes asked for at a time.
pub(super) const PART: u64 = 8 << 20;
/// Parts on their way for one reader.
const PARTS_AHEAD: usize = 4;
/// How often in a row a range may bring nothing before it is given up.
const ATTEMPTS: u32 = 3;

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

/// What tells one version of an object from the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Version {
    bytes: u64,
    e_tag: Option<String>,
    modified: i64,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Self {
        Self {
            bytes: meta.size,
            e_tag: meta.e_tag.clone(),
            modified: meta.last_modified.timestamp_millis(),
        }
    }

    /// The tag that a store compares for us. Weak ones never match there.
    fn strong_tag(&self) -> Option<String> {
        self.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }
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
            return Box::new(Whole {
                source: self.source(),
                stream: None,
                at: 0,
                piece: Vec::new(),
            });
        }
        Box::new(Parts {
            source: self.source(),
            next: 0,
            coming: VecDeque::new(),
            part: Vec::new(),
            at: 0,
        })
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

/// Where the bytes of one version of an object come from.
#[derive(Debug, Clone)]
struct Source {
    store: Arc<Store>,
    path: Path,
    version: Version,
}

impl Source {
    /// Fetches a range; what breaks off is taken up where it did.
    async fn fetch(self, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let length = (range.end - range.start) as usize;
        let mut bytes = Vec::with_capacity(length);
        let mut failures = 0;
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
            if failures >= ATTEMPTS {
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

    async fn get(&self, options: GetOptions) -> Result<GetResult, StoreError> {
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

/// Reads ranges, some of them ahead.
struct Parts {
    source: Source,
    /// Where the next range to ask for begins.
    next: u64,
    coming: VecDeque<Pending<Vec<u8>>>,
    part: Vec<u8>,
    at: usize,
}

impl Parts {
    /// Asks for ranges until enough are on their way.
    fn ask(&mut self) {
        let bytes = self.source.version.bytes;
        while self.next < bytes && self.coming.len() < PARTS_AHEAD {
            let range = self.next..(self.next + PART).min(bytes);
            self.next = range.end;
            let work = self.source.clone().fetch(range);
            self.coming.push_back(self.source.store.start(work));
        }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            self.ask();
            let Some(part) = self.coming.pop_front() else { return Ok(0) };
            self.part = part.wait()?;
            self.at = 0;
            self.ask();
        }
        let got = (&self.part[self.at..]).read(buffer)?;
        self.at += got;
        Ok(got)
    }
}

/// Reads all of an object in one answer, from a server that gives no ranges.
struct Whole {
    source: Source,
    stream: Option<BoxStream<'static, object_store::Result<Piece>>>,
    piece: Vec<u8>,
    at: usize,
}

/// What a stream of an answer consists of.
type Piece = Vec<u8>;

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let (source, stream) = (self.source.clone(), self.stream.take());
            let next = self.source.store.start(async move {
                let mut stream = match stream {
                    Some(stream) => stream,
                    None => {
                        let result = source.get(GetOptions::default()).await?;
                        result.into_stream().map(|piece| piece.map(|p| p.to_vec())).boxed()
                    }
                };
                let piece = stream.next().await.transpose()?;
                Ok((piece, stream))
            });
            let (piece, stream) = next.wait()?;
            let Some(piece) = piece else { return Ok(0) };
            self.source.store.count(piece.len());
            self.stream = Some(stream);
            (self.piece, self.at) = (piece, 0);
        }
        let got = (&self.piece[self.at..]).read(buffer)?;
        self.at += got;
        Ok(got)
    }
}
