//! Reads JSON text piece by piece, from memory or from a stream.

use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, MAX_PIECE, Stream, StreamEnd, WINDOW};
use crate::json::lexer::{LexError, Lexer};

/// Text and a read position.
pub(crate) struct Text<'p> {
    /// Text in memory.
    window: Vec<u8>,
    /// Read position in the window.
    at: usize,
    /// Source of more text; `None` if the window is the complete text.
    stream: Option<Stream>,
    end: StreamEnd,
    json_bytes: u64,
    advance: &'p dyn Fn(u64),
}

impl<'p> Text<'p> {
    pub(crate) fn new(input: JsonInput, advance: &'p dyn Fn(u64)) -> Result<Self, Unreadable> {
        let (window, stream, end) = match input {
            JsonInput::Whole(text) => (text, None, StreamEnd::Complete),
            JsonInput::Stream(stream) => (Vec::new(), Some(stream), StreamEnd::NotYet),
        };
        let json_bytes = window.len() as u64;
        advance(json_bytes);
        let mut text = Self { window, at: 0, stream, end, json_bytes, advance };
        if text.window.is_empty() {
            text.more()?;
        }
        if text.window.starts_with(b"\xEF\xBB\xBF") {
            text.at = 3;
        }
        Ok(text)
    }

    /// Reads one piece. If the window ends inside it, `read` is called again from its start with more
    /// text: it must have no effect unless it succeeds. An error consumes nothing.
    pub(crate) fn next<T>(
        &mut self,
        mut read: impl FnMut(&mut Lexer<'_>) -> Result<T, LexError>,
    ) -> Result<Result<T, LexError>, Unreadable> {
        loop {
            let mut lexer = Lexer::new(&self.window, self.at);
            let result = read(&mut lexer);
            if result.is_ok() {
                self.at = lexer.pos();
            }
            if !matches!(result, Err(LexError::End)) || !self.more()? {
                return Ok(result);
            }
        }
    }

    /// Returns whether only white space is left.
    pub(crate) fn is_blank(&self) -> bool {
        self.window[self.at..].trim_ascii().is_empty()
    }

    /// Appends more text to the unread rest. Returns false at the end of the text.
    fn more(&mut self) -> Result<bool, Unreadable> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        self.window.drain(..self.at);
        self.at = 0;
        let before = self.window.len();
        if before > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        self.end = stream.read(&mut self.window, WINDOW.max(before));
        if self.end == StreamEnd::TooLong {
            return Err(Unreadable::TooLong);
        }
        let got = (self.window.len() - before) as u64;
        self.json_bytes += got;
        (self.advance)(got);
        Ok(got > 0)
    }

    /// State of the stream: how the text ended, if it did.
    pub(crate) fn end(&self) -> StreamEnd {
        self.end
    }

    pub(crate) fn json_bytes(&self) -> u64 {
        self.json_bytes
    }
}
