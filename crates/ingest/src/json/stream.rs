//! JSON text that is read piece by piece, whether it is all there or comes as a stream.

use crate::formats::Unreadable;
use crate::json::{LexError, Lexer};
use crate::source::{End, Input, MAX_PIECE, Stream, WINDOW};

/// Text, and how far it was read.
pub(crate) struct Text<'p> {
    /// Text in hand.
    window: Vec<u8>,
    /// Up to where it was read.
    at: usize,
    /// Where more comes from; `None` if the window is all there is.
    stream: Option<Stream>,
    end: End,
    json_bytes: u64,
    advance: &'p dyn Fn(u64),
}

impl<'p> Text<'p> {
    pub(crate) fn new(input: Input, advance: &'p dyn Fn(u64)) -> Result<Self, Unreadable> {
        let (window, stream, end) = match input {
            Input::Whole(text) => (text, None, End::Complete),
            Input::Stream(stream) => (Vec::new(), Some(stream), End::NotYet),
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

    /// Reads one piece. If the text in hand ends inside it, it is read again from its start with more
    /// text: `read` must have no effect unless it succeeds. An error consumes nothing.
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

    /// Whether there is nothing but white space left.
    pub(crate) fn is_blank(&self) -> bool {
        self.window[self.at..].trim_ascii().is_empty()
    }

    /// Appends more text to what is not read yet; false when there is none.
    fn more(&mut self) -> Result<bool, Unreadable> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        self.window.drain(..self.at);
        self.at = 0;
        let before = self.window.len();
        if before > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        self.end = stream.read(&mut self.window, WINDOW.max(before));
        if self.end == End::TooLong {
            return Err(Unreadable::TooLong);
        }
        let got = (self.window.len() - before) as u64;
        self.json_bytes += got;
        (self.advance)(got);
        Ok(got > 0)
    }

    /// How the text came to its end.
    pub(crate) fn end(&self) -> End {
        self.end
    }

    pub(crate) fn json_bytes(&self) -> u64 {
        self.json_bytes
    }
}
