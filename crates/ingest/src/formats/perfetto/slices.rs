//! Pairs the begin and end events of slices.
//!
//! Most writers emit the events of a track in order of time, so that the events form a stack. PyTorch's writer emits the begins of
//! many slices and then their ends in the same order, so the file shows which end belongs to which begin. That is more than a
//! stack can express: a range of `record_function` begins inside one Python function and ends inside another, and an operator may
//! begin at the moment at which another one ends. Perfetto pairs these slices with the wrong ends.

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

/// Sets the durations of slices. Ends that are written in the order of their begins belong to these begins. Otherwise, a track is
/// a stack: in order of time, and in file order at equal times, an end closes the slice that began last. Slices without an end are
/// counted and moved to `unpaired_events`; ends without a slice are counted.
///
/// `marks` are in file order.
pub(super) fn pair(columns: &mut Columns, mut marks: Vec<Mark>) {
    if marks.is_empty() {
        return;
    }
    let mut durs = vec![NO_SLICE; usize::try_from(columns.events).unwrap_or(0)];
    pair_batches(&mut marks, &mut durs);
    let alone = pair_stacks(marks, &mut durs);
    columns.issues.add_many(Issue::UnmatchedEnd, alone);
    set_durations(columns, &durs);
}

/// Pairs and removes the marks of each batch: a run of begins, and a run of ends of the same slices in the same order.
fn pair_batches(marks: &mut Vec<Mark>, durs: &mut [i64]) {
    let (mut kept, mut start) = (0, 0);
    while start < marks.len() {
        let run_end = |from: usize, is_end: bool| {
            let other = marks[from..].iter().position(|mark| (mark.event == END) != is_end);
            other.map_or(marks.len(), |length| from + length)
        };
        let ends_at = run_end(start, false);
        let after = run_end(ends_at, true);
        let (begins, ends) = (&marks[start..ends_at], &marks[ends_at..after]);
        if is_batch(begins, ends) {
            for (begin, end) in begins.iter().zip(ends) {
                durs[begin.event as usize] = duration(begin, end);
            }
        } else {
            marks.copy_within(start..after, kept);
            kept += after - start;
        }
        start = after;
    }
    marks.truncate(kept);
}

/// Returns whether the ends are written in the order of the begins, which shows because they are not in order of time.
fn is_batch(begins: &[Mark], ends: &[Mark]) -> bool {
    let fits = |(begin, end): (&Mark, &Mark)| begin.track == end.track && begin.ts_ns <= end.ts_ns;
    let goes_back = |a: &Mark, b: &Mark| a.track == b.track && b.ts_ns < a.ts_ns;
    let (Some(last_begin), Some(first_end)) = (begins.last(), ends.first()) else { return false };
    begins.len() == ends.len()
        && (goes_back(last_begin, first_end)
            || ends.windows(2).any(|two| goes_back(&two[0], &two[1])))
        && begins.iter().zip(ends).all(fits)
}

fn duration(begin: &Mark, end: &Mark) -> i64 {
    let dur_ns = end.ts_ns.saturating_sub(begin.ts_ns);
    if dur_ns <= MAX_DURATION_NS { dur_ns } else { OPEN }
}

/// Pairs marks as brackets, and returns the number of ends without a begin.
fn pair_stacks(mut marks: Vec<Mark>, durs: &mut [i64]) -> u64 {
    marks.par_sort_by_key(|mark| (mark.track, mark.ts_ns));
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
                Some(begin) => durs[begin.event as usize] = duration(&begin, &mark),
                None => alone += 1,
            }
        } else {
            durs[mark.event as usize] = OPEN;
            open.push(mark);
        }
    }
    alone
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
