//! Reads a file window by window.

use std::io::Read as _;

use flate2::bufread::ZlibDecoder;

use super::convert::Converted;
use super::graph_arrows;
use super::packets::{Found, MAX_PACKET, find};
use super::state::{Pending, State};
use super::{rocprof, slices};
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, Stream, StreamEnd};
use crate::input::limits::window;
use crate::quantity::is_time;
use crate::timeline::columns::Columns;
use crate::timeline::trace::EPOCH_NS;
use crate::warnings::Issue;

/// Bytes that are read at once.
const WINDOW: usize = window(4 << 20);
/// Bytes reserved in front of a window for a packet that starts in the previous window.
const HEADROOM: usize = window(64 << 10);
/// Maximum pending events.
const MAX_PENDING: usize = window(1 << 18);
/// Maximum bytes of a bundle of compressed packets after decompression.
const MAX_BUNDLE: usize = MAX_PACKET;

/// The content of a file.
pub(super) struct Document {
    pub(super) columns: Columns,
    /// Offset from trace times to nanoseconds since 1970, if the file states it.
    pub(super) base_time_ns: Option<i64>,
    /// Numbers of GPUs with their architectures.
    pub(super) architectures: Vec<(i64, Vec<u8>)>,
    /// Bytes of the file, after decompression of the file as a whole.
    pub(super) bytes: u64,
}

/// Reads a file. `max_inflated_bytes` is the maximum total size of its compressed packets after decompression. Calls `advance`
/// with the number of bytes read since the last call.
pub(super) fn read(
    input: JsonInput,
    max_inflated_bytes: u64,
    advance: &dyn Fn(u64),
) -> Result<Document, Unreadable> {
    let (bytes, stream) = match input {
        JsonInput::Whole(bytes) => (bytes, None),
        JsonInput::Stream(stream) => (Vec::new(), Some(stream)),
    };
    let mut reader = Reader::new(max_inflated_bytes);
    reader.bytes = bytes.len() as u64;
    reader.windows(bytes, stream, advance)?;
    Ok(reader.finish())
}

struct Reader {
    state: State,
    converted: Converted,
    bytes: u64,
    /// Total bytes of compressed packets after decompression.
    inflated_bytes: u64,
    /// Maximum of `inflated_bytes`. It depends on the size of the file on disk, because the whole file may be compressed, too.
    max_inflated_bytes: u64,
}

/// Consecutive bundles of compressed packets after decompression. They are converted together, because converting small bundles
/// one by one costs more than reading their packets.
#[derive(Debug, Default)]
struct Bundles {
    bytes: Vec<u8>,
    /// End position of each bundle, and whether it could be decompressed completely. A packet never continues in the next bundle.
    ends: Vec<(usize, bool)>,
}

/// The reason why reading stopped within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The next packet is incomplete.
    Cut,
    /// The next bytes are not a packet.
    Damaged,
}

impl Reader {
    fn new(max_inflated_bytes: u64) -> Self {
        Self {
            state: State::new(),
            converted: Converted::new(),
            bytes: 0,
            inflated_bytes: 0,
            max_inflated_bytes,
        }
    }

    fn windows(
        &mut self,
        mut window: Vec<u8>,
        mut stream: Option<Stream>,
        advance: &dyn Fn(u64),
    ) -> Result<(), Unreadable> {
        let mut at = 0;
        let mut end = if stream.is_some() { StreamEnd::NotYet } else { StreamEnd::Complete };
        // Two buffers alternate. The unread end of one buffer is copied in front of the bytes of the other.
        let mut spare = Vec::new();
        let mut unread_bytes = 0;
        loop {
            // While this window is read, the next one is decompressed.
            let is_more = end == StreamEnd::NotYet;
            // The window doubles while it is shorter than a packet, so the total time to read the packet is linear.
            let room = if unread_bytes > WINDOW { window.len() } else { WINDOW };
            spare.resize(HEADROOM + if is_more { room } else { 0 }, 0);
            let fill = || match &mut stream {
                Some(stream) if is_more => stream.fill(&mut spare[HEADROOM..]),
                _ => (0, end),
            };
            let start = at;
            let ((filled, now), read) = rayon::join(fill, || self.packets(&window, at));
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

    /// Reads the complete packets from `at` on. Returns the position of the next packet, and the reason why it was not read.
    fn packets(&mut self, bytes: &[u8], mut at: usize) -> Result<(usize, Stop), Unreadable> {
        // At any time, pending packets are either all plain or all in bundles, so they stay in order.
        let mut pending = Vec::new();
        let mut bundles = Bundles::default();
        let stop = loop {
            let packet = match find(bytes, at) {
                Found::Packet(range) => {
                    at = range.end;
                    self.state.parse(&bytes[range])
                }
                Found::Other(end) => {
                    at = end;
                    continue;
                }
                Found::Cut => break Stop::Cut,
                Found::Damaged => break Stop::Damaged,
            };
            let Some(packet) = packet else { continue };
            if let Some(compressed) = packet.compressed {
                self.convert(&mut pending);
                self.inflate(compressed, &mut bundles)?;
                if bundles.bytes.len() >= WINDOW {
                    self.bundled_packets(&mut bundles);
                }
            } else {
                self.bundled_packets(&mut bundles);
                pending.extend(self.state.add(&packet));
                if pending.len() >= MAX_PENDING {
                    self.convert(&mut pending);
                }
            }
        };
        self.convert(&mut pending);
        self.bundled_packets(&mut bundles);
        Ok((at, stop))
    }

    fn convert(&mut self, pending: &mut Vec<Pending<'_>>) {
        self.state.place_tracks();
        if pending.is_empty() {
            return;
        }
        self.converted.add(pending, &self.state);
        pending.clear();
        self.state.interned.settle();
    }

    /// Decompresses packets that are compressed together.
    fn inflate(&mut self, compressed: &[u8], bundles: &mut Bundles) -> Result<(), Unreadable> {
        let start = bundles.bytes.len();
        let limit = MAX_BUNDLE as u64 + 1;
        let inflated = ZlibDecoder::new(compressed).take(limit).read_to_end(&mut bundles.bytes);
        let length = bundles.bytes.len() - start;
        self.inflated_bytes += length as u64;
        if length > MAX_BUNDLE || self.inflated_bytes > self.max_inflated_bytes {
            return Err(Unreadable::TooLong);
        }
        bundles.ends.push((bundles.bytes.len(), inflated.is_ok()));
        Ok(())
    }

    /// Reads the packets of all bundles, and clears the bundles.
    fn bundled_packets(&mut self, bundles: &mut Bundles) {
        if bundles.ends.is_empty() {
            return;
        }
        let mut pending = Vec::new();
        let mut start = 0;
        for &(end, is_whole) in &bundles.ends {
            let bytes = &bundles.bytes[start..end];
            let mut at = 0;
            loop {
                at = match find(bytes, at) {
                    Found::Packet(range) => {
                        let end = range.end;
                        pending.extend(self.bundled_packet(&bytes[range]));
                        end
                    }
                    Found::Other(end) => end,
                    Found::Cut | Found::Damaged => break,
                };
                if pending.len() >= MAX_PENDING {
                    self.convert(&mut pending);
                }
            }
            if !is_whole || at < bytes.len() {
                self.state.issues.add(Issue::DamagedBundle);
            }
            start = end;
        }
        self.convert(&mut pending);
        bundles.bytes.clear();
        bundles.ends.clear();
    }

    fn bundled_packet<'w>(&mut self, bytes: &'w [u8]) -> Option<Pending<'w>> {
        let packet = self.state.parse(bytes)?;
        if packet.compressed.is_some() {
            // Bundles must not contain bundles.
            self.state.issues.add(Issue::MalformedPacket);
            return None;
        }
        self.state.add(&packet)
    }

    fn finish(self) -> Document {
        let Self { state, converted, bytes, .. } = self;
        let Converted {
            mut columns,
            marks,
            stages,
            waits,
            architectures,
            has_grids_in_threads,
            ..
        } = converted;
        if has_grids_in_threads {
            rocprof::set_grids(&mut columns);
        }
        columns.issues.merge(&state.issues);
        slices::pair(&mut columns, marks);
        graph_arrows::add(&mut columns, &stages, &waits);
        for (lane, what, name) in state.tracks.labels() {
            let mut id = |bytes: &[u8]| columns.strings.intern(&String::from_utf8_lossy(bytes));
            // Lanes with a name instead of a number have quotes, as in JSON.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn bundles_that_follow_each_other_are_converted_together() {
        // A packet with a time and an instant event.
        let packet = [0x0a, 6, 0x40, 5, 0x5a, 2, 0x48, 3];
        let mut reader = Reader::new(1000);
        let mut bundles = Bundles::default();
        reader.inflate(&compressed(&packet), &mut bundles).unwrap();
        // This packet lacks its last byte. The next bundle does not complete it.
        reader.inflate(&compressed(&packet[..7]), &mut bundles).unwrap();
        reader.inflate(&compressed(&packet), &mut bundles).unwrap();
        assert_eq!((bundles.ends.len(), reader.converted.columns.events), (3, 0));
        reader.bundled_packets(&mut bundles);
        assert_eq!(reader.converted.columns.events, 2);
        assert!(bundles.bytes.is_empty() && bundles.ends.is_empty());
        let warnings = reader.state.issues.warnings("");
        let codes: Vec<_> = warnings.iter().map(|w| (&*w.code, w.count)).collect();
        assert_eq!(codes, [("damaged-bundle", 1)]);
    }
}
