//! Edges along host threads.

use std::cmp::Reverse;

use super::graph::EdgeKind;
use super::moments::Moments;

/// Walks the call tree of each thread. A gap between two top-level operators costs nothing.
pub(super) fn connect(moments: &mut Moments<'_>, inside: &[bool]) {
    let frame = moments.frame;
    let event = |row: u32| &frame.events[row as usize];
    for mut starts in lanes(moments, inside) {
        // Of starts at the same time the longest event comes first, of equals the one written first: it is the outer one.
        starts.sort_by_key(|&row| (event(row).ts_ns, Reverse(event(row).dur_ns), event(row).id));
        // Of ends only the time counts: what ends is what was opened last. HTA does not look which event that is.
        let mut ends: Vec<i64> = starts.iter().map(|&row| event(row).end_ns()).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        let mut walk = Walk::default();
        let mut open: Vec<u32> = Vec::new();
        for row in starts {
            // Ends come before starts at the same time: everything here lasts.
            while ends.next_if(|&end_ns| end_ns <= event(row).ts_ns).is_some() {
                walk.leave(moments, &mut open);
            }
            walk.enter(moments, row, open.last().copied());
            open.push(row);
        }
        for _ in ends {
            walk.leave(moments, &mut open);
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

    fn leave(&mut self, moments: &mut Moments<'_>, open: &mut Vec<u32>) {
        let Some(row) = open.pop() else { return };
        let around = open.last().copied();
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
