//! Pairs the begin and end events of slices.

use rayon::prelude::*;
use rustc_hash::FxHashSet;
use trace_model::StrId;
use trace_model::tables::UnpairedEvent;

use crate::quantity::MAX_DURATION_NS;
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// The begin or end of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    track: u64,
    ts_ns: i64,
    /// Id of the event of a slice that begins; [`END`] for an end.
    event: i64,
}

/// The event id of marks that end a slice.
const END: i64 = -1;

/// Duration of an event that begins no slice.
const NO_SLICE: i64 = -1;
/// Duration of a slice that does not end, or is too long to be one.
const OPEN: i64 = -2;

impl Mark {
    /// Returns the begin of the slice of an event.
    pub(super) fn begin(track: u64, ts_ns: i64, event: i64) -> Self {
        Self { track, ts_ns, event }
    }

    /// Returns the end of the slice that began last.
    pub(super) fn end(track: u64, ts_ns: i64) -> Self {
        Self { track, ts_ns, event: END }
    }

    /// Returns the mark with `first` added to its event id.
    pub(super) fn after(self, first: i64) -> Self {
        Self { event: if self.event == END { END } else { self.event + first }, ..self }
    }
}

/// Sets the durations of slices. A track is a stack: in order of time, and in file order at equal times, an end closes the slice
/// that began last. Slices without an end are counted and moved to `unpaired_events`; ends without a slice are counted.
pub(super) fn pair(columns: &mut Columns, mut marks: Vec<Mark>) {
    if marks.is_empty() {
        return;
    }
    marks.par_sort_by_key(|mark| (mark.track, mark.ts_ns));
    let mut durs = vec![NO_SLICE; usize::try_from(columns.events).unwrap_or(0)];
    let mut open: Vec<Mark> = Vec::new();
    let mut alone = 0;
    let mut track = None;
    for mark in marks {
        if track != Some(mark.track) {
            open.clear();
            track = Some(mark.track);
        }
        if mark.event == END {
            match open.pop() {
                Some(begin) => {
                    let dur_ns = mark.ts_ns.saturating_sub(begin.ts_ns);
                    let is_possible = dur_ns <= MAX_DURATION_NS;
                    durs[begin.event as usize] = if is_possible { dur_ns } else { OPEN };
                }
                None => alone += 1,
            }
        } else {
            durs[mark.event as usize] = OPEN;
            open.push(mark);
        }
    }
    columns.issues.add_many(Issue::UnmatchedEnd, alone);
    set_durations(columns, &durs);
}

fn set_durations(columns: &mut Columns, durs: &[i64]) {
    let dur_of = |event: i64| durs.get(event as usize).copied().unwrap_or(NO_SLICE);
    let mut unpaired: Vec<UnpairedEvent> = Vec::new();
    let begin = columns.strings.intern("B");
    // Slices without an end are removed from their tables.
    macro_rules! set {
        ($($table:ident $(and $self_dur:ident)?),+) => { $(
            let table = &mut columns.$table;
            let mut left_open = Vec::new();
            for row in 0..table.len() {
                match dur_of(table.event_id.get(row)) {
                    NO_SLICE => {}
                    OPEN => left_open.push(row),
                    dur_ns => {
                        table.dur_ns.set(row, dur_ns);
                        $(table.$self_dur.set(row, dur_ns);)?
                    }
                }
            }
            if !left_open.is_empty() {
                unpaired.extend(left_open.iter().map(|&row| UnpairedEvent {
                    rank: 0,
                    event_id: table.event_id.get(row),
                    phase: begin,
                    name: table.name.get(row),
                    category: StrId::NULL,
                    ts_ns: table.ts_ns.get(row),
                    thread: table.thread.get(row),
                    args: String::new(),
                }));
                let left: FxHashSet<usize> = left_open.into_iter().collect();
                let kept: Vec<usize> =
                    (0..table.len()).filter(|row| !left.contains(row)).collect();
                columns.$table = columns.$table.take(&kept);
            }
        )+ };
    }
    set!(
        cpu_ops and self_dur_ns,
        runtime_calls and self_dur_ns,
        annotations and self_dur_ns,
        python_frames and self_dur_ns,
        kernels,
        memcpys,
        memsets,
        device_syncs,
        profiler_ranges,
        spans
    );
    let collectives = &mut columns.collectives;
    let mut kept = Vec::with_capacity(collectives.len());
    for row in 0..collectives.len() {
        match dur_of(collectives.event_id.get(row)) {
            NO_SLICE => kept.push(row),
            OPEN => {}
            dur_ns => {
                collectives.dur_ns.set(row, dur_ns);
                kept.push(row);
            }
        }
    }
    if kept.len() < collectives.len() {
        columns.collectives = columns.collectives.take(&kept);
    }
    columns.issues.add_many(Issue::UnmatchedBeginEnd, unpaired.len() as u64);
    unpaired.sort_unstable_by_key(|event| event.event_id);
    for event in unpaired {
        columns.unpaired_events.push_sparse(event);
    }
}
