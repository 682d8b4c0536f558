//! The bytes of a pickle in order, from memory or from a stream.

use super::problem::Problem;
use crate::input::decompress::{JsonInput, MAX_PIECE, Stream, StreamEnd};
use crate::input::limits::window;

/// Bytes of a stream in hand at a time.
const WINDOW: usize = window(1 << 20);
/// Longest line of text that an instruction of protocol 0 may take.
const MAX_LINE: usize = 16 << 20;

pub(super) struct Bytes<'p> {
    window: Vec<u8>,
    /// Up to where the window was read.
    at: usize,
    /// Bytes before the window.
    before: u64,
    /// Source of more bytes; `None` if the window is the complete pickle.
    stream: Option<Stream>,
    advance: &'p dyn Fn(u64),
}

impl<'p> Bytes<'p> {
    pub(super) fn new(input: JsonInput, advance: &'p dyn Fn(u64)) -> Self {
        let (window, stream) = match input {
            JsonInput::Whole(bytes) => (bytes, None),
            JsonInput::Stream(stream) => (Vec::new(), Some(stream)),
        };
        advance(window.len() as u64);
        Self { window, at: 0, before: 0, stream, advance }
    }

    /// Bytes handed out.
    pub(super) fn position(&self) -> u64 {
        self.before + self.at as u64
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Problem> {
        if let Some(&byte) = self.window.get(self.at) {
            self.at += 1;
            return Ok(byte);
        }
        Ok(self.take(1)?[0])
    }

    /// The next `count` bytes. A false count does not allocate more than the available bytes.
    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Result<&[u8], Problem> {
        if self.window.len() - self.at < count {
            self.fill(count)?;
        }
        let from = self.at;
        self.at += count;
        Ok(&self.window[from..self.at])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The bytes up to the next line feed, which is consumed too.
    pub(super) fn line(&mut self) -> Result<&[u8], Problem> {
        let mut seen = 0;
        loop {
            let rest = &self.window[self.at + seen..];
            if let Some(found) = memchr::memchr(b'\n', rest) {
                let line = self.take(seen + found + 1)?;
                return Ok(&line[..line.len() - 1]);
            }
            seen += rest.len();
            if seen > MAX_LINE {
                return Err(Problem::Malformed("a line without end", self.position()));
            }
            self.fill(seen + 1)?;
        }
    }

    /// Passes over `count` bytes.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<(), Problem> {
        while count > 0 {
            let step = count.min(WINDOW as u64);
            self.take(step as usize)?;
            count -= step;
        }
        Ok(())
    }

    /// Has at least `count` unread bytes in the window.
    #[cold]
    fn fill(&mut self, count: usize) -> Result<(), Problem> {
        if count > MAX_PIECE {
            return Err(Problem::TooMuch);
        }
        let Some(stream) = &mut self.stream else { return Err(Problem::Truncated) };
        self.window.drain(..self.at);
        self.before += self.at as u64;
        self.at = 0;
        while self.window.len() < count {
            let had = self.window.len();
            // Read in steps: the length may be false, so memory is allocated only for available bytes.
            let end = stream.read(&mut self.window, WINDOW.max(had));
            (self.advance)((self.window.len() - had) as u64);
            match end {
                StreamEnd::TooLong => return Err(Problem::TooLong),
                StreamEnd::Damaged if self.window.len() < count => {
                    return Err(Problem::DamagedGzip);
                }
                _ if self.window.len() == had => return Err(Problem::Truncated),
                _ => {}
            }
        }
        Ok(())
    }
}
