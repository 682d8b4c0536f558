//! One Chrome trace event as slices of the text, not interpreted yet.

use super::arg::{Arg, Args};
use super::key_predictor::{Field, KeyPredictor, NextField, Position};
use crate::json::lexer::{LexError, Lexer, RawStr};

/// One event, borrowed from the text.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) phase: u8,
    pub(crate) category: Option<RawStr<'a>>,
    pub(crate) name: Option<RawStr<'a>>,
    pub(crate) pid: &'a [u8],
    pub(crate) tid: &'a [u8],
    pub(crate) ts: Option<&'a [u8]>,
    pub(crate) dur: Option<&'a [u8]>,
    pub(crate) id: Option<&'a [u8]>,
    pub(crate) args: Args<'a>,
}

impl<'a> Event<'a> {
    pub(crate) fn new() -> Self {
        Self {
            phase: 0,
            category: None,
            name: None,
            pid: b"",
            tid: b"",
            ts: None,
            dur: None,
            id: None,
            args: Args::new(),
        }
    }

    /// Reads the event object at the lexer's position into `self`. Keys may come in any order.
    pub(crate) fn read(
        &mut self,
        lexer: &mut Lexer<'a>,
        predictor: &mut KeyPredictor,
    ) -> Result<(), LexError> {
        self.phase = 0;
        self.category = None;
        self.name = None;
        self.pid = b"";
        self.tid = b"";
        self.ts = None;
        self.dur = None;
        self.id = None;
        self.args.clear();
        let mut position = Position::START;
        loop {
            let next = predictor.advance(lexer, &mut position)?;
            if next == NextField::End {
                return Ok(());
            }
            if let NextField::Other { back, len } = next {
                let key = lexer.before(back as usize, len as usize);
                self.args.others.push((key, lexer.value()?));
                continue;
            }
            let (value, escaped) = lexer.value_or_string()?;
            match next {
                NextField::Arg(arg) => self.args.set(arg, value),
                NextField::Field(Field::Phase) => {
                    self.phase = phase(value, escaped);
                }
                NextField::Field(Field::Category) => self.category = string(value, escaped),
                NextField::Field(Field::Name) => self.name = string(value, escaped),
                NextField::Field(Field::Pid) => self.pid = value,
                NextField::Field(Field::Tid) => self.tid = value,
                NextField::Field(Field::Ts) => self.ts = Some(value),
                NextField::Field(Field::Dur) => self.dur = Some(value),
                NextField::Field(Field::Id) => self.id = Some(value),
                NextField::Field(Field::NoArgs | Field::Unused)
                | NextField::Other { .. }
                | NextField::End => {}
            }
        }
    }
}

impl Event<'_> {
    /// Returns the event with the fields of its marks as arguments, instead of the marks.
    pub(super) fn with_marks<'b>(&'b self, fields: &'b [(String, String)]) -> Event<'b> {
        let Self { phase, category, name, pid, tid, ts, dur, id, args } = self;
        let args = args.in_place_of(Arg::Annotation, fields);
        Event {
            phase: *phase,
            category: *category,
            name: *name,
            pid,
            tid,
            ts: *ts,
            dur: *dur,
            id: *id,
            args,
        }
    }
}

/// Returns the letter of a phase, or 0 for any other value.
#[inline]
fn phase(value: &[u8], escaped: bool) -> u8 {
    match value {
        &[b'"', letter, b'"'] => letter,
        _ if escaped => string(value, true).map_or(0, |text| match *text.unescaped() {
            [letter] => letter,
            _ => 0,
        }),
        _ => 0,
    }
}

/// A string; any other value counts as absent.
#[inline]
fn string(value: &[u8], escaped: bool) -> Option<RawStr<'_>> {
    match value {
        [b'"', bytes @ .., b'"'] => Some(RawStr { bytes, escaped }),
        _ => None,
    }
}
