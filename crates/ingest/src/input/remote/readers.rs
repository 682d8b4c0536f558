//! The bytes of an object from first to last: in ranges that are fetched ahead, or in one answer.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::GetOptions;

use super::fetch::Source;
use super::object::PART;
use super::store::{Pending, Store};

/// Parts on their way for one reader.
const PARTS_AHEAD: usize = 4;
/// Parts on their way for all readers of a store; each reader may always have one.
const PARTS_AT_ONCE: usize = 24;

/// A part is on its way.
struct Ticket {
    store: Arc<Store>,
    /// How many are, this one included.
    number: usize,
}

impl Ticket {
    fn take(store: &Arc<Store>) -> Self {
        let number = store.parts.fetch_add(1, Ordering::Relaxed) + 1;
        Self { store: store.clone(), number }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.store.parts.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads ranges, some of them ahead.
pub(super) struct Parts {
    source: Source,
    /// Where the next range to ask for begins.
    next: u64,
    coming: VecDeque<(Pending<Vec<u8>>, Ticket)>,
    part: Vec<u8>,
    at: usize,
}

impl Parts {
    pub(super) fn new(source: Source) -> Self {
        Self { source, next: 0, coming: VecDeque::new(), part: Vec::new(), at: 0 }
    }

    /// Asks for ranges until enough are on their way.
    fn ask(&mut self) {
        let bytes = self.source.version.bytes;
        let store = &self.source.store;
        while self.next < bytes && self.coming.len() < PARTS_AHEAD {
            let ticket = Ticket::take(store);
            if ticket.number > PARTS_AT_ONCE && !self.coming.is_empty() {
                break;
            }
            let range = self.next..(self.next + PART).min(bytes);
            self.next = range.end;
            let work = self.source.clone().fetch(range);
            self.coming.push_back((store.start(work), ticket));
        }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.part.len() {
            self.ask();
            let Some((part, ticket)) = self.coming.pop_front() else { return Ok(0) };
            // What was read makes room before more comes.
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

/// Reads all of an object in one answer, from a server that gives no ranges.
pub(super) struct Whole {
    source: Source,
    stream: Option<BoxStream<'static, object_store::Result<Piece>>>,
    piece: Vec<u8>,
    at: usize,
}

impl Whole {
    pub(super) fn new(source: Source) -> Self {
        Self { source, stream: None, piece: Vec::new(), at: 0 }
    }
}

/// What a stream of an answer consists of.
type Piece = Vec<u8>;

impl Read for Whole {
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
