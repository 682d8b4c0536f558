//! Memory timelines, as `torch.profiler.profile.export_memory_timeline` writes them: bytes by category of
//! tensor over time, as sizes (`.json`, `.json.gz`) or as single actions (`.raw.json.gz`).

use trace_model::column::NULL_I64;
use trace_model::tables::{
    MemoryTimeline, MemoryTimelineEvent, MemoryTimelineEvents, MemoryTimelineSize,
    MemoryTimelineSizes, MemoryTimelines,
};
use trace_model::{StrId, Strings, TableSet, Warning};

use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::json::lexer::{LexError, Lexer};
use crate::json::number;
use crate::json::stream::Text;
use crate::quantity::RawInteger;
use crate::warnings::{Issue, Issues};

/// Categories in the order of PyTorch's numbers for them.
const CATEGORIES: [&str; 8] = [
    "parameter",
    "optimizer_state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd_detail",
    "unknown",
];
/// Actions, numbered from 1.
const ACTIONS: [&str; 4] = ["preexisting", "create", "increment_version", "destroy"];
/// Times are microseconds since 1970 below this, nanoseconds above.
const NANOSECONDS_FROM: u64 = 100_000_000_000_000_000;
/// Numbers that one entry may hold: a moment has nine, an action four.
const MAX_NUMBERS: usize = 64;

type Sizes = [i64; CATEGORIES.len()];
/// Time (null before the recording), number of the action, bytes, number of the category.
type Action = (i64, u8, i64, u8);

/// One memory timeline, read; its times are as written, in nanoseconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct Curve {
    moments: Vec<(i64, Sizes)>,
    actions: Vec<Action>,
    is_raw: bool,
    issues: Issues,
    pub(crate) json_bytes: u64,
}

/// The next part of a list.
enum Next<T> {
    Item(T),
    Closed,
}

/// Reads a memory timeline. Calls `advance` with the number of JSON bytes read since the last call.
pub(crate) fn read(input: JsonInput, advance: &dyn Fn(u64)) -> Result<Curve, Unreadable> {
    let mut text = Text::new(input, advance)?;
    let mut curve = Curve::default();
    text.next(|lexer| lexer.expect(b'['))?.map_err(|_| Unreadable::NotJson)?;
    let whole = curve.read_list(&mut text)?;
    if text.end() == StreamEnd::Damaged {
        curve.issues.add(Issue::TruncatedGzip);
    }
    match whole {
        Ok(()) => {}
        Err(LexError::End) => curve.issues.add(Issue::TruncatedJson),
        Err(LexError::Syntax) if !curve.moments.is_empty() => {
            curve.issues.add(Issue::TimelineEntry);
        }
        Err(LexError::Syntax) => return Err(Unreadable::NotJson),
    }
    curve.json_bytes = text.json_bytes();
    Ok(curve)
}

impl Curve {
    /// Reads what follows the first bracket. `[[t, ...], [[0, ...], ...]]` are sizes, `[[t, action, bytes,
    /// category], ...]` actions: the second list tells, by what it holds.
    fn read_list(&mut self, text: &mut Text<'_>) -> Result<Result<(), LexError>, Unreadable> {
        match text.next(open)? {
            Ok(Next::Item(())) => {}
            Ok(Next::Closed) => {
                self.is_raw = true; // an empty list
                return Ok(Ok(()));
            }
            Err(error) => return Ok(Err(error)),
        }
        let mut first = Vec::new();
        loop {
            match text.next(element)? {
                Ok(Next::Item(value)) => first.push(value),
                Ok(Next::Closed) => break,
                Err(error) => return Ok(Err(error)),
            }
        }
        match text.next(open)? {
            Ok(Next::Item(())) => {}
            Ok(Next::Closed) => {
                // A single action, or times without sizes.
                self.is_raw = true;
                self.add_action(&first);
                self.finish_raw();
                return Ok(Ok(()));
            }
            Err(error) => return Ok(Err(error)),
        }
        let nested = text.next(|lexer| {
            let byte = lexer.peek()?;
            Ok(byte == b'[' || byte == b']')
        })?;
        match nested {
            Ok(true) => self.read_sizes(text, &first),
            Ok(false) => {
                self.is_raw = true;
                self.add_action(&first);
                self.read_actions(text)
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn read_sizes(
        &mut self,
        text: &mut Text<'_>,
        times: &[Option<RawInteger>],
    ) -> Result<Result<(), LexError>, Unreadable> {
        let mut times = times.iter();
        let mut result = Ok(());
        loop {
            match text.next(entry)? {
                Ok(Next::Item(row)) => {
                    let time = times.next().copied().flatten().and_then(time_ns);
                    // The first number is 0: where PyTorch's plot begins to stack.
                    let sizes: Option<Vec<i64>> = row
                        .iter()
                        .skip(1)
                        .map(|size| size.and_then(RawInteger::byte_change))
                        .collect();
                    match (time, sizes.as_deref().map(Sizes::try_from)) {
                        (Some(time), Some(Ok(sizes))) => self.moments.push((time, sizes)),
                        _ => self.issues.add(Issue::TimelineEntry),
                    }
                }
                Ok(Next::Closed) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if result.is_ok() {
            if times.next().is_some() {
                self.issues.add(Issue::TimelineEntry);
            }
            result = text.next(|lexer| lexer.expect(b']'))?;
        }
        Ok(result)
    }

    /// Reads actions from inside the second one on.
    fn read_actions(&mut self, text: &mut Text<'_>) -> Result<Result<(), LexError>, Unreadable> {
        let second = text.next(rest)?;
        let mut result = second.map(|row| self.add_action(&row));
        while result.is_ok() {
            match text.next(entry)? {
                Ok(Next::Item(row)) => self.add_action(&row),
                Ok(Next::Closed) => break,
                Err(error) => result = Err(error),
            }
        }
        self.finish_raw();
        Ok(result)
    }

    fn add_action(&mut self, row: &[Option<RawInteger>]) {
        match action(row) {
            Some(action) => self.actions.push(action),
            None => self.issues.add(Issue::TimelineEntry),
        }
    }

    /// Sizes from actions: a moment is each new time, in the order of the file.
    fn finish_raw(&mut self) {
        let first = self.actions.iter().map(|action| action.0).filter(|&t| t != NULL_I64).min();
        for &(time, _, bytes, category) in &self.actions {
            // What was there before is placed at the first moment; it stays a moment of its own.
            let is_new = self.moments.last().is_none_or(|last| last.0 != time);
            if is_new {
                let sizes = self.moments.last().map_or([0; CATEGORIES.len()], |last| last.1);
                self.moments.push((time, sizes));
            }
            if let Some((_, sizes)) = self.moments.last_mut() {
                let size = &mut sizes[usize::from(category)];
                *size = size.saturating_add(bytes);
            }
        }
        for moment in &mut self.moments {
            if moment.0 == NULL_I64 {
                moment.0 = first.unwrap_or(0);
            }
        }
    }

    /// First and last time; `None` if there are none, or only memory held before the recording.
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let times = self.moments.iter().map(|moment| moment.0).filter(|&time| time > 0);
        times.clone().min().zip(times.max())
    }

    /// Moments or actions read.
    pub(crate) fn entries(&self) -> u64 {
        if self.is_raw { self.actions.len() as u64 } else { self.moments.len() as u64 }
    }

    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        self.issues.warnings(file)
    }

    /// Turns the timeline into Arrow batches: `shift_ns` is added to all times.
    pub(crate) fn into_tables(
        self,
        tables: &mut TableSet,
        (rank, timeline): (i32, i32),
        file: &str,
        shift_ns: i64,
    ) {
        let mut strings = Strings::default();
        let (start_ns, end_ns) = self.extent().unwrap_or((-shift_ns, -shift_ns));
        let mut timelines = MemoryTimelines::default();
        timelines.push(MemoryTimeline {
            rank,
            timeline,
            file: strings.intern(file),
            form: strings.intern(if self.is_raw { "raw" } else { "sizes" }),
            start_ns: start_ns.saturating_add(shift_ns),
            end_ns: end_ns.saturating_add(shift_ns),
            moment_count: self.moments.len() as i64,
            event_count: self.actions.len() as i64,
        });
        tables.push("memory_timelines", timelines.into_batch(&strings));
        let mut sizes = MemoryTimelineSizes::default();
        for (position, &(ts, bytes)) in self.moments.iter().enumerate() {
            let [
                parameter,
                optimizer_state,
                input,
                temporary,
                activation,
                gradient,
                autograd,
                unknown,
            ] = bytes;
            sizes.push(MemoryTimelineSize {
                rank,
                timeline,
                position: position as i64,
                ts_ns: ts.saturating_add(shift_ns),
                parameter_bytes: parameter,
                optimizer_state_bytes: optimizer_state,
                input_bytes: input,
                temporary_bytes: temporary,
                activation_bytes: activation,
                gradient_bytes: gradient,
                autograd_detail_bytes: autograd,
                unknown_bytes: unknown,
                total_bytes: bytes.iter().fold(0, |sum: i64, &bytes| sum.saturating_add(bytes)),
            });
        }
        tables.push("memory_timeline_sizes", sizes.into_batch(&strings));
        let mut events = MemoryTimelineEvents::default();
        let actions: Vec<StrId> = ACTIONS.iter().map(|text| strings.intern(text)).collect();
        let categories: Vec<StrId> = CATEGORIES.iter().map(|text| strings.intern(text)).collect();
        for (position, &(ts, action, bytes, category)) in self.actions.iter().enumerate() {
            events.push(MemoryTimelineEvent {
                rank,
                timeline,
                position: position as i64,
                ts_ns: if ts == NULL_I64 { ts } else { ts.saturating_add(shift_ns) },
                action: actions[usize::from(action) - 1],
                bytes,
                category: categories[usize::from(category)],
            });
        }
        tables.push("memory_timeline_events", events.into_batch(&strings));
    }
}

/// Converts a time to nanoseconds: newer exports of sizes use microseconds, raw and old exports use nanoseconds.
/// Returns `None` if it is out of range.
fn time_ns(time: RawInteger) -> Option<i64> {
    let is_us = time.id()?.unsigned_abs() < NANOSECONDS_FROM;
    if is_us { time.time_us() } else { time.time_ns() }
}

/// Returns an action; `None` if PyTorch does not write such an entry.
fn action(row: &[Option<RawInteger>]) -> Option<Action> {
    let &[Some(time), Some(action), Some(bytes), Some(category)] = row else { return None };
    let number = |raw: RawInteger| u8::try_from(raw.number()?).ok();
    let action = number(action).filter(|&action| (1..=ACTIONS.len()).contains(&action.into()))?;
    let category = number(category).filter(|&category| usize::from(category) < CATEGORIES.len())?;
    // A negative time means before the recording.
    let is_before = time.id()? < 0;
    let time_ns = if is_before { NULL_I64 } else { time_ns(time)? };
    Some((time_ns, action, bytes.byte_change()?, category))
}

/// Passes over a comma; the end of the list, or what `read` makes of the next item.
fn item<T>(
    lexer: &mut Lexer<'_>,
    read: impl FnOnce(&mut Lexer<'_>) -> Result<T, LexError>,
) -> Result<Next<T>, LexError> {
    if lexer.peek()? == b',' {
        lexer.bump();
    }
    if lexer.peek()? == b']' {
        lexer.bump();
        return Ok(Next::Closed);
    }
    read(lexer).map(Next::Item)
}

/// The bracket that opens the next list.
fn open(lexer: &mut Lexer<'_>) -> Result<Next<()>, LexError> {
    item(lexer, |lexer| lexer.expect(b'['))
}

/// One number of a list; null if it is not a number.
fn element(lexer: &mut Lexer<'_>) -> Result<Next<Option<RawInteger>>, LexError> {
    item(lexer, |lexer| Ok(number::integer(lexer.value()?)))
}

/// A list of numbers.
fn entry(lexer: &mut Lexer<'_>) -> Result<Next<Vec<Option<RawInteger>>>, LexError> {
    item(lexer, |lexer| {
        lexer.expect(b'[')?;
        rest(lexer)
    })
}

/// The numbers of a list from here to its end.
fn rest(lexer: &mut Lexer<'_>) -> Result<Vec<Option<RawInteger>>, LexError> {
    let mut numbers = Vec::with_capacity(9);
    while let Next::Item(number) = element(lexer)? {
        if numbers.len() == MAX_NUMBERS {
            return Err(LexError::Syntax);
        }
        numbers.push(number);
    }
    Ok(numbers)
}
