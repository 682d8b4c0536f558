//! Iterates over the events of a trace file with their text, in bounded memory.

use std::io;

use super::splice::Failure;
use crate::error::Unreadable;
use crate::formats::kineto::event::Event;
use crate::formats::kineto::key_predictor::KeyPredictor;
use crate::formats::kineto::parallel_reader::{Prologue, guess_event_start, scan_prologue};
use crate::input::decompress::{MAX_PIECE, Stream, StreamEnd, WINDOW};
use crate::json::lexer::{LexError, Lexer};
use crate::warnings::{Issue, Issues};

/// Calls `each` with the text and the content of every event, in the order of the file. Entries that cannot be read are
/// counted. `advance` is called with the bytes of text that were read.
pub(crate) fn for_each(
    mut source: Stream,
    advance: &dyn Fn(u64),
    mut each: impl FnMut(&[u8], &Event<'_>) -> io::Result<()>,
) -> Result<Issues, Failure> {
    let mut issues = Issues::default();
    let mut window: Vec<u8> = Vec::new();
    let mut last = StreamEnd::NotYet;
    let mut more = |window: &mut Vec<u8>, last: &mut StreamEnd| -> Result<bool, Unreadable> {
        if window.len() > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        let before = window.len();
        *last = source.read(window, WINDOW.max(before));
        if *last == StreamEnd::TooLong {
            Err(Unreadable::TooLong)
        } else {
            advance((window.len() - before) as u64);
            Ok(window.len() > before)
        }
    };
    let in_object = loop {
        match scan_prologue(&window, &mut Vec::new()) {
            Ok(Prologue::Events { start, in_object }) => {
                window.drain(..start);
                break in_object;
            }
            Ok(Prologue::NoEvents) => return Err(Unreadable::NoEvents.into()),
            Err(LexError::End) if more(&mut window, &mut last)? => {}
            Err(LexError::End | LexError::Syntax) => return Err(Unreadable::NotJson.into()),
        }
    };
    loop {
        let (at, stop) = walk(&window, &mut issues, &mut each)?;
        window.drain(..at);
        if stop == Stop::Closed {
            break;
        }
        if !more(&mut window, &mut last)? {
            // Events that are streamed to a file as a bare list may leave it open.
            if in_object || !window.iter().all(|b| b.is_ascii_whitespace() || *b == b',') {
                issues.add(Issue::TruncatedJson);
            }
            break;
        }
    }
    if last == StreamEnd::Damaged {
        issues.add(Issue::TruncatedGzip);
    }
    Ok(issues)
}

#[derive(PartialEq, Eq)]
enum Stop {
    Closed,
    /// The window ends in the middle of an event, or between two.
    Cut,
}

/// Walks over the complete events of a window. Returns the position and the reason of the end.
fn walk(
    text: &[u8],
    issues: &mut Issues,
    each: &mut impl FnMut(&[u8], &Event<'_>) -> io::Result<()>,
) -> io::Result<(usize, Stop)> {
    let mut event = Event::new();
    let mut predictor = KeyPredictor::new();
    let mut lexer = Lexer::new(text, 0);
    let mut at = 0;
    loop {
        match lexer.peek() {
            Err(_) => return Ok((at, Stop::Cut)),
            Ok(b',') => lexer.bump(),
            Ok(b']') => return Ok((at, Stop::Closed)),
            Ok(first) => {
                let start = lexer.pos();
                let read = match first {
                    b'{' => event.read(&mut lexer, &mut predictor),
                    _ => lexer.value().map(|_| issues.add(Issue::NotAnEvent)),
                };
                match read {
                    Ok(()) if first == b'{' => each(&text[start..lexer.pos()], &event)?,
                    Ok(()) => {}
                    Err(LexError::End) => return Ok((at, Stop::Cut)),
                    Err(LexError::Syntax) => {
                        issues.add(Issue::MalformedEvent);
                        let Some(next) = guess_event_start(text, start + 1) else {
                            return Ok((text.len(), Stop::Cut));
                        };
                        lexer = Lexer::new(text, next);
                    }
                }
            }
        }
        at = lexer.pos();
    }
}
