//! What a host thread was doing at each moment: the innermost open event.

use std::cmp::Reverse;

use super::model::{Class, HostEvent, NONE, Role, Table, sort};

/// A stretch of a thread's time, up to the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) ts: i64,
    /// Innermost open event; [`NONE`] between events.
    pub(super) event: u32,
    pub(super) class: Class,
    /// Inside an operator, a runtime call or communication: on any thread this is work.
    pub(super) busy: bool,
}

/// The time of one host thread from its first event to its last, without holes.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    pub(super) lane: i32,
    pub(super) pieces: Vec<Piece>,
    pub(super) begin: i64,
    pub(super) end: i64,
}

struct Open {
    end: i64,
    event: u32,
    class: Class,
    busy: bool,
    loading: bool,
}

impl Timeline {
    /// One timeline for each thread, by lane.
    pub(super) fn all(host: &[HostEvent]) -> Vec<Self> {
        // Outer before inner; among equals the one written first is the outer one.
        let key = |(i, e): (u32, &HostEvent)| (e.lane, e.ts, Reverse(e.end), e.id, i);
        let mut order: Vec<_> = (0..).zip(host).map(key).collect();
        sort(&mut order);
        order
            .chunk_by(|a, b| a.0 == b.0)
            .map(|thread| Self::of(host, thread[0].0, thread.iter().map(|key| key.4)))
            .collect()
    }

    /// `order` holds the events of one thread, by start, outer first. Events that overlap without being
    /// nested are no error: the one that began last is the inner one while it lasts.
    fn of(host: &[HostEvent], lane: i32, order: impl Iterator<Item = u32>) -> Self {
        let mut order = order.peekable();
        let begin = order.peek().map_or(0, |&first| host[first as usize].ts);
        let mut timeline = Self { lane, pieces: Vec::new(), begin, end: begin };
        let mut stack: Vec<Open> = Vec::new();
        for event in order {
            let e = &host[event as usize];
            while let Some(top) = stack.pop_if(|top| top.end <= e.ts) {
                timeline.advance(top.end, Some(&top));
            }
            timeline.advance(e.ts, stack.last());
            let (busy, loading) = stack.last().map_or((false, false), |o| (o.busy, o.loading));
            let busy = busy
                || matches!(e.table, Table::CpuOps | Table::RuntimeCalls)
                || e.role == Role::Communication;
            let loading = loading || e.role == Role::Loader;
            let class = if loading { Class::DataLoading } else { class(e) };
            stack.push(Open { end: e.end, event, class, busy, loading });
        }
        while let Some(top) = stack.pop() {
            timeline.advance(top.end, Some(&top));
        }
        timeline
    }

    /// Gives the time up to `to` to `open`.
    fn advance(&mut self, to: i64, open: Option<&Open>) {
        if to <= self.end {
            return;
        }
        let (event, class, busy) =
            open.map_or((NONE, Class::Gap, false), |o| (o.event, o.class, o.busy));
        let ts = self.end;
        self.end = to;
        if self.pieces.last().is_none_or(|last| last.event != event) {
            self.pieces.push(Piece { ts, event, class, busy });
        }
    }

    /// The piece that covers `ts`: for its borders see [`Self::span`].
    pub(super) fn at(&self, ts: i64) -> Option<usize> {
        if ts >= self.end {
            return None;
        }
        self.pieces.partition_point(|p| p.ts <= ts).checked_sub(1)
    }

    /// Start and end of a piece.
    pub(super) fn span(&self, piece: usize) -> (i64, i64) {
        let end = self.pieces.get(piece + 1).map_or(self.end, |next| next.ts);
        (self.pieces[piece].ts, end)
    }
}

fn class(event: &HostEvent) -> Class {
    match (event.table, event.role) {
        (_, Role::DeviceSync | Role::StreamSync | Role::EventSync) => Class::Sync,
        (_, Role::Communication) => Class::Communication,
        (Table::CpuOps, _) => Class::Operator,
        (Table::Annotations, _) => Class::Annotation,
        (Table::PythonFrames, _) => Class::Python,
        _ => Class::RuntimeCall,
    }
}
