//! Edges along host threads. This reproduces HTA's walk over starts and ends, which does not match ends with starts,
//! so it does not use the call tree of the tables.

use std::cmp::Reverse;

use super::endpoints::Endpoints;
use super::graph::EdgeKind;

/// Walks the calls of each thread. A gap between two top-level operators has no weight.
pub(super) fn connect(endpoints: &mut Endpoints<'_>, inside: &[bool]) {
    let frame = endpoints.frame;
    let event = |row: u32| &frame.events[row as usize];
    for mut starts in lanes(endpoints, inside) {
        // Of starts at the same time the longest event is the outer one and comes first; of equals, the one written first.
        starts.sort_by_key(|&row| (event(row).ts_ns, Reverse(event(row).dur_ns), event(row).id));
        // Only the time of an end matters: HTA ends the event that was opened last, without checking that it is the same.
        let mut ends: Vec<i64> = starts.iter().map(|&row| event(row).end_ns()).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        let mut walk = ThreadWalk::default();
        let mut open: Vec<u32> = Vec::new();
        for row in starts {
            // Ends come before starts at the same time: all events here have a duration.
            while ends.next_if(|&end_ns| end_ns <= event(row).ts_ns).is_some() {
                walk.leave(endpoints, &mut open);
            }
            walk.enter(endpoints, row, open.last().copied());
            open.push(row);
        }
        for _ in ends {
            walk.leave(endpoints, &mut open);
        }
    }
}

/// Rows of host events by lane, in the order of lanes. Lanes with device events are not threads.
fn lanes(endpoints: &Endpoints<'_>, inside: &[bool]) -> Vec<Vec<u32>> {
    let events = &endpoints.frame.events;
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
struct ThreadWalk {
    depth: usize,
    /// The previous node within a top-level operator, and the event around it.
    last: Option<u32>,
    enclosing: Option<u32>,
    /// End of the previous top-level operator.
    last_top_level_end: Option<u32>,
}

impl ThreadWalk {
    fn enter(&mut self, endpoints: &mut Endpoints<'_>, row: u32, enclosing: Option<u32>) {
        let Some(start) = endpoints.start_of(row as usize) else { return };
        if self.depth == 0
            && let Some(before) = self.last_top_level_end
        {
            endpoints.add_dependency(before, start, EdgeKind::Dependency);
        }
        self.depth += 1;
        if let Some(last) = self.last {
            endpoints.add_operator(last, start, self.enclosing, false);
        }
        self.last = Some(start);
        self.enclosing = enclosing;
    }

    fn leave(&mut self, endpoints: &mut Endpoints<'_>, open: &mut Vec<u32>) {
        let Some(row) = open.pop() else { return };
        let enclosing = open.last().copied();
        let Some(end) = endpoints.end_of(row as usize) else { return };
        self.depth = self.depth.saturating_sub(1);
        if let Some(last) = self.last {
            let blocked = endpoints.frame.events[row as usize].role.blocks();
            endpoints.add_operator(last, end, self.enclosing, blocked);
        }
        if self.depth == 0 {
            self.last = None;
            self.last_top_level_end = Some(end);
        } else {
            self.last = Some(end);
            self.enclosing = enclosing;
        }
    }
}
