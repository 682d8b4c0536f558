//! Decompresses files to JSON text, in memory or as a bounded stream.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;

use crate::input::limits::window;
use crate::input::storage::File;

/// Bytes of JSON read at a time from a stream.
pub(crate) const WINDOW: usize = window(16 << 20);

/// Longest event or top-level entry that is accepted, in bytes.
pub(crate) const MAX_PIECE: usize = 256 << 20;

/// Remote files longer than this are streamed; shorter ones are fetched at once.
const FAR_WHOLE_LIMIT: u64 = 12 << 20;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Limit for the decompressed size of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Bytes of JSON above which the file is refused; 0: the compression ratio decides.
    pub(crate) max_json_bytes: u64,
}

impl Limit {
    /// Real traces compress 10 to 40 times. A large file that expands more than this is a bomb.
    const MAX_RATIO: u64 = 250;
    const ALWAYS_ALLOWED: u64 = 256 << 20;

    /// Returns the limit, in bytes, for a file of this size.
    pub(crate) fn bytes(self, file_bytes: u64) -> u64 {
        if self.max_json_bytes > 0 {
            self.max_json_bytes
        } else {
            file_bytes.saturating_mul(Self::MAX_RATIO).max(Self::ALWAYS_ALLOWED)
        }
    }
}

/// JSON text, complete or in pieces.
pub(crate) enum JsonInput {
    /// The complete text.
    Whole(Vec<u8>),
    /// A stream of text.
    Stream(Stream),
}

/// State of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// There is more.
    NotYet,
    /// Ended normally.
    Complete,
    /// The compressed data is cut or damaged.
    Damaged,
    /// More text than the limit allows.
    TooLong,
}

/// Text read piece by piece.
pub(crate) struct Stream {
    reader: Box<dyn Read + Send>,
    left: u64,
    end: StreamEnd,
    failure: Failure,
}

/// The error of the disk or the store that ended a file early, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    /// The first error.
    pub(crate) fn take(&self) -> Option<io::Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: io::Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

/// Reads stored bytes, and keeps the error that ends them early.
struct ErrorCapturingReader {
    reader: Box<dyn Read + Send>,
    failure: Failure,
}

impl Read for ErrorCapturingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer).map_err(|error| {
            let copy = io::Error::from(error.kind());
            if error.kind() != io::ErrorKind::Interrupted {
                self.failure.set(error);
            }
            copy
        })
    }
}

impl Stream {
    /// Access to the error that ends this stream early.
    pub(crate) fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Fills `buffer`; the result is how many bytes of it are text: fewer than there is room only at the end.
    /// Damaged data ends the stream after the bytes that could be had.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> (usize, StreamEnd) {
        let mut filled = 0;
        while self.end == StreamEnd::NotYet && filled < buffer.len() {
            // One byte more than is allowed shows that there is more.
            let room = (buffer.len() - filled) as u64;
            let room = room.min(self.left.saturating_add(1)) as usize;
            match self.reader.read(&mut buffer[filled..filled + room]) {
                Ok(0) => self.end = StreamEnd::Complete,
                Ok(got) if got as u64 > self.left => self.end = StreamEnd::TooLong,
                Ok(got) => {
                    filled += got;
                    self.left -= got as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.end = StreamEnd::Damaged,
            }
        }
        (filled, self.end)
    }

    /// Appends about `want` bytes to `buffer`; fewer only at the end. Damaged data ends the stream
    /// after the bytes that could be had.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, want: usize) -> StreamEnd {
        if self.end != StreamEnd::NotYet {
            return self.end;
        }
        let before = buffer.len();
        let want = (want as u64).min(self.left.saturating_add(1));
        let result = self.reader.by_ref().take(want).read_to_end(buffer);
        let got = (buffer.len() - before) as u64;
        self.end = match result {
            Err(_) => StreamEnd::Damaged,
            Ok(_) if got > self.left => StreamEnd::TooLong,
            Ok(_) if got < want => StreamEnd::Complete,
            Ok(_) => StreamEnd::NotYet,
        };
        self.left = self.left.saturating_sub(got);
        self.end
    }
}

/// Opens a file to read its JSON. Local files are always streamed: text that is inflated into the CPU cache is read
/// faster than text that is inflated to memory, with any decoder.
pub(crate) fn open(file: &File, limit: Limit) -> io::Result<JsonInput> {
    let file_bytes = file.bytes()?;
    if !file.is_remote() || file_bytes > FAR_WHOLE_LIMIT {
        return stream(file, limit).map(JsonInput::Stream);
    }
    let bytes = file.read()?;
    if bytes.starts_with(&GZIP_MAGIC) {
        let reader = Box::new(Cursor::new(bytes));
        return Ok(JsonInput::Stream(inflate(reader, limit.bytes(file_bytes), Failure::default())));
    }
    Ok(JsonInput::Whole(bytes))
}

/// Opens a file for reading its JSON piece by piece, however short it is.
pub(crate) fn stream(file: &File, limit: Limit) -> io::Result<Stream> {
    let failure = Failure::default();
    let reader =
        Box::new(ErrorCapturingReader { reader: file.reader()?, failure: failure.clone() });
    if is_gzip(file)? {
        return Ok(inflate(reader, limit.bytes(file.bytes()?), failure));
    }
    Ok(Stream { reader, left: u64::MAX, end: StreamEnd::NotYet, failure })
}

fn inflate(reader: Box<dyn Read + Send>, limit: u64, failure: Failure) -> Stream {
    let reader = Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 20, reader)));
    Stream { reader, left: limit, end: StreamEnd::NotYet, failure }
}

/// Returns whether a file starts like gzip.
pub(crate) fn is_gzip(file: &File) -> io::Result<bool> {
    Ok(file.head(2)? == GZIP_MAGIC)
}

/// Approximate size of the text of a file in bytes; `head` is its start.
pub(crate) fn text_bytes(file: &File, bytes: u64, head: &[u8]) -> u64 {
    /// Typical compression ratio of traces.
    const USUAL_RATIO: u64 = 16;
    if !head.starts_with(&GZIP_MAGIC) {
        return bytes;
    }
    let usual = bytes.saturating_mul(USUAL_RATIO);
    // The last four bytes of a member say how long its text is, modulo 2^32.
    match file.tail() {
        Some(tail) if usual < 1 << 32 => u64::from(u32::from_le_bytes(tail)).max(bytes),
        _ => usual,
    }
}

/// The first bytes of the text of a file, from the first bytes of the file; `None` if they cannot be decompressed.
pub(crate) fn prefix(head: Vec<u8>, want: usize) -> Option<Vec<u8>> {
    if !head.starts_with(&GZIP_MAGIC) {
        return Some(head);
    }
    let mut text = Vec::new();
    let result = MultiGzDecoder::new(head.as_slice()).take(want as u64).read_to_end(&mut text);
    (result.is_ok() || !text.is_empty()).then_some(text)
}
