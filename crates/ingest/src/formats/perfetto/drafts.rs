//! Events that are converted to Chrome trace events in chunks, so that their texts share memory.

use std::ops::Range;

use super::slices::Mark;
use super::text::{needs_escape, push_inside_quotes, push_us};
use crate::formats::kineto::arg::Arg;
use crate::formats::kineto::event::Event;
use crate::formats::kineto::event_columns::EventSink;
use crate::json::lexer::RawStr;
use crate::warnings::{Issue, Issues};

/// Maximum GPUs whose architectures are kept.
const MAX_GPUS: usize = 1 << 10;
/// Maximum waits per activity.
const MAX_WAITS_OF_ACTIVITY: usize = 1 << 12;
/// Maximum waits of all activities that are converted together.
const MAX_WAITS: usize = 1 << 21;

/// Text of an event: stored in the file or in its declarations, or created during the conversion.
#[derive(Debug, Clone)]
pub(super) enum Text<'w> {
    Stored(&'w [u8]),
    Made(Range<usize>),
}

/// The name of an argument.
#[derive(Debug, Clone)]
pub(super) enum Key<'w> {
    Known(Arg),
    /// The escaped name, without quotes.
    Other(Text<'w>),
}

/// An argument: its key, and its value as JSON text.
pub(super) type DraftArg<'w> = (Key<'w>, Text<'w>);

/// An event before its times are converted to text.
#[derive(Debug)]
pub(super) struct Draft<'w> {
    pub(super) phase: u8,
    pub(super) category: Option<&'w [u8]>,
    pub(super) name: Option<&'w [u8]>,
    pub(super) pid: Text<'w>,
    pub(super) tid: Text<'w>,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: Option<i64>,
    pub(super) id: Option<Text<'w>>,
    /// Index of the event's first argument in [`Drafts::args`]. All later arguments belong to the event.
    pub(super) first_arg: usize,
}

/// A draft whose times are converted to text.
#[derive(Debug)]
struct Finished<'w> {
    draft: Draft<'w>,
    ts: Range<usize>,
    dur: Option<Range<usize>>,
    args: Range<usize>,
}

/// A GPU activity, with the number by which other events refer to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stage {
    pub(super) number: u64,
    pub(super) event_id: i64,
}

/// A GPU activity, and the number of an activity that it waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) event_id: i64,
    pub(super) for_number: u64,
}

/// Events that are converted together, and the data that they state besides their rows.
#[derive(Debug, Default)]
pub(super) struct Drafts<'w> {
    pub(super) text: Vec<u8>,
    pub(super) args: Vec<DraftArg<'w>>,
    /// Annotations of the current event.
    pub(super) annotations: Vec<&'w [u8]>,
    finished: Vec<Finished<'w>>,
    /// Id of the first event.
    first_event: i64,
    pub(super) marks: Vec<Mark>,
    pub(super) stages: Vec<Stage>,
    pub(super) waits: Vec<Wait>,
    /// Numbers of GPUs with their architectures.
    pub(super) architectures: Vec<(i64, &'w [u8])>,
    /// The file states the grids of kernels in threads.
    pub(super) has_grids_in_threads: bool,
    pub(super) issues: Issues,
}

/// The lengths of the lists of marks, stages and waits before an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    marks: usize,
    stages: usize,
    waits: usize,
}

/// Adds the architecture of a GPU to a list that does not contain it. Returns false if the list is full.
pub(super) fn keep_architecture<N: PartialEq>(
    architectures: &mut Vec<(i64, N)>,
    architecture: (i64, N),
) -> bool {
    if architectures.contains(&architecture) {
        return true;
    }
    let has_room = architectures.len() < MAX_GPUS;
    if has_room {
        architectures.push(architecture);
    }
    has_room
}

impl<'w> Drafts<'w> {
    /// Returns the id of the next event.
    pub(super) fn next_event(&self) -> i64 {
        self.first_event + self.finished.len() as i64
    }

    /// Adds an event with the arguments from [`Draft::first_arg`] on.
    pub(super) fn push(&mut self, draft: Draft<'w>) {
        let ts = self.made(|text| push_us(text, draft.ts_ns));
        let dur = draft.dur_ns.map(|dur_ns| self.made(|text| push_us(text, dur_ns)));
        let args = draft.first_arg..self.args.len();
        self.finished.push(Finished { draft, ts, dur, args });
    }

    /// Stores the architecture of a GPU.
    pub(super) fn add_architecture(&mut self, gpu: i64, name: &'w [u8]) {
        const MAX_NAME: usize = 64;
        let name = &name[..name.len().min(MAX_NAME)];
        if !keep_architecture(&mut self.architectures, (gpu, name)) {
            self.issues.add(Issue::ManyDeclarations);
        }
    }

    /// Adds a wait of an activity. `first` is the index of the activity's first wait.
    pub(super) fn add_wait(&mut self, first: usize, wait: Wait) {
        let waits = self.waits.len();
        if waits - first < MAX_WAITS_OF_ACTIVITY && waits < MAX_WAITS {
            self.waits.push(wait);
        } else {
            self.issues.add(Issue::ManyDeclarations);
        }
    }

    /// Creates a text and returns its range.
    pub(super) fn made(&mut self, push: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let start = self.text.len();
        push(&mut self.text);
        start..self.text.len()
    }

    /// Adds an argument, and creates its value with `push`.
    pub(super) fn add_arg(&mut self, key: Key<'w>, push: impl FnOnce(&mut Vec<u8>)) {
        let value = Text::Made(self.made(push));
        self.args.push((key, value));
    }

    /// Returns the key of an argument by its name.
    pub(super) fn key(&mut self, name: &'w [u8]) -> Key<'w> {
        match Arg::from_key(name) {
            Some(arg) => Key::Known(arg),
            None if name.iter().any(|&byte| needs_escape(byte)) => {
                Key::Other(Text::Made(self.made(|text| push_inside_quotes(text, name))))
            }
            None => Key::Other(Text::Stored(name)),
        }
    }

    pub(super) fn bytes(&self, text: &Text<'w>) -> &[u8] {
        match text {
            Text::Stored(bytes) => bytes,
            Text::Made(range) => &self.text[range.clone()],
        }
    }

    /// Returns the current lengths of the lists of marks, stages and waits.
    pub(super) fn position(&self) -> Position {
        let Self { marks, stages, waits, .. } = self;
        Position { marks: marks.len(), stages: stages.len(), waits: waits.len() }
    }

    /// Removes the marks, stages and waits of an event that cannot be read.
    pub(super) fn go_back_to(&mut self, position: Position) {
        self.marks.truncate(position.marks);
        self.stages.truncate(position.stages);
        self.waits.truncate(position.waits);
    }

    /// Moves the events to `sink`.
    pub(super) fn move_to(&mut self, sink: &mut EventSink) {
        let mut event = Event::new();
        for Finished { draft, ts, dur, args } in &self.finished {
            let raw = |bytes| RawStr { bytes, escaped: false };
            event.phase = draft.phase;
            event.category = draft.category.map(raw);
            event.name = draft.name.map(raw);
            event.pid = self.bytes(&draft.pid);
            event.tid = self.bytes(&draft.tid);
            event.ts = Some(&self.text[ts.clone()]);
            event.dur = dur.as_ref().map(|dur| &self.text[dur.clone()]);
            event.id = draft.id.as_ref().map(|id| self.bytes(id));
            event.args.clear();
            for (key, value) in &self.args[args.clone()] {
                let value = self.bytes(value);
                match key {
                    Key::Known(arg) => event.args.set(*arg, value),
                    Key::Other(key) => event.args.others.push((self.bytes(key), value)),
                }
            }
            sink.add(&event);
        }
        sink.columns.issues.merge(&std::mem::take(&mut self.issues));
        self.finished.clear();
        self.args.clear();
        self.text.clear();
        self.first_event = sink.columns.events;
    }

    /// Starts with the id of the next event of `sink`.
    pub(super) fn begin(&mut self, sink: &EventSink) {
        self.first_event = sink.columns.events;
    }
}
