//! Converts events in parallel.

use rayon::prelude::*;

use super::drafts::{Drafts, Stage, Wait, keep_architecture};
use super::slices::Mark;
use super::state::{EventKind, Pending, State};
use super::{counters, render_stage, track_event};
use crate::formats::kineto::event_columns::EventSink;
use crate::input::limits::window;
use crate::timeline::columns::{Columns, Known};
use crate::warnings::Issue;

/// Maximum events per chunk. The texts of the events of a chunk share memory.
const CHUNK: usize = 256;
/// Bytes of text above which no more events are added to a chunk.
const MAX_CHUNK_TEXT: usize = window(1 << 20);
/// Minimum events per thread.
const MIN_EVENTS_PER_THREAD: usize = window(2 << 10);
/// Maximum parts that are converted in parallel.
const MAX_PARTS: usize = 32;
/// Bytes of strings above which a part drops its strings. The columns of the file keep all strings.
const MAX_STRINGS: usize = window(4 << 20);
/// Maximum waits per file.
const MAX_WAITS: usize = 1 << 23;

/// The result of the conversion of events.
pub(super) struct Converted {
    pub(super) columns: Columns,
    pub(super) marks: Vec<Mark>,
    pub(super) stages: Vec<Stage>,
    pub(super) waits: Vec<Wait>,
    /// Numbers of GPUs with their architectures.
    pub(super) architectures: Vec<(i64, Vec<u8>)>,
    /// The file states the grids of kernels in threads.
    pub(super) has_grids_in_threads: bool,
    parts: Vec<Part>,
}

/// The state of one part of the pending events. Later conversions reuse it, because it caches names.
struct Part {
    sink: EventSink,
    known: Known,
    marks: Vec<Mark>,
    stages: Vec<Stage>,
    waits: Vec<Wait>,
    architectures: Vec<(i64, Vec<u8>)>,
    has_grids_in_threads: bool,
}

impl Part {
    fn new() -> Self {
        Self {
            sink: EventSink::new(),
            known: Known::default(),
            marks: Vec::new(),
            stages: Vec::new(),
            waits: Vec::new(),
            architectures: Vec::new(),
            has_grids_in_threads: false,
        }
    }

    fn convert(&mut self, events: &[Pending<'_>], state: &State) {
        let mut drafts = Drafts::default();
        drafts.begin(&self.sink);
        let mut events = events.iter();
        loop {
            let mut taken = 0;
            for event in events.by_ref() {
                let before = drafts.position();
                let added = match event.kind {
                    EventKind::Track => track_event::add(event, state, &mut drafts),
                    EventKind::RenderStage => render_stage::add(event, state, &mut drafts),
                    EventKind::GpuCounters => counters::add(event, state, &mut drafts),
                };
                if added.is_err() {
                    drafts.go_back_to(before);
                    drafts.issues.add(Issue::MalformedPacket);
                }
                taken += 1;
                if taken == CHUNK || drafts.text.len() > MAX_CHUNK_TEXT {
                    break;
                }
            }
            if taken == 0 {
                break;
            }
            drafts.move_to(&mut self.sink);
        }
        self.sink.finish_slice();
        self.marks = drafts.marks;
        self.stages = drafts.stages;
        self.waits = drafts.waits;
        self.has_grids_in_threads = drafts.has_grids_in_threads;
        let architectures = drafts.architectures.into_iter();
        self.architectures = architectures.map(|(gpu, name)| (gpu, name.to_vec())).collect();
    }
}

impl Converted {
    pub(super) fn new() -> Self {
        Self {
            columns: Columns::default(),
            marks: Vec::new(),
            stages: Vec::new(),
            waits: Vec::new(),
            architectures: Vec::new(),
            has_grids_in_threads: false,
            parts: Vec::new(),
        }
    }

    /// Converts events, and appends their rows in order.
    pub(super) fn add(&mut self, events: &[Pending<'_>], state: &State) {
        if events.is_empty() {
            return;
        }
        let threads = rayon::current_num_threads();
        let parts = if threads == 1 { 1 } else { (threads * 2).min(MAX_PARTS) };
        let parts = parts.min(events.len().div_ceil(MIN_EVENTS_PER_THREAD));
        if self.parts.len() < parts {
            self.parts.resize_with(parts, Part::new);
        }
        let length = events.len().div_ceil(parts);
        self.parts
            .par_iter_mut()
            .zip(events.par_chunks(length))
            .for_each(|(part, events)| part.convert(events, state));
        for part in &mut self.parts[..events.len().div_ceil(length)] {
            let first = self.columns.events;
            self.columns.drain(&mut part.sink.columns, &mut part.known);
            self.marks.extend(part.marks.drain(..).map(|mark| mark.after(first)));
            let after = |event_id: i64| event_id + first;
            self.stages.extend(
                part.stages
                    .drain(..)
                    .map(|stage| Stage { event_id: after(stage.event_id), ..stage }),
            );
            let room = MAX_WAITS - self.waits.len();
            let dropped = part.waits.len().saturating_sub(room);
            self.columns.issues.add_many(Issue::ManyDeclarations, dropped as u64);
            part.waits.truncate(room);
            self.waits.extend(
                part.waits.drain(..).map(|wait| Wait { event_id: after(wait.event_id), ..wait }),
            );
            for architecture in part.architectures.drain(..) {
                if !keep_architecture(&mut self.architectures, architecture) {
                    self.columns.issues.add(Issue::ManyDeclarations);
                }
            }
            self.has_grids_in_threads |= part.has_grids_in_threads;
            if part.sink.columns.strings.bytes() > MAX_STRINGS {
                *part = Part::new();
            }
        }
    }
}
