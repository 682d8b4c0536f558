//! Edges along host threads.

use super::graph::EdgeKind;
use super::moments::Moments;

/// A start or an end, as threads are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    ts_ns: i64,
    /// Ends come before starts at the same time: everything here lasts.
    is_start: bool,
    /// Of starts the longest event comes first, of ends the shortest.
    length: i64,
    /// Of equals the one written first is the outer one.
    order: i64,
    row: u32,
}

/// Walks the call tree of each thread. A gap between two top-level operators costs nothing.
pub(super) fn connect(moments: &mut Moments<'_>, inside: &[bool]) {
    for lane in lanes(moments, inside) {
        let mut walk = Walk::default();
        let mut open: Vec<u32> = Vec::new();
        for mark in marks(moments, &lane) {
            if mark.is_start {
                walk.enter(moments, mark.row, open.last().copied());
                open.push(mark.row);
            } else if let Some(row) = open.pop() {
                // Whatever was opened last: HTA does not look which event ends.
                walk.leave(moments, row, open.last().copied());
            }
        }
    }
}

/// Rows of host events by lane, in the order of lanes; lanes with device events are no threads.
fn lanes(moments: &Moments<'_>, inside: &[bool]) -> Vec<Vec<u32>> {
    let events = &moments.frame.events;
    let count = events.iter().map(|e| e.lane as usize + 1).max().unwrap_or(0);
    let mut lanes = vec![Vec::new(); count];
    let mut device = vec![false; count];
    for (row, event) in events.iter().enumerate().filter(|&(row, _)| inside[row]) {
        device[event.lane as usize] |= event.on_stream();
        lanes[event.lane as usize].push(row as u32);
    }
    for (lane, _) in lanes.iter_mut().zip(device).filter(|&(_, device)| device) {
        lane.clear();
    }
    lanes
}

fn marks(moments: &Moments<'_>, lane: &[u32]) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(2 * lane.len());
    for &row in lane {
        let event = &moments.frame.events[row as usize];
        let (id, length) = (event.id, event.dur_ns);
        marks.push(Mark { ts_ns: event.ts_ns, is_start: true, length: -length, order: id, row });
        marks.push(Mark { ts_ns: event.end_ns(), is_start: false, length, order: -id, row });
    }
    marks.sort_unstable();
    marks
}

#[derive(Debug, Default)]
struct Walk {
    depth: usize,
    /// The moment before, within a top-level operator, and the event around it.
    last: Option<u32>,
    around: Option<u32>,
    /// End of the top-level operator before.
    before: Option<u32>,
}

impl Walk {
    fn enter(&mut self, moments: &mut Moments<'_>, row: u32, around: Option<u32>) {
        let Some(start) = moments.start_of(row as usize) else { return };
        if self.depth == 0
            && let Some(before) = self.before
        {
            moments.follow(before, start, EdgeKind::Dependency);
        }
        self.depth += 1;
        if let Some(last) = self.last {
            moments.spend(last, start, self.around, false);
        }
        self.last = Some(start);
        self.around = around;
    }

    fn leave(&mut self, moments: &mut Moments<'_>, row: u32, around: Option<u32>) {
        let Some(end) = moments.end_of(row as usize) else { return };
        self.depth = self.depth.saturating_sub(1);
        if let Some(last) = self.last {
            let blocked = moments.frame.events[row as usize].role.blocks();
            moments.spend(last, end, self.around, blocked);
        }
        if self.depth == 0 {
            self.last = None;
            self.before = Some(end);
        } else {
            self.last = Some(end);
            self.around = around;
        }
    }
}
