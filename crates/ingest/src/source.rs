//! The only file access for input: bytes of JSON, decompressed, whole or as a bounded stream.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// Files whose JSON is at most this long are held whole: one pass of libdeflate is several times
/// faster than a streaming decoder. Longer ones stream, so that memory does not grow with the file.
pub(crate) const WHOLE_LIMIT: u64 = 96 << 20;
/// Bytes of JSON read at a time from a stream.
pub(crate) const WINDOW: usize = 16 << 20;

/// Longest single event or entry beside the events that is taken.
pub(crate) const MAX_PIECE: usize = 256 << 20;

/// No DEFLATE stream expands further than this.
const MAX_DEFLATE_RATIO: u64 = 1032;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What may come out of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Bytes of JSON above which the file is refused; 0: judged by the compression ratio.
    pub(crate) max_json_bytes: u64,
}

impl Limit {
    /// Real traces compress 10 to 40 times. What expands further than this and is large is a bomb.
    const MAX_RATIO: u64 = 250;
    const ALWAYS_ALLOWED: u64 = 256 << 20;

    fn bytes(self, file_bytes: u64) -> u64 {
        if self.max_json_bytes > 0 {
            self.max_json_bytes
        } else {
            file_bytes.saturating_mul(Self::MAX_RATIO).max(Self::ALWAYS_ALLOWED)
        }
    }
}

/// JSON text, either all of it or in pieces.
pub(crate) enum Input {
    /// The whole text.
    Whole(Vec<u8>),
    /// A stream of text.
    Stream(Stream),
}

/// How a stream came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// There is more.
    NotYet,
    /// As it should.
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
    end: End,
}

impl Stream {
    /// Appends about `want` bytes to `buffer`; fewer only at the end. Damaged data ends the stream
    /// after the bytes that could be had.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, want: usize) -> End {
        if self.end != End::NotYet {
            return self.end;
        }
        let before = buffer.len();
        let want = (want as u64).min(self.left.saturating_add(1));
        let result = self.reader.by_ref().take(want).read_to_end(buffer);
        let got = (buffer.len() - before) as u64;
        self.end = match result {
            Err(_) => End::Damaged,
            Ok(_) if got > self.left => End::TooLong,
            Ok(_) if got < want => End::Complete,
            Ok(_) => End::NotYet,
        };
        self.left = self.left.saturating_sub(got);
        self.end
    }
}

/// Opens a file for reading its JSON.
pub(crate) fn open(path: &Path, limit: Limit) -> io::Result<Input> {
    let file_bytes = std::fs::metadata(path)?.len();
    let whole = if is_gzip(path)? {
        inflate_whole(path, file_bytes, limit.bytes(file_bytes))?
    } else if file_bytes <= WHOLE_LIMIT {
        Some(std::fs::read(path)?)
    } else {
        None
    };
    whole.map_or_else(|| stream(path, limit).map(Input::Stream), |text| Ok(Input::Whole(text)))
}

/// Opens a file for reading its JSON piece by piece, however short it is.
pub(crate) fn stream(path: &Path, limit: Limit) -> io::Result<Stream> {
    let file = File::open(path)?;
    let end = End::NotYet;
    if is_gzip(path)? {
        let left = limit.bytes(file.metadata()?.len());
        let reader = Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 20, file)));
        return Ok(Stream { reader, left, end });
    }
    Ok(Stream { reader: Box::new(file), left: u64::MAX, end })
}

/// Whether a file begins as gzip does.
pub(crate) fn is_gzip(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(read_up_to(&mut File::open(path)?, &mut magic)? == 2 && magic == GZIP_MAGIC)
}

/// The text of a gzip file of one member in one go; `None` if it is too long for that, has several
/// members, or is damaged: the streaming decoder then gets what there is.
fn inflate_whole(path: &Path, file_bytes: u64, limit: u64) -> io::Result<Option<Vec<u8>>> {
    if file_bytes > WHOLE_LIMIT {
        return Ok(None);
    }
    let packed = std::fs::read(path)?;
    // The last four bytes say how long the text is, modulo 2^32, if the file is what it claims.
    let Some(length) = packed.last_chunk::<4>().map(|b| u64::from(u32::from_le_bytes(*b))) else {
        return Ok(None);
    };
    if length > WHOLE_LIMIT.min(limit) || length > file_bytes.saturating_mul(MAX_DEFLATE_RATIO) {
        return Ok(None);
    }
    let mut text = vec![0; length as usize];
    let done = libdeflater::Decompressor::new().gzip_decompress(&packed, &mut text);
    Ok((done == Ok(text.len())).then_some(text))
}

/// The first bytes of the text of a file, for recognising its format; `None` if it cannot be
/// decompressed at all.
pub(crate) fn prefix(path: &Path, want: usize) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut packed = vec![0; want];
    let got = read_up_to(&mut file, &mut packed)?;
    packed.truncate(got);
    if !packed.starts_with(&GZIP_MAGIC) {
        return Ok(Some(packed));
    }
    let mut text = Vec::new();
    let result = MultiGzDecoder::new(packed.as_slice()).take(want as u64).read_to_end(&mut text);
    Ok((result.is_ok() || !text.is_empty()).then_some(text))
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read(&mut buffer[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}
