//! A copy of a trace with more events at the end of its list. Every other byte stays as it is, unless
//! the text is broken: what reading skips is left out, and what is open at the end is closed, so that
//! viewers, which are stricter than we are, can load the copy.

use std::io::{self, Write};

use super::document::{Head, guess_event_start, scan_head};
use super::event::Event;
use super::layout::Layout;
use crate::formats::Unreadable;
use crate::json::{LexError, Lexer};
use crate::source::{End, MAX_PIECE, Stream, WINDOW};
use crate::warnings::{Issue, Issues};

/// Why a copy could not be made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The source is no trace.
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

/// Copies a trace in bounded memory. `insert` writes at the end of the event list; it is told whether
/// a comma must come first.
pub(crate) fn copy<W: Write>(
    source: Stream,
    out: &mut W,
    insert: impl FnOnce(&mut W, bool) -> io::Result<()>,
) -> Result<Issues, Failure> {
    let mut copier =
        Copier { source, end: End::NotYet, window: Vec::new(), out, issues: Issues::default() };
    let in_object = copier.head()?;
    let Events { comma, closed } = copier.events(in_object)?;
    insert(copier.out, comma)?;
    if let Some(bracket) = closed {
        copier.write(bracket)?;
        if in_object { copier.tail()? } else { copier.rest()? }
    } else {
        copier.out.write_all(if in_object { b"\n]}\n" } else { b"\n]\n" })?;
    }
    if copier.end == End::Damaged {
        copier.issues.add(Issue::TruncatedGzip);
    }
    Ok(copier.issues)
}

struct Copier<'a, W> {
    source: Stream,
    end: End,
    /// Text that was read and not yet written.
    window: Vec<u8>,
    out: &'a mut W,
    issues: Issues,
}

/// How the event list ended.
struct Events {
    /// The last thing in it is an event, and no comma.
    comma: bool,
    /// The window goes on with so many bytes up to its bracket; absent if the text is over.
    closed: Option<usize>,
}

/// How far a window can be copied.
struct Reach {
    /// End of the last whole event, or of the comma after it.
    at: usize,
    comma: bool,
    stop: Stop,
}

enum Stop {
    /// The bracket of the list is here.
    Closed(usize),
    /// The window ends in the middle of an event, or between two.
    Cut,
    /// What starts here is no event.
    Malformed(usize),
}

impl<W: Write> Copier<'_, W> {
    /// Appends more text to the window; false when there is none.
    fn more(&mut self) -> Result<bool, Unreadable> {
        if self.window.len() > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        let before = self.window.len();
        self.end = self.source.read(&mut self.window, WINDOW.max(before));
        if self.end == End::TooLong {
            return Err(Unreadable::TooLong);
        }
        Ok(self.window.len() > before)
    }

    /// Writes the first bytes of the window.
    fn write(&mut self, bytes: usize) -> io::Result<()> {
        self.out.write_all(&self.window[..bytes])?;
        self.window.drain(..bytes);
        Ok(())
    }

    /// Writes all before the first event; whether the list is a member of an object.
    fn head(&mut self) -> Result<bool, Failure> {
        loop {
            let (start, in_object) = match scan_head(&self.window, &mut Vec::new()) {
                Ok(Head::Events { start, in_object }) => (start, in_object),
                Ok(Head::NoEvents) => return Err(Unreadable::NoEvents.into()),
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
                        if in_object || !is_whole || self.end == End::Damaged {
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

    /// Writes what follows the list in its object, up to the last member that is whole.
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
    let mut layout = Layout::new();
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
                    b'{' => event.read(&mut lexer, &mut layout),
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

/// Walks over the members of an object after the event list, up to its end: where the last whole one
/// ends, and whether the end was reached.
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
