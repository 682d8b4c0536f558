//! The state of a host thread over time, computed in one pass over its events.

use super::cause::IdleCause;

/// Index of a missing name or source line.
pub(super) const NO_TEXT: u32 = u32::MAX;

/// Kind of a host event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostEventKind {
    /// A call, an operator or a wait.
    Cause(IdleCause),
    /// An annotation.
    Range,
    /// A Python function.
    Frame,
}

/// A host event.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostEvent {
    pub(super) ts_ns: i64,
    pub(super) end_ns: i64,
    pub(super) kind: HostEventKind,
    pub(super) name: u32,
    pub(super) source: u32,
}

/// The state of a thread: the strongest cause among the open events, and the events that locate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadState {
    /// `None` if no event is open.
    pub(super) state: Option<IdleCause>,
    /// Name of the innermost event with this state.
    pub(super) name: u32,
    pub(super) op: u32,
    pub(super) source: u32,
    pub(super) range: u32,
}

impl ThreadState {
    pub(super) const IDLE: Self =
        Self { state: None, name: NO_TEXT, op: NO_TEXT, source: NO_TEXT, range: NO_TEXT };

    /// The state inside one more event.
    fn enter(self, event: &HostEvent) -> Self {
        let mut inside = self;
        let state = match event.kind {
            HostEventKind::Cause(cause) => cause,
            HostEventKind::Range | HostEventKind::Frame => IdleCause::Python,
        };
        // An annotation names Python time only until a function inside it does.
        if self.state.is_none_or(|known| state >= known) {
            inside.state = Some(state);
            inside.name = event.name;
        }
        match event.kind {
            HostEventKind::Cause(IdleCause::OpDispatch | IdleCause::CpuCompute) => {
                inside.op = event.name;
            }
            HostEventKind::Range => inside.range = event.name,
            HostEventKind::Cause(_) | HostEventKind::Frame => {}
        }
        if event.source != NO_TEXT {
            inside.source = event.source;
        }
        inside
    }
}

/// Waits that follow each other this closely are one: a copy that blocks, and the synchronization after it.
const MAX_PAUSE_NS: i64 = 10_000;

/// A wait for the device.
#[derive(Debug, Clone, Copy)]
struct DeviceWait {
    ts_ns: i64,
    /// The latest end of this wait and all before it, and the interval in which that wait begins.
    end_ns: i64,
    interval: usize,
    /// Time in this wait and all before it, overlaps counted once.
    total_ns: i64,
}

/// A wait for the device at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenWait {
    /// The state in which the thread waits.
    pub(super) state: ThreadState,
    /// How long it waits in all until the wait ends, from its first wait on.
    pub(super) total_ns: i64,
}

/// A thread's time as intervals of constant state.
#[derive(Debug, Default)]
pub(super) struct ThreadTimeline {
    /// Start and state of each interval, sorted. The thread is idle before the first.
    intervals: Vec<(i64, ThreadState)>,
    waits: Vec<DeviceWait>,
}

/// An open event with the state inside it.
struct OpenEvent {
    end_ns: i64,
    /// The earliest end of this event and all around it.
    next_end: i64,
    event: usize,
    inside: ThreadState,
}

impl ThreadTimeline {
    pub(super) fn new(mut events: Vec<HostEvent>) -> Self {
        events.retain(|e| e.end_ns >= e.ts_ns);
        events.sort_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.end_ns)));
        let mut thread = Self::default();
        let mut open: Vec<OpenEvent> = Vec::new();
        for (i, event) in events.iter().enumerate() {
            thread.close_until(&mut open, &events, event.ts_ns);
            open_event(&mut open, &events, i);
            thread.record(event.ts_ns, open.last().map_or(ThreadState::IDLE, |o| o.inside));
        }
        thread.close_until(&mut open, &events, i64::MAX);
        let is_wait = |e: &&HostEvent| e.kind == HostEventKind::Cause(IdleCause::Synchronization);
        for event in events.iter().filter(is_wait) {
            let at = thread
                .intervals
                .partition_point(|&(ts_ns, _)| ts_ns <= event.ts_ns)
                .saturating_sub(1);
            let wait = match thread.waits.last() {
                Some(last) if last.end_ns > event.end_ns => {
                    DeviceWait { ts_ns: event.ts_ns, ..*last }
                }
                last => {
                    let since_ns = last.map_or(event.ts_ns, |last| event.ts_ns.max(last.end_ns));
                    let before_ns = last.map_or(0, |last| last.total_ns);
                    let total_ns = before_ns + event.end_ns - since_ns;
                    let (ts_ns, end_ns) = (event.ts_ns, event.end_ns);
                    DeviceWait { ts_ns, end_ns, interval: at, total_ns }
                }
            };
            thread.waits.push(wait);
        }
        thread
    }

    /// Closes events that end by `now`, each at its own end.
    fn close_until(&mut self, open: &mut Vec<OpenEvent>, events: &[HostEvent], now: i64) {
        while let Some(at) = open.last().map(|top| top.next_end).filter(|&end_ns| end_ns <= now) {
            // Usually only the top ends. Events that do not nest may leave others above them, which are reopened.
            let first = open.partition_point(|o| o.next_end > at);
            let above: Vec<usize> =
                open.drain(first..).filter(|o| o.end_ns > at).map(|o| o.event).collect();
            for event in above {
                open_event(open, events, event);
            }
            self.record(at, open.last().map_or(ThreadState::IDLE, |o| o.inside));
        }
    }

    fn record(&mut self, ts_ns: i64, inside: ThreadState) {
        match self.intervals.last_mut() {
            Some((last, known)) if *last == ts_ns => *known = inside,
            Some((_, known)) if *known == inside => {}
            _ => self.intervals.push((ts_ns, inside)),
        }
    }

    /// The wait for the device that is open at `now`, or ends then.
    pub(super) fn wait_at(&self, now: i64) -> Option<OpenWait> {
        let before = self.waits.partition_point(|wait| wait.ts_ns <= now);
        let wait = self.waits[..before].last().filter(|wait| wait.end_ns >= now)?;
        let &(_, state) = self.intervals.get(wait.interval)?;
        // A wait that goes on right after this one, in the gap, belongs to it.
        let mut last = wait;
        for next in &self.waits[before..] {
            if next.ts_ns - last.end_ns > MAX_PAUSE_NS {
                break;
            }
            last = next;
        }
        Some(OpenWait { state, total_ns: last.total_ns })
    }

    /// The intervals between `from` and `to`, clipped to that range.
    pub(super) fn between(
        &self,
        from: i64,
        to: i64,
    ) -> impl Iterator<Item = (i64, i64, ThreadState)> {
        let first = self.intervals.partition_point(|&(ts_ns, _)| ts_ns <= from);
        let before = first.checked_sub(1).map_or(ThreadState::IDLE, |at| self.intervals[at].1);
        let rest =
            self.intervals[first..].iter().copied().take_while(move |&(ts_ns, _)| ts_ns < to);
        let starts = std::iter::once((from, before)).chain(rest);
        let ends =
            self.intervals[first..].iter().map(|&(ts_ns, _)| ts_ns).chain(std::iter::once(to));
        starts
            .zip(ends)
            .map(move |((start, inside), end_ns)| (start, end_ns.min(to), inside))
            .filter(|&(start, end_ns, _)| start < end_ns)
    }
}

fn open_event(open: &mut Vec<OpenEvent>, events: &[HostEvent], event: usize) {
    let (around, next_end) =
        open.last().map_or((ThreadState::IDLE, i64::MAX), |top| (top.inside, top.next_end));
    let end_ns = events[event].end_ns;
    open.push(OpenEvent {
        end_ns,
        next_end: end_ns.min(next_end),
        event,
        inside: around.enter(&events[event]),
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{HostEvent, HostEventKind, IdleCause, NO_TEXT, ThreadTimeline};

    fn event(kind: HostEventKind, ts_ns: i64, dur_ns: i64, name: u32) -> HostEvent {
        HostEvent { ts_ns, end_ns: ts_ns + dur_ns, kind, name, source: NO_TEXT }
    }

    fn cause() -> impl Strategy<Value = IdleCause> {
        prop_oneof![
            Just(IdleCause::Python),
            Just(IdleCause::OpDispatch),
            Just(IdleCause::LaunchApi),
            Just(IdleCause::Synchronization),
            Just(IdleCause::DataLoading)
        ]
    }

    proptest! {
        /// At each moment the state is the strongest open cause, even if events cross.
        #[test]
        fn between_equals_a_naive_model(
            spans in prop::collection::vec((cause(), 0..50_i64, 0..12_i64), 0..20)
        ) {
            let events: Vec<HostEvent> = spans
                .iter()
                .map(|&(cause, ts_ns, dur_ns)| event(HostEventKind::Cause(cause), ts_ns, dur_ns, 0))
                .collect();
            let naive: Vec<Option<IdleCause>> = (0..60)
                .map(|t| events.iter().filter(|e| e.ts_ns <= t && t < e.end_ns).filter_map(|e| match e.kind {
                    HostEventKind::Cause(cause) => Some(cause),
                    _ => None,
                }).max())
                .collect();
            let waits = |t: i64| spans.iter().any(|&(cause, ts_ns, dur_ns)| cause == IdleCause::Synchronization && ts_ns <= t && t <= ts_ns + dur_ns);
            let thread = ThreadTimeline::new(events.clone());
            let mut found = vec![None; 60];
            for (start, end_ns, inside) in thread.between(0, 60) {
                for cell in &mut found[start as usize..end_ns as usize] {
                    *cell = inside.state;
                }
            }
            prop_assert_eq!(found, naive);
            for t in 0..60 {
                prop_assert_eq!(thread.wait_at(t).is_some(), waits(t), "at {}", t);
            }
        }
    }

    #[test]
    fn wait_at_knows_how_long_the_thread_waits() {
        let wait = |ts_ns, dur_ns| {
            event(HostEventKind::Cause(IdleCause::Synchronization), ts_ns, dur_ns, 0)
        };
        let thread = ThreadTimeline::new(vec![
            wait(1_000, 50_000),
            // In it, right after it, and much later.
            wait(2_000, 10_000),
            wait(53_000, 2_000),
            wait(100_000, 3_000),
        ]);
        let total = |now| thread.wait_at(now).map(|wait| wait.total_ns);
        assert_eq!(total(51_000), Some(52_000));
        assert_eq!(total(54_000), Some(52_000));
        assert_eq!(total(101_000), Some(55_000));
        assert_eq!(total(70_000), None);
    }

    #[test]
    fn between_names_the_innermost_event() {
        let thread = ThreadTimeline::new(vec![
            event(HostEventKind::Range, 0, 100, 1),
            event(HostEventKind::Frame, 10, 80, 2),
            event(HostEventKind::Cause(IdleCause::OpDispatch), 20, 40, 3),
            event(HostEventKind::Cause(IdleCause::OpDispatch), 25, 20, 4),
            event(HostEventKind::Cause(IdleCause::LaunchApi), 30, 5, 5),
        ]);
        let names: Vec<(i64, u32, u32)> =
            thread.between(5, 70).map(|(start, _, i)| (start, i.name, i.op)).collect();
        let expected = [
            (5, 1, NO_TEXT),
            (10, 2, NO_TEXT),
            (20, 3, 3),
            (25, 4, 4),
            (30, 5, 4),
            (35, 4, 4),
            (45, 3, 3),
            (60, 2, NO_TEXT),
        ];
        assert_eq!(names, expected);
    }
}
