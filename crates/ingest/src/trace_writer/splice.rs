//! Copies a trace and adds events at the end of its list. All other bytes stay as they are, unless the text is
//! broken: text that the reader skips is left out, and open brackets at the end are closed, because viewers are
//! stricter than this reader.

use std::io::{self, Write};

use crate::error::Unreadable;
use crate::formats::kineto::event::Event;
use crate::formats::kineto::key_predictor::KeyPredictor;
use crate::formats::kineto::parallel_reader::{Prologue, guess_event_start, scan_prologue};
use crate::input::decompress::{MAX_PIECE, Stream, StreamEnd, WINDOW};
use crate::json::lexer::{LexError, Lexer};
use crate::warnings::{Issue, Issues};

/// Reason for which a copy could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The source is not a trace.
    Unreadable(Unreadable),
    /// The copy could not be written.
    Write(io::Error),
}

impl From<Unreadable> for Failure {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Copies a trace in bounded memory. `advance` is called with the bytes of text that were read. `insert` writes at the end of the event list; its second argument is true if a
/// comma must come first.
pub(crate) fn copy<W: Write>(
    source: Stream,
    out: &mut W,
    advance: &dyn Fn(u64),
    insert: impl FnOnce(&mut W, bool) -> io::Result<()>,
) -> Result<Issues, Failure> {
    let mut copier = Copier::new(source, out, advance);
    let in_object = copier.prologue()?;
    let Events { comma, closed } = copier.events(in_object)?;
    insert(copier.out, comma)?;
    if closed.is_none() {
        copier.out.write_all(b"\n")?;
    }
    copier.finish(in_object, closed)
}

/// Decides which events of a trace are copied.
pub(crate) trait EventFilter {
    /// Returns true if an event is copied here. `position` is its place in the list, `text` what it was read from.
    fn keep(&mut self, position: i64, text: &[u8], event: &Event<'_>) -> bool;

    /// The texts of events to write at the end of the list, because what was read after them decides whether they are.
    fn held_back(&mut self) -> Vec<Vec<u8>>;
}

/// Copies the events of a trace that `filter` selects, and everything outside the event list, in bounded memory.
pub(crate) fn copy_some<W: Write>(
    source: Stream,
    out: &mut W,
    advance: &dyn Fn(u64),
    filter: &mut impl EventFilter,
) -> Result<Issues, Failure> {
    let mut copier = Copier::new(source, out, advance);
    let in_object = copier.prologue()?;
    let Events { mut comma, closed } = copier.some_events(in_object, filter)?;
    for text in filter.held_back() {
        write_event(copier.out, &text, &mut comma)?;
    }
    copier.out.write_all(b"\n")?;
    copier.finish(in_object, closed)
}

struct Copier<'a, W> {
    source: Stream,
    /// Called with the bytes of text that were read.
    advance: &'a dyn Fn(u64),
    end: StreamEnd,
    /// Text that was read and not yet written.
    window: Vec<u8>,
    out: &'a mut W,
    issues: Issues,
}

/// End of the event list.
struct Events {
    /// The last thing in it is an event, and no comma.
    comma: bool,
    /// Bytes of the window up to and including the closing bracket; `None` if the text ended first.
    closed: Option<usize>,
}

/// The part of a window that can be copied.
struct Reach {
    /// End of the last complete event, or of the comma after it.
    at: usize,
    comma: bool,
    stop: Stop,
}

enum Stop {
    /// The bracket of the list is here.
    Closed(usize),
    /// The window ends in the middle of an event, or between two.
    Cut,
    /// The text from here on is not an event.
    Malformed(usize),
}

/// Writes an event behind those before it.
fn write_event(out: &mut impl Write, text: &[u8], comma: &mut bool) -> io::Result<()> {
    out.write_all(if std::mem::replace(comma, true) { b",\n" } else { b"\n" })?;
    out.write_all(text)
}

impl<'a, W: Write> Copier<'a, W> {
    fn new(source: Stream, out: &'a mut W, advance: &'a dyn Fn(u64)) -> Self {
        Self {
            source,
            advance,
            end: StreamEnd::NotYet,
            window: Vec::new(),
            out,
            issues: Issues::default(),
        }
    }

    /// Writes the text from the end of the event list on, or closes what the text left open.
    fn finish(mut self, in_object: bool, closed: Option<usize>) -> Result<Issues, Failure> {
        if let Some(bracket) = closed {
            self.write(bracket)?;
            if in_object { self.tail()? } else { self.rest()? }
        } else {
            self.out.write_all(if in_object { b"]}\n" } else { b"]\n" })?;
        }
        if self.end == StreamEnd::Damaged {
            self.issues.add(Issue::TruncatedGzip);
        }
        Ok(self.issues)
    }

    /// Appends more text to the window; false when there is none.
    fn more(&mut self) -> Result<bool, Unreadable> {
        if self.window.len() > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        let before = self.window.len();
        self.end = self.source.read(&mut self.window, WINDOW.max(before));
        if self.end == StreamEnd::TooLong {
            return Err(Unreadable::TooLong);
        }
        (self.advance)((self.window.len() - before) as u64);
        Ok(self.window.len() > before)
    }

    /// Writes the first bytes of the window.
    fn write(&mut self, bytes: usize) -> io::Result<()> {
        self.out.write_all(&self.window[..bytes])?;
        self.window.drain(..bytes);
        Ok(())
    }

    /// Writes all text before the first event. Returns whether the list is a member of an object.
    fn prologue(&mut self) -> Result<bool, Failure> {
        loop {
            let (start, in_object) = match scan_prologue(&self.window, &mut Vec::new()) {
                Ok(Prologue::Events { start, in_object }) => (start, in_object),
                Ok(Prologue::NoEvents) => return Err(Unreadable::NoEvents.into()),
                Err(LexError::End) if self.more()? => continue,
                Err(LexError::End | LexError::Syntax) => return Err(Unreadable::NotJson.into()),
            };
            self.write(start)?;
            return Ok(in_object);
        }
    }

    /// Writes all events.
    fn events(&mut self, in_object: bool) -> Result<Events, Failure> {
        let mut comma = false;
        loop {
            let reach = reach(&self.window, comma);
            comma = reach.comma;
            match reach.stop {
                Stop::Closed(bracket) => {
                    self.write(reach.at)?;
                    return Ok(Events { comma, closed: Some(bracket + 1 - reach.at) });
                }
                Stop::Cut => {
                    self.write(reach.at)?;
                    if !self.more()? {
                        // Events that are streamed to a file as a bare list may leave it open.
                        let is_whole = self.window.iter().all(u8::is_ascii_whitespace);
                        if in_object || !is_whole || self.end == StreamEnd::Damaged {
                            self.issues.add(Issue::TruncatedJson);
                        }
                        return Ok(Events { comma, closed: None });
                    }
                }
                Stop::Malformed(start) => {
                    self.issues.add(Issue::MalformedEvent);
                    self.write(reach.at)?;
                    if std::mem::take(&mut comma) {
                        self.out.write_all(b",")?;
                    }
                    let start = start - reach.at;
                    loop {
                        if let Some(next) = guess_event_start(&self.window, start + 1) {
                            self.window.drain(start..next);
                            break;
                        }
                        if !self.more()? {
                            self.issues.add(Issue::TruncatedJson);
                            return Ok(Events { comma, closed: None });
                        }
                    }
                }
            }
        }
    }

    /// Writes the events that the filter selects, one after the other.
    fn some_events(
        &mut self,
        in_object: bool,
        filter: &mut impl EventFilter,
    ) -> Result<Events, Failure> {
        let mut comma = false;
        let mut position = 0;
        let mut is_skipping = false;
        loop {
            let mut at = 0;
            if is_skipping {
                match guess_event_start(&self.window, 0) {
                    Some(next) => (at, is_skipping) = (next, false),
                    None => at = self.window.len(),
                }
            }
            let mut event = Event::new();
            let mut predictor = KeyPredictor::new();
            let mut lexer = Lexer::new(&self.window, at);
            let mut closed = None;
            loop {
                match lexer.peek() {
                    Err(_) => break,
                    Ok(b',') => lexer.bump(),
                    Ok(b']') => {
                        closed = Some(lexer.pos());
                        break;
                    }
                    Ok(first) => {
                        let start = lexer.pos();
                        let read = match first {
                            b'{' => event.read(&mut lexer, &mut predictor),
                            _ => lexer.value().map(|_| self.issues.add(Issue::NotAnEvent)),
                        };
                        match read {
                            Ok(()) => {
                                let text = &self.window[start..lexer.pos()];
                                if first == b'{' && filter.keep(position, text, &event) {
                                    write_event(self.out, text, &mut comma)?;
                                }
                                position += 1;
                            }
                            Err(LexError::End) => break,
                            Err(LexError::Syntax) => {
                                self.issues.add(Issue::MalformedEvent);
                                position += 1;
                                let Some(next) = guess_event_start(&self.window, start + 1) else {
                                    at = self.window.len();
                                    is_skipping = true;
                                    break;
                                };
                                lexer = Lexer::new(&self.window, next);
                            }
                        }
                    }
                }
                at = lexer.pos();
            }
            if let Some(bracket) = closed {
                self.window.drain(..bracket);
                return Ok(Events { comma, closed: Some(1) });
            }
            self.window.drain(..at);
            if !self.more()? {
                // Events that are streamed to a file as a bare list may leave it open.
                let is_whole = self.window.iter().all(|b| b.is_ascii_whitespace() || *b == b',');
                if in_object || !is_whole || self.end == StreamEnd::Damaged {
                    self.issues.add(Issue::TruncatedJson);
                }
                return Ok(Events { comma, closed: None });
            }
        }
    }

    /// Writes the members after the list in its object, up to the last complete one.
    fn tail(&mut self) -> Result<(), Failure> {
        while self.more()? {}
        let (whole, issue) = match reach_in_object(&self.window) {
            (_, Ok(())) => (self.window.len(), None),
            (at, Err(LexError::End)) => (at, Some(Issue::TruncatedJson)),
            (at, Err(LexError::Syntax)) => (at, Some(Issue::UnreadableMetadata)),
        };
        self.write(whole)?;
        if let Some(issue) = issue {
            self.issues.add(issue);
            self.out.write_all(b"\n}\n")?;
        }
        Ok(())
    }

    /// Writes all that is left.
    fn rest(&mut self) -> Result<(), Failure> {
        loop {
            self.write(self.window.len())?;
            if !self.more()? {
                return Ok(());
            }
        }
    }
}

/// Walks over the events of a window as the reader does.
fn reach(text: &[u8], mut comma: bool) -> Reach {
    let mut event = Event::new();
    let mut predictor = KeyPredictor::new();
    let mut lexer = Lexer::new(text, 0);
    let mut at = 0;
    let stop = loop {
        match lexer.peek() {
            Err(_) => break Stop::Cut,
            Ok(b',') => {
                lexer.bump();
                comma = false;
            }
            Ok(b']') => break Stop::Closed(lexer.pos()),
            Ok(first) => {
                let start = lexer.pos();
                let read = match first {
                    b'{' => event.read(&mut lexer, &mut predictor),
                    _ => lexer.value().map(|_| ()),
                };
                match read {
                    Ok(()) => comma = true,
                    Err(LexError::End) => break Stop::Cut,
                    Err(LexError::Syntax) => break Stop::Malformed(start),
                }
            }
        }
        at = lexer.pos();
    };
    Reach { at, comma, stop }
}

/// Walks over the members of an object after the event list. Returns the end of the last complete member, and whether
/// the end of the object was reached.
fn reach_in_object(text: &[u8]) -> (usize, Result<(), LexError>) {
    let mut lexer = Lexer::new(text, 0);
    let mut at = 0;
    let mut walk = || loop {
        match lexer.peek()? {
            b'}' => return Ok(()),
            b',' => lexer.bump(),
            _ => return Err(LexError::Syntax),
        }
        lexer.string()?;
        lexer.expect(b':')?;
        lexer.value()?;
        at = lexer.pos();
    };
    let end = walk();
    (at, end)
}
