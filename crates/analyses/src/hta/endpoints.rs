//! The nodes of the graph: starts and ends of calls and activities.

use super::frame::{EventKind, Frame};
use super::graph::{Edge, EdgeKind, Graph};

/// The graph under construction, with two nodes per event.
#[derive(Debug)]
pub(super) struct Endpoints<'a> {
    pub(super) frame: &'a Frame,
    /// Rows of the events that have nodes. The nodes of the event at position `i` are `2 * i` (start) and `2 * i + 1` (end).
    pub(super) rows: Vec<u32>,
    position: Vec<u32>,
    pub(super) graph: Graph,
}

const ABSENT: u32 = u32::MAX;

impl<'a> Endpoints<'a> {
    pub(super) fn new(frame: &'a Frame, inside: &[bool]) -> Self {
        let mut rows = Vec::new();
        let mut position = vec![ABSENT; frame.events.len()];
        for (row, event) in frame.events.iter().enumerate() {
            let device = event.on_stream() && frame.linked[row] >= 0;
            if inside[row] && (device || event.kind == EventKind::Call) {
                position[row] = rows.len() as u32;
                rows.push(row as u32);
            }
        }
        // Most events have one edge to their start and one to their end.
        let edges = Vec::with_capacity(2 * rows.len());
        Self { frame, rows, position, graph: Graph { edges } }
    }

    pub(super) fn start_of(&self, row: usize) -> Option<u32> {
        let position = self.position[row];
        (position != ABSENT).then(|| 2 * position)
    }

    pub(super) fn end_of(&self, row: usize) -> Option<u32> {
        self.start_of(row).map(|start| start + 1)
    }

    pub(super) fn row(&self, node: u32) -> u32 {
        self.rows[(node / 2) as usize]
    }

    pub(super) fn is_end(node: u32) -> bool {
        node % 2 == 1
    }

    pub(super) fn ts_ns(&self, node: u32) -> i64 {
        let event = &self.frame.events[self.row(node) as usize];
        if Self::is_end(node) { event.end_ns() } else { event.ts_ns }
    }

    fn gap_ns(&self, from: u32, to: u32) -> i64 {
        self.ts_ns(to).saturating_sub(self.ts_ns(from))
    }

    /// Adds the time spent in an event from one node to the next. `enclosing` is the event around the first node.
    pub(super) fn add_operator(
        &mut self,
        from: u32,
        to: u32,
        enclosing: Option<u32>,
        blocked: bool,
    ) {
        let event = match (Self::is_end(from), Self::is_end(to)) {
            (false, _) => Some(self.row(from)),
            (true, true) => Some(self.row(to)),
            (true, false) => enclosing,
        };
        let weight_ns = if blocked { 0 } else { self.gap_ns(from, to) };
        self.graph.add(Edge { from, to, kind: EdgeKind::Operator, weight_ns, event });
    }

    /// Adds a dependency without weight.
    pub(super) fn add_dependency(&mut self, from: u32, to: u32, kind: EdgeKind) {
        self.graph.add(Edge { from, to, kind, weight_ns: 0, event: None });
    }

    /// Adds the delay from a launching call to the start of the activity that it launched.
    pub(super) fn add_launch_delay(&mut self, from: u32, to: u32) {
        let weight_ns = self.gap_ns(from, to);
        self.graph.add(Edge { from, to, kind: EdgeKind::LaunchDelay, weight_ns, event: None });
    }

    /// Adds the delay from the end of an activity to the start of the next one on its stream.
    pub(super) fn add_kernel_delay(&mut self, from: u32, to: u32) {
        let (weight_ns, event) = (self.gap_ns(from, to), Some(self.row(from)));
        self.graph.add(Edge { from, to, kind: EdgeKind::KernelDelay, weight_ns, event });
    }
}
