//! Host threads as sequences of pieces, each with its innermost open event.

use std::cmp::Reverse;

use super::model::{EventTable, HostEvent, HostRole, NO_INDEX, TimeClass, sort_runs};

/// A piece of a thread's time, up to the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimelinePiece {
    pub(crate) ts_ns: i64,
    /// Innermost open event; [`NO_INDEX`] between events.
    pub(crate) event: u32,
    pub(crate) class: TimeClass,
    /// Inside an operator, a runtime call or communication, which is work on any thread.
    pub(crate) busy: bool,
}

/// The time of one host thread from its first event to its last, without holes.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    pub(crate) lane: i32,
    pub(crate) pieces: Vec<TimelinePiece>,
    pub(crate) begin_ns: i64,
    pub(crate) end_ns: i64,
}

struct OpenEvent {
    end_ns: i64,
    event: u32,
    class: TimeClass,
    busy: bool,
    loading: bool,
}

impl Timeline {
    /// One timeline per thread, sorted by lane.
    pub(crate) fn all(host: &[HostEvent]) -> Vec<Self> {
        // Outer events come before inner ones; of equal events the one written first is the outer one.
        let key = |(i, e): (u32, &HostEvent)| (e.lane, e.ts_ns, Reverse(e.end_ns), e.id, i);
        let mut order: Vec<_> = (0..).zip(host).map(key).collect();
        sort_runs(&mut order);
        order
            .chunk_by(|a, b| a.0 == b.0)
            .map(|thread| Self::of(host, thread[0].0, thread.iter().map(|key| key.4)))
            .collect()
    }

    /// `order` holds the events of one thread by start, outer events first. Events may overlap without nesting: the
    /// one that began last is the inner one while it lasts.
    fn of(host: &[HostEvent], lane: i32, order: impl Iterator<Item = u32>) -> Self {
        let mut order = order.peekable();
        let begin_ns = order.peek().map_or(0, |&first| host[first as usize].ts_ns);
        let mut timeline = Self { lane, pieces: Vec::new(), begin_ns, end_ns: begin_ns };
        let mut stack: Vec<OpenEvent> = Vec::new();
        for event in order {
            let e = &host[event as usize];
            while let Some(top) = stack.pop_if(|top| top.end_ns <= e.ts_ns) {
                timeline.advance(top.end_ns, Some(&top));
            }
            timeline.advance(e.ts_ns, stack.last());
            let (busy, loading) = stack.last().map_or((false, false), |o| (o.busy, o.loading));
            let busy = busy
                || matches!(e.table, EventTable::CpuOps | EventTable::RuntimeCalls)
                || e.role == HostRole::Communication;
            let loading = loading || e.role == HostRole::Loader;
            let class = if loading { TimeClass::DataLoading } else { class(e) };
            stack.push(OpenEvent { end_ns: e.end_ns, event, class, busy, loading });
        }
        while let Some(top) = stack.pop() {
            timeline.advance(top.end_ns, Some(&top));
        }
        timeline
    }

    /// Assigns the time up to `to` to `open`.
    fn advance(&mut self, to: i64, open: Option<&OpenEvent>) {
        if to <= self.end_ns {
            return;
        }
        let (event, class, busy) =
            open.map_or((NO_INDEX, TimeClass::Gap, false), |o| (o.event, o.class, o.busy));
        let ts_ns = self.end_ns;
        self.end_ns = to;
        if self.pieces.last().is_none_or(|last| last.event != event) {
            self.pieces.push(TimelinePiece { ts_ns, event, class, busy });
        }
    }

    /// Index of the piece that covers `ts_ns`; [`Self::span`] gives its borders.
    pub(crate) fn at(&self, ts_ns: i64) -> Option<usize> {
        if ts_ns >= self.end_ns {
            return None;
        }
        self.pieces.partition_point(|p| p.ts_ns <= ts_ns).checked_sub(1)
    }

    /// Start and end of a piece.
    pub(crate) fn span(&self, piece: usize) -> (i64, i64) {
        let end_ns = self.pieces.get(piece + 1).map_or(self.end_ns, |next| next.ts_ns);
        (self.pieces[piece].ts_ns, end_ns)
    }
}

fn class(event: &HostEvent) -> TimeClass {
    match (event.table, event.role) {
        (_, HostRole::DeviceSync | HostRole::StreamSync | HostRole::EventSync) => TimeClass::Sync,
        (_, HostRole::Communication) => TimeClass::Communication,
        (EventTable::CpuOps, _) => TimeClass::Operator,
        (EventTable::Annotations, _) => TimeClass::Annotation,
        (EventTable::PythonFrames, _) => TimeClass::Python,
        _ => TimeClass::RuntimeCall,
    }
}
