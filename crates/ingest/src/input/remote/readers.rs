//! Reads the bytes of an object in order: in ranges that are prefetched, or in one response.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::GetOptions;

use super::fetch::Source;
use super::store::{PART_BYTES, Pending, Store};

/// Parts in flight for one reader.
const PARTS_AHEAD: usize = 4;
/// Parts in flight for all readers of a store; each reader may always have one.
const PARTS_AT_ONCE: usize = 24;

/// Counts a part in flight while it exists.
struct InFlightGuard {
    store: Arc<Store>,
    /// Parts in flight, this one included.
    number: usize,
}

impl InFlightGuard {
    fn take(store: &Arc<Store>) -> Self {
        let number = store.parts.fetch_add(1, Ordering::Relaxed) + 1;
        Self { store: store.clone(), number }
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.store.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads an object in ranges, and requests the next ones ahead.
pub(super) struct RangeReader {
    source: Source,
    /// Start of the next range to request.
    next: u64,
    coming: VecDeque<(Pending<Vec<u8>>, InFlightGuard)>,
    part: Vec<u8>,
    at: usize,
}

impl RangeReader {
    pub(super) fn new(source: Source) -> Self {
        Self { source, next: 0, coming: VecDeque::new(), part: Vec::new(), at: 0 }
    }

    /// Requests ranges until enough are in flight.
    fn ask(&mut self) {
        let bytes = self.source.version.bytes;
        let store = &self.source.store;
        while self.next < bytes && self.coming.len() < PARTS_AHEAD {
            let ticket = InFlightGuard::take(store);
            if ticket.number > PARTS_AT_ONCE && !self.coming.is_empty() {
                break;
            }
            let range = self.next..(self.next + PART_BYTES).min(bytes);
            self.next = range.end;
            let work = self.source.clone().fetch(range);
            self.coming.push_back((store.start(work), ticket));
        }
    }
}

impl Read for RangeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            self.ask();
            let Some((part, ticket)) = self.coming.pop_front() else { return Ok(0) };
            // Frees the last part before the next one arrives.
            self.part = Vec::new();
            self.part = part.wait()?;
            drop(ticket);
            self.at = 0;
            self.ask();
        }
        let got = (&self.part[self.at..]).read(buffer)?;
        self.at += got;
        Ok(got)
    }
}

/// Reads an object in one response, from a server that does not support ranges.
pub(super) struct StreamReader {
    source: Source,
    stream: Option<BoxStream<'static, object_store::Result<Piece>>>,
    piece: Vec<u8>,
    at: usize,
}

impl StreamReader {
    pub(super) fn new(source: Source) -> Self {
        Self { source, stream: None, piece: Vec::new(), at: 0 }
    }
}

/// A piece of a response.
type Piece = Vec<u8>;

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let (source, stream) = (self.source.clone(), self.stream.take());
            let next = self.source.store.start(async move {
                let mut stream = if let Some(stream) = stream {
                    stream
                } else {
                    let result = source.get(GetOptions::default()).await?;
                    result.into_stream().map(|piece| piece.map(|p| p.to_vec())).boxed()
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
