//! Reads text into columns: finds the event list, cuts it into slices, and reads the slices in parallel.
//!
//! No serial pass looks for event boundaries. The text is cut at places that *look*
//! like the start of an event; each slice is read from there to the start of the next. A guess is
//! right exactly if the reader of the slice before arrives at it, so every guess is checked: by
//! induction from the start of the list, slices that pass are right, and one that does not is read
//! again from where the slice before it really ended.

use rayon::prelude::*;

use super::event::Event;
use super::event_columns::EventSink;
use super::key_predictor::KeyPredictor;
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, MAX_PIECE, Stream, StreamEnd};
use crate::input::limits::window;
use crate::json::lexer::{LexError, Lexer};
use crate::timeline::columns::{Columns, Known};
use crate::timeline::outline::Detail;
use crate::warnings::Issue;

/// Bytes of text that one thread reads at a time: the text and its rows stay in the CPU cache.
const SLICE: usize = window(512 << 10);
/// Slices of a window at most.
const MAX_SLICES: usize = 32;
/// Bytes of strings above which a slice drops them: the columns of the file have them all.
const MAX_STRINGS: usize = window(4 << 20);
/// Maximum bytes of an event.
const MAX_EVENT: usize = 64 << 20;
/// Room in front of a window for an event that starts in the window before.
const HEADROOM: usize = window(64 << 10);

/// The content of a trace file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) columns: Columns,
    /// Top-level entries other than the events: key and value as JSON text.
    pub(crate) metadata: Vec<(String, Vec<u8>)>,
    /// Bytes of JSON.
    pub(crate) json_bytes: u64,
}

/// Reads a trace. Calls `advance` with the number of JSON bytes read since the last call.
pub(crate) fn read(
    input: JsonInput,
    advance: &dyn Fn(u64),
    detail: Detail,
) -> Result<Document, Unreadable> {
    let (text, stream) = match input {
        JsonInput::Whole(text) => (text, None),
        JsonInput::Stream(stream) => (Vec::new(), Some(stream)),
    };
    let mut document = Document::default();
    if detail == Detail::Outline {
        document.columns.outline = Some(Box::default());
    }
    Reader {
        window: text,
        stream,
        end: StreamEnd::Complete,
        json_bytes: 0,
        slices: Vec::new(),
        previous: Vec::new(),
        document,
    }
    .run(advance)
}

struct Reader {
    /// Text in memory: the unread rest of the window before, then new text.
    window: Vec<u8>,
    /// Source of more text; `None` if the window is the complete text.
    stream: Option<Stream>,
    end: StreamEnd,
    json_bytes: u64,
    /// The slices of the current window.
    slices: Vec<Slice>,
    /// The slices of the window before, until their rows are appended.
    previous: Vec<Slice>,
    document: Document,
}

/// Result of reading the text before the events.
pub(crate) enum Prologue {
    /// The events start here.
    Events { start: usize, in_object: bool },
    /// A complete object without events.
    NoEvents,
}

impl Reader {
    fn run(mut self, advance: &dyn Fn(u64)) -> Result<Document, Unreadable> {
        if self.stream.is_some() {
            self.end = StreamEnd::NotYet;
        } else {
            self.json_bytes = self.window.len() as u64;
        }
        let (start, in_object) = self.prologue()?;
        let tail = self.events(start, advance)?;
        append(&mut self.document.columns, &mut self.previous);
        match tail {
            Some(tail) if in_object => self.tail(tail)?,
            Some(_) => self.skip_rest(),
            None => {}
        }
        match self.end {
            StreamEnd::Damaged => self.document.columns.issues.add(Issue::TruncatedGzip),
            StreamEnd::TooLong => return Err(Unreadable::TooLong),
            StreamEnd::NotYet | StreamEnd::Complete => {}
        }
        self.document.columns.outline_begin_end_events();
        self.document.json_bytes = self.json_bytes;
        Ok(self.document)
    }

    /// Appends more text to the window. Returns false at the end of the text.
    fn more(&mut self) -> Result<bool, Unreadable> {
        if self.window.len() > MAX_PIECE {
            return Err(Unreadable::PieceTooLong);
        }
        let Some(stream) = &mut self.stream else { return Ok(false) };
        let before = self.window.len();
        let want = window_bytes().max(before);
        self.end = stream.read(&mut self.window, want);
        self.json_bytes += (self.window.len() - before) as u64;
        if self.end == StreamEnd::TooLong {
            return Err(Unreadable::TooLong);
        }
        Ok(self.window.len() > before)
    }

    fn prologue(&mut self) -> Result<(usize, bool), Unreadable> {
        loop {
            self.document.metadata.clear();
            match scan_prologue(&self.window, &mut self.document.metadata) {
                Ok(Prologue::Events { start, in_object }) => return Ok((start, in_object)),
                Ok(Prologue::NoEvents) => return Err(Unreadable::NoEvents),
                Err(LexError::Syntax) => return Err(Unreadable::NotJson),
                Err(LexError::End) => {
                    if !self.more()? {
                        let blank = self.window.iter().all(u8::is_ascii_whitespace);
                        return Err(if blank || self.document.metadata.is_empty() {
                            Unreadable::NotJson
                        } else {
                            Unreadable::NoEvents
                        });
                    }
                }
            }
        }
    }

    /// Reads events from `start` on. Returns the start of the text after the list, or `None` if the text ended first.
    fn events(
        &mut self,
        mut start: usize,
        advance: &dyn Fn(u64),
    ) -> Result<Option<usize>, Unreadable> {
        // Two buffers take turns; the unread end of one is copied in front of the text in the other.
        let mut spare = Vec::new();
        let mut unread_bytes = 0;
        let mut is_lost = false;
        loop {
            // While this window is read, the next one is decompressed, and the rows of the one before are appended.
            let is_more = self.stream.is_some() && self.end == StreamEnd::NotYet;
            // The window doubles while an event is longer than it, so the total time to read the event is linear.
            let room =
                if unread_bytes > window_bytes() { self.window.len() } else { window_bytes() };
            spare.resize(HEADROOM + if is_more { room } else { 0 }, 0);
            let (window, stream, slices) = (&self.window, &mut self.stream, &mut self.slices);
            let (columns, previous) = (&mut self.document.columns, &mut self.previous);
            let fill = || {
                stream.as_mut().map_or((0, StreamEnd::Complete), |s| s.fill(&mut spare[HEADROOM..]))
            };
            // A single thread appends rows first, while they are in its cache.
            let (((), (filled, end)), (at, stop)) = rayon::join(
                || rayon::join(|| append(columns, previous), fill),
                || find_and_read_events(window, start, is_lost, slices),
            );
            std::mem::swap(&mut self.slices, &mut self.previous);
            advance((at - start) as u64);
            self.json_bytes += filled as u64;
            if self.stream.is_some() {
                self.end = end;
            }
            if self.end == StreamEnd::TooLong {
                return Err(Unreadable::TooLong);
            }
            spare.truncate(HEADROOM + filled);
            if stop == Stop::Closed {
                self.window.extend_from_slice(&spare[HEADROOM..]);
                return Ok(Some(at));
            }
            is_lost = stop == Stop::Lost;
            if filled == 0 {
                self.document.columns.issues.add(Issue::TruncatedJson);
                return Ok(None);
            }
            let unread = &self.window[at..];
            unread_bytes = unread.len();
            if unread_bytes > MAX_EVENT {
                return Err(Unreadable::EventTooLong);
            }
            if let Some(room) = HEADROOM.checked_sub(unread_bytes) {
                spare[room..HEADROOM].copy_from_slice(unread);
                start = room;
            } else {
                spare.splice(..HEADROOM, unread.iter().copied());
                start = 0;
            }
            std::mem::swap(&mut self.window, &mut spare);
        }
    }

    /// Reads the metadata after the events.
    fn tail(&mut self, start: usize) -> Result<(), Unreadable> {
        self.window.drain(..start);
        while self.more()? {}
        let mut lexer = Lexer::new(&self.window, 0);
        let issue = match scan_members(&mut lexer, true, &mut self.document.metadata) {
            Ok(_) => None,
            Err(LexError::End) => Some(Issue::TruncatedJson),
            Err(LexError::Syntax) => Some(Issue::UnreadableMetadata),
        };
        if let Some(issue) = issue {
            self.document.columns.issues.add(issue);
        }
        Ok(())
    }

    /// Reads what follows a list of events, so that its length does not depend on the size of the window.
    fn skip_rest(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut rest = std::mem::take(&mut self.window);
        rest.resize(window_bytes(), 0);
        while self.end == StreamEnd::NotYet {
            let (filled, end) = stream.fill(&mut rest);
            self.json_bytes += filled as u64;
            self.end = end;
        }
    }
}

pub(crate) fn scan_prologue(
    text: &[u8],
    metadata: &mut Vec<(String, Vec<u8>)>,
) -> Result<Prologue, LexError> {
    let start = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    let mut lexer = Lexer::new(text, start);
    match lexer.peek()? {
        b'[' => Ok(Prologue::Events { start: lexer.pos() + 1, in_object: false }),
        b'{' => {
            lexer.bump();
            Ok(match scan_members(&mut lexer, false, metadata)? {
                Some(start) => Prologue::Events { start, in_object: true },
                None => Prologue::NoEvents,
            })
        }
        _ => Err(LexError::Syntax),
    }
}

/// Collects `"key": value` pairs until the object closes (`None`) or the event list opens (its position).
fn scan_members(
    lexer: &mut Lexer<'_>,
    mut after_value: bool,
    metadata: &mut Vec<(String, Vec<u8>)>,
) -> Result<Option<usize>, LexError> {
    loop {
        match lexer.peek()? {
            b'}' => return Ok(None),
            b',' if after_value => lexer.bump(),
            b'"' if !after_value => {}
            _ => return Err(LexError::Syntax),
        }
        let (key, _) = lexer.string()?.decode();
        lexer.expect(b':')?;
        if key == "traceEvents" && lexer.peek()? == b'[' {
            return Ok(Some(lexer.pos() + 1));
        }
        let value = lexer.value()?;
        metadata.push((key.into_owned(), value.to_vec()));
        after_value = true;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// At the start of an event at or past the given end.
    Reached,
    /// Past the bracket that closes the list.
    Closed,
    /// In the middle of an event: `at` is its start.
    Cut,
    /// After a malformed event: the search for the next one starts at `at`.
    Lost,
}

/// One of the slices that windows are cut into, window after window.
struct Slice {
    sink: EventSink,
    predictor: KeyPredictor,
    known: Known,
    /// Position and reason of the end of its reader.
    at: usize,
    stop: Stop,
}

impl Slice {
    fn new() -> Self {
        Self {
            sink: EventSink::new(),
            predictor: KeyPredictor::new(),
            known: Known::default(),
            at: 0,
            stop: Stop::Cut,
        }
    }
}

/// Slices that a window is cut into. A single thread needs no more than one.
fn slices() -> usize {
    match rayon::current_num_threads() {
        1 => 1,
        threads => (threads * 2).min(MAX_SLICES),
    }
}

/// Text that is read at a time.
fn window_bytes() -> usize {
    SLICE * slices()
}

/// Reads all complete events of `text` from `start` on, in parallel. Returns the position and reason of the end.
fn read_events(text: &[u8], start: usize, slices: &mut Vec<Slice>) -> (usize, Stop) {
    let count = self::slices().min((text.len() - start) / SLICE).max(1);
    let step = (text.len() - start) / count;
    let mut starts = vec![start];
    for i in 1..count {
        if let Some(guess) = guess_event_start(text, start + i * step)
            && guess > *starts.last().expect("not empty")
        {
            starts.push(guess);
        }
    }
    if slices.len() < starts.len() {
        slices.resize_with(starts.len(), Slice::new);
    }
    let end = |i: usize| starts.get(i + 1).copied().unwrap_or(text.len());
    slices
        .par_iter_mut()
        .zip(&starts)
        .enumerate()
        .for_each(|(i, (slice, &from))| slice.read(text, from, end(i)));

    // Check every guess against where the slice before it ended.
    let (mut at, mut stop) = (start, Stop::Reached);
    for (i, slice) in slices.iter_mut().take(starts.len()).enumerate() {
        if stop != Stop::Reached {
            slice.reset();
            continue;
        }
        if at != starts[i] {
            slice.reset();
            slice.read(text, at, end(i));
        }
        (at, stop) = (slice.at, slice.stop);
    }
    (at, stop)
}

/// Moves the rows of slices to the columns of the file. Slices without new rows add nothing.
fn append(columns: &mut Columns, slices: &mut [Slice]) {
    for slice in slices {
        columns.drain(&mut slice.sink.columns, &mut slice.known);
        if slice.sink.columns.strings.bytes() > MAX_STRINGS {
            slice.reset();
        }
    }
    columns.thin_if_long();
}

impl Slice {
    /// Drops all rows and strings.
    fn reset(&mut self) {
        (self.sink, self.known) = (EventSink::new(), Known::default());
    }

    /// Reads events that start in `from..to`. `from` is right after the list's bracket or at an event.
    fn read(&mut self, text: &[u8], from: usize, to: usize) {
        let sink = &mut self.sink;
        let mut event = Event::new();
        let mut lexer = Lexer::new(text, from);
        let mut at;
        self.stop = loop {
            match lexer.peek() {
                Err(_) => {
                    at = text.len();
                    break Stop::Cut;
                }
                Ok(b',') => lexer.bump(),
                Ok(b']') => {
                    at = lexer.pos() + 1;
                    break Stop::Closed;
                }
                Ok(first) => {
                    at = lexer.pos();
                    if at >= to {
                        break Stop::Reached;
                    }
                    let result = if first == b'{' {
                        event.read(&mut lexer, &mut self.predictor).map(|()| sink.add(&event))
                    } else {
                        lexer.value().map(|_| sink.add_issue(Issue::NotAnEvent))
                    };
                    match result {
                        Ok(()) => {}
                        Err(LexError::End) => break Stop::Cut,
                        Err(LexError::Syntax) => {
                            sink.add_issue(Issue::MalformedEvent);
                            let Some(next) = guess_event_start(text, at + 1) else {
                                at = resume_at(text, at + 1);
                                break Stop::Lost;
                            };
                            lexer = Lexer::new(text, next);
                        }
                    }
                }
            }
        };
        self.at = at;
        sink.finish_slice();
    }
}

/// Like [`read_events`], but if `is_lost`, first searches for the start of the next event.
fn find_and_read_events(
    text: &[u8],
    start: usize,
    is_lost: bool,
    slices: &mut Vec<Slice>,
) -> (usize, Stop) {
    if !is_lost {
        return read_events(text, start, slices);
    }
    match guess_event_start(text, start) {
        Some(start) => read_events(text, start, slices),
        None => (resume_at(text, start), Stop::Lost),
    }
}

/// Returns the position at which to resume the search for an event once there is more text. [`guess_event_start`] found
/// none after `from`, so an event can only start after the last brace.
fn resume_at(text: &[u8], from: usize) -> usize {
    memchr::memrchr(b'}', &text[from..]).map_or(text.len(), |at| from + at)
}

/// The next place at or after `from` that looks like the start of an event.
pub(crate) fn guess_event_start(text: &[u8], from: usize) -> Option<usize> {
    let mut lexer = Lexer::new(text, from);
    lexer.skip_to_object().ok().map(|()| lexer.pos())
}
