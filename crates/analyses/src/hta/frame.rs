//! The events of one rank as HTA loads them: the rows it keeps, and its links from host calls to device activities.

use std::ops::RangeInclusive;

use super::names::Role;
use query::id_index::IdIndex;

/// The kinds of events that HTA distinguishes besides names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventKind {
    /// An operator or a call into the device runtime: an event with nodes in the graph.
    Call,
    /// An annotation, a Python frame or any other host event: it only nests.
    Range,
    /// A kernel, copy or fill.
    Activity,
    /// A `cuda_sync` event.
    Sync,
}

/// One event. Fields that do not apply are `NONE`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) id: i64,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) correlation: i64,
    pub(super) stream: i64,
    pub(super) name: u32,
    /// Position of its lane when lanes are ordered by process and thread.
    pub(super) lane: u32,
    pub(super) kind: EventKind,
    pub(super) role: Role,
}

/// HTA's value for a missing stream or correlation.
pub(super) const NONE: i64 = -1;

impl Event {
    pub(super) fn end_ns(&self) -> i64 {
        self.ts_ns.saturating_add(self.dur_ns)
    }

    pub(super) fn on_stream(&self) -> bool {
        self.stream != NONE
    }

    /// Whether the event is on the device side of HTA's links.
    fn on_device(&self) -> bool {
        (self.stream >= 0 && self.correlation >= 0)
            || matches!(self.role, Role::EventSync | Role::ContextSync)
    }
}

/// The events that HTA keeps, in order of their ids.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) events: Vec<Event>,
    /// HTA's `index_correlation`: the id of the event at the other end of the correlation, 0 if that event is not in the
    /// trace, -1 for events without correlation. HTA also takes the id 0 for "not in the trace".
    pub(super) linked: Vec<i64>,
    rows: IdIndex,
    cut: bool,
}

impl Frame {
    /// `events` are in order of their ids. From `cut_ns` on, host events are dropped, and with them
    /// what they launched.
    pub(super) fn new(mut events: Vec<Event>, cut_ns: Option<i64>) -> Self {
        let mut linked = links(&events);
        if let Some(cut_ns) = cut_ns {
            let kept = events.iter().filter(|e| !e.on_device() && e.ts_ns < cut_ns);
            let kept = IdIndex::of_each(kept.map(|e| e.correlation));
            let keep: Vec<bool> = events
                .iter()
                .map(|e| {
                    if e.on_device() { kept.get(e.correlation).is_some() } else { e.ts_ns < cut_ns }
                })
                .collect();
            let mut flags = keep.iter();
            events.retain(|_| flags.next() == Some(&true));
            let mut flags = keep.iter();
            linked.retain(|_| flags.next() == Some(&true));
        }
        let rows = IdIndex::of_each(events.iter().map(|e| e.id));
        Self { events, linked, rows, cut: cut_ns.is_some() }
    }

    pub(super) fn row(&self, id: i64) -> Option<usize> {
        self.rows.get(id).map(|row| row as usize)
    }

    /// The row of the event that `row` is linked to, if HTA recognizes the link.
    pub(super) fn partner(&self, row: usize) -> Option<usize> {
        (self.linked[row] > 0).then(|| self.row(self.linked[row])).flatten()
    }

    /// From the first start to the last end of some of the events whose names are selected, in the order of HTA's
    /// frame: if it has dropped the last step, device events come first.
    pub(super) fn extent(
        &self,
        is_selected: &[bool],
        instances: &RangeInclusive<usize>,
    ) -> Option<(i64, i64)> {
        let named = |e: &&Event| is_selected.get(e.name as usize) == Some(&true);
        let is_first = |e: &&Event| !self.cut || e.on_device();
        let first = self.events.iter().filter(is_first);
        let later = self.events.iter().filter(|e| !is_first(e));
        first
            .chain(later)
            .filter(named)
            .take(instances.end().saturating_add(1))
            .skip(*instances.start())
            .map(|e| (e.ts_ns, e.end_ns()))
            .reduce(|(from_ns, to_ns), (ts_ns, end_ns)| (from_ns.min(ts_ns), to_ns.max(end_ns)))
    }

    /// The rows that belong to a time range: host events with a duration that start in it, the activities they launched,
    /// and every wait of a stream for an event.
    pub(super) fn clip(&self, (from_ns, to_ns): (i64, i64)) -> Vec<bool> {
        let mut inside = vec![false; self.events.len()];
        for (row, event) in self.events.iter().enumerate() {
            if event.on_stream() {
                inside[row] |= event.role == Role::StreamWait;
            } else if (from_ns..=to_ns).contains(&event.ts_ns) && event.dur_ns > 0 {
                inside[row] = true;
                let partner = self.row(self.linked[row]).filter(|&p| self.events[p].on_stream());
                if let Some(partner) = partner {
                    inside[partner] = true;
                }
            }
        }
        inside
    }
}

/// Links host and device events with the same correlation. If there are several, all link to the last one: the launch
/// of a CUDA graph is linked to one of its kernels.
fn links(events: &[Event]) -> Vec<i64> {
    let rows = events.iter().zip(0..).filter(|(event, _)| event.correlation != NONE);
    let last = |on_device: bool| {
        let side = rows.clone().filter(move |(event, _)| event.on_device() == on_device);
        IdIndex::of(side.map(|(event, row)| (event.correlation, row)))
    };
    let (host, device) = (last(false), last(true));
    let id = |row: u32| events[row as usize].id;
    let link = |event: &Event| match event.correlation {
        NONE => NONE,
        both => match (host.get(both), device.get(both)) {
            (Some(host), Some(device)) => id(if event.on_device() { host } else { device }),
            _ => both.min(0),
        },
    };
    events.iter().map(link).collect()
}
