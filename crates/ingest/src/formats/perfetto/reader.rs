//! Reads a file window by window.

use std::io::Read as _;

use flate2::bufread::ZlibDecoder;

use super::convert::Converted;
use super::graph_arrows;
use super::packets::{Found, MAX_PACKET, find};
use super::slices;
use super::state::{Content, Pending, State};
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, Stream, StreamEnd};
use crate::input::limits::window;
use crate::quantity::is_time;
use crate::timeline::columns::Columns;
use crate::timeline::trace::EPOCH_NS;
use crate::warnings::Issue;

/// Bytes that are read at a time.
const WINDOW: usize = window(4 << 20);
/// Room in front of a window for a packet that starts in the window before.
const HEADROOM: usize = window(64 << 10);
/// Events that wait for their conversion at most.
const MAX_PENDING: usize = window(1 << 18);
/// Longest compressed packets that are read, in bytes after decompression.
const MAX_BUNDLE: usize = MAX_PACKET;
/// Packets compress far less than this many times. Files that expand more are bombs.
const MAX_RATIO: u64 = 250;
const ALWAYS_ALLOWED: u64 = 256 << 20;

/// The content of a file.
pub(super) struct Document {
    pub(super) columns: Columns,
    /// What must be added to times to get nanoseconds since 1970, if the file says it.
    pub(super) base_time_ns: Option<i64>,
    /// GPUs with their architectures.
    pub(super) architectures: Vec<(i64, Vec<u8>)>,
    /// Bytes of packets.
    pub(super) bytes: u64,
}

/// Reads a file. Calls `advance` with the number of bytes read since the last call.
pub(super) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<Document, Unreadable> {
    let (bytes, stream) = match input {
        JsonInput::Whole(bytes) => (bytes, None),
        JsonInput::Stream(stream) => (Vec::new(), Some(stream)),
    };
    let mut reader = Reader {
        state: State::new(),
        converted: Converted::new(),
        bytes: bytes.len() as u64,
        compressed_bytes: 0,
        inflated_bytes: 0,
    };
    reader.windows(bytes, stream, advance)?;
    Ok(reader.finish())
}

struct Reader {
    state: State,
    converted: Converted,
    bytes: u64,
    /// Bytes of compressed packets, and what they expanded to.
    compressed_bytes: u64,
    inflated_bytes: u64,
}

/// Reason for which no further packet of a window was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The next packet is not all there.
    Cut,
    /// There is no packet.
    Damaged,
}

impl Reader {
    fn windows(
        &mut self,
        mut window: Vec<u8>,
        mut stream: Option<Stream>,
        advance: &dyn Fn(u64),
    ) -> Result<(), Unreadable> {
        let mut at = 0;
        let mut end = if stream.is_some() { StreamEnd::NotYet } else { StreamEnd::Complete };
        // Two buffers take turns; the unread end of one is copied in front of the bytes in the other.
        let mut spare = Vec::new();
        let mut unread_bytes = 0;
        loop {
            // While this window is read, the next one is decompressed.
            let is_more = end == StreamEnd::NotYet;
            // The window doubles while a packet is longer than it, so the total time to read the packet is linear.
            let room = if unread_bytes > WINDOW { window.len() } else { WINDOW };
            spare.resize(HEADROOM + if is_more { room } else { 0 }, 0);
            let fill = || match &mut stream {
                Some(stream) if is_more => stream.fill(&mut spare[HEADROOM..]),
                _ => (0, end),
            };
            let start = at;
            let ((filled, now), read) = rayon::join(fill, || self.packets(&window, at, true));
            let (stopped_at, stop) = read?;
            at = stopped_at;
            advance((at - start) as u64);
            self.bytes += filled as u64;
            end = now;
            if end == StreamEnd::TooLong {
                return Err(Unreadable::TooLong);
            }
            if stop == Stop::Damaged {
                self.state.issues.add(Issue::TruncatedPackets);
                return Ok(());
            }
            unread_bytes = window.len() - at;
            if filled == 0 {
                let issue = match end {
                    StreamEnd::Damaged => Some(Issue::TruncatedGzip),
                    _ if unread_bytes > 0 => Some(Issue::TruncatedPackets),
                    _ => None,
                };
                if let Some(issue) = issue {
                    self.state.issues.add(issue);
                }
                return Ok(());
            }
            spare.truncate(HEADROOM + filled);
            let unread = &window[at..];
            if let Some(room) = HEADROOM.checked_sub(unread.len()) {
                spare[room..HEADROOM].copy_from_slice(unread);
                at = room;
            } else {
                spare.splice(..HEADROOM, unread.iter().copied());
                at = 0;
            }
            std::mem::swap(&mut window, &mut spare);
        }
    }

    /// Reads the whole packets from `at` on. Returns where the next one starts, and why it was not read.
    fn packets(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        may_be_compressed: bool,
    ) -> Result<(usize, Stop), Unreadable> {
        let mut pending = Vec::new();
        let stop = loop {
            match find(bytes, at) {
                Found::Packet(range) => {
                    at = range.end;
                    match self.state.read(&bytes[range]) {
                        Content::Nothing => {}
                        Content::Event(event) => pending.push(event),
                        Content::Compressed(bundle) if may_be_compressed => {
                            self.convert(&mut pending);
                            self.bundle(bundle)?;
                        }
                        Content::Compressed(_) => self.state.issues.add(Issue::MalformedPacket),
                    }
                    if pending.len() >= MAX_PENDING {
                        self.convert(&mut pending);
                    }
                }
                Found::Other(end) => at = end,
                Found::Cut => break Stop::Cut,
                Found::Damaged => break Stop::Damaged,
            }
        };
        self.convert(&mut pending);
        Ok((at, stop))
    }

    fn convert(&mut self, pending: &mut Vec<Pending<'_>>) {
        self.state.tracks.place_new();
        self.converted.add(pending, &self.state);
        pending.clear();
        self.state.settle();
    }

    /// Reads packets that are compressed together.
    fn bundle(&mut self, compressed: &[u8]) -> Result<(), Unreadable> {
        self.compressed_bytes += compressed.len() as u64;
        let mut packets = Vec::new();
        let limit = MAX_BUNDLE as u64 + 1;
        let inflated = ZlibDecoder::new(compressed).take(limit).read_to_end(&mut packets);
        self.inflated_bytes += packets.len() as u64;
        let allowed = self.compressed_bytes.saturating_mul(MAX_RATIO).max(ALWAYS_ALLOWED);
        if packets.len() > MAX_BUNDLE || self.inflated_bytes > allowed {
            return Err(Unreadable::TooLong);
        }
        let (at, _) = self.packets(&packets, 0, false)?;
        if inflated.is_err() || at < packets.len() {
            self.state.issues.add(Issue::DamagedBundle);
        }
        Ok(())
    }

    fn finish(self) -> Document {
        let Self { state, converted, bytes, .. } = self;
        let Converted { mut columns, marks, stages, waits, architectures, .. } = converted;
        columns.issues.merge(&state.issues);
        slices::pair(&mut columns, marks);
        graph_arrows::add(&mut columns, &stages, &waits);
        for (lane, what, name) in state.tracks.labels() {
            let mut id = |bytes: &[u8]| columns.strings.intern(&String::from_utf8_lossy(bytes));
            // Lanes of names have quotes, as in JSON.
            let (pid, tid) = (id(unquoted(&lane.pid)), id(unquoted(&lane.tid)));
            let (what, name) = (id(what.as_bytes()), id(name));
            columns.labels.push((pid, tid, what, name));
        }
        let origin_ns = state.origin_ns.unwrap_or(0);
        let base_time_ns = match state.clocks.calendar_offset_ns() {
            Some(offset_ns) => origin_ns.checked_add(offset_ns),
            None => (origin_ns > EPOCH_NS).then_some(origin_ns),
        };
        let base_time_ns = base_time_ns.filter(|&ns| is_time(ns));
        Document { columns, base_time_ns, architectures, bytes }
    }
}

fn unquoted(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text)
}
