//! Text as a standard reader, for formats of lines.

use std::io::{self, BufRead, Read};

use super::decompress::{JsonInput, Stream, StreamEnd, WINDOW};

/// Text as a reader, in windows.
pub(crate) struct TextReader<'p> {
    window: Vec<u8>,
    at: usize,
    stream: Option<Stream>,
    end: StreamEnd,
    total: u64,
    advance: &'p dyn Fn(u64),
}

impl<'p> TextReader<'p> {
    pub(crate) fn new(input: JsonInput, advance: &'p dyn Fn(u64)) -> Self {
        let (window, stream) = match input {
            JsonInput::Whole(text) => (text, None),
            JsonInput::Stream(stream) => (Vec::new(), Some(stream)),
        };
        let total = window.len() as u64;
        advance(total);
        let at = if window.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        Self { window, at, stream, end: StreamEnd::Complete, total, advance }
    }

    /// State of the stream: how the text ended, if it did.
    pub(crate) fn end(&self) -> StreamEnd {
        self.end
    }

    /// Bytes of text read.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.total
    }
}

impl BufRead for TextReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.window.len()
            && let Some(stream) = &mut self.stream
        {
            self.window.clear();
            self.at = 0;
            self.end = stream.read(&mut self.window, WINDOW);
            if self.total == 0 && self.window.starts_with(b"\xEF\xBB\xBF") {
                self.at = 3;
            }
            self.total += self.window.len() as u64;
            (self.advance)(self.window.len() as u64);
        }
        Ok(&self.window[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for TextReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = self.fill_buf()?;
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        self.consume(count);
        Ok(count)
    }
}
