//! What a host thread is in at each moment: one walk over its events.

use super::cause::Cause;

/// No name, no line.
pub(super) const NONE: u32 = u32::MAX;

/// What kind of thing is open on the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call, an operator or a wait.
    Cause(Cause),
    /// An annotation.
    Range,
    /// A Python function.
    Frame,
}

/// Something that a thread is in, from `ts` to `end`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) ts: i64,
    pub(super) end: i64,
    pub(super) kind: Kind,
    pub(super) name: u32,
    pub(super) source: u32,
}

/// What a thread is in: the strongest cause of all that is open, and what says where that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Inside {
    /// Nothing is open: `None`.
    pub(super) state: Option<Cause>,
    /// Of the innermost that has this state.
    pub(super) name: u32,
    pub(super) op: u32,
    pub(super) source: u32,
    pub(super) range: u32,
}

impl Inside {
    pub(super) const NOTHING: Self =
        Self { state: None, name: NONE, op: NONE, source: NONE, range: NONE };

    /// This with one more inside.
    fn enter(self, event: &Event) -> Self {
        let mut inside = self;
        let state = match event.kind {
            Kind::Cause(cause) => cause,
            Kind::Range | Kind::Frame => Cause::Python,
        };
        // An annotation names Python's time only until a function inside it does.
        if self.state.is_none_or(|known| state >= known) {
            inside.state = Some(state);
            inside.name = event.name;
        }
        match event.kind {
            Kind::Cause(Cause::OpDispatch) => inside.op = event.name,
            Kind::Range => inside.range = event.name,
            Kind::Cause(_) | Kind::Frame => {}
        }
        if event.source != NONE {
            inside.source = event.source;
        }
        inside
    }
}

/// A wait for the device.
#[derive(Debug, Clone, Copy)]
struct Wait {
    ts: i64,
    /// The latest end of this wait and all before it, and the stretch in which that one begins.
    end: i64,
    stretch: usize,
}

/// A thread's time in stretches that each are in one thing.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// From where on, and in what; sorted. Before the first: nothing.
    stretches: Vec<(i64, Inside)>,
    waits: Vec<Wait>,
}

/// An event that is open, with all around it.
struct Open {
    end: i64,
    /// The first end of this and all around it.
    next_end: i64,
    event: usize,
    inside: Inside,
}

impl Thread {
    pub(super) fn new(mut events: Vec<Event>) -> Self {
        events.retain(|e| e.end >= e.ts);
        events.sort_by_key(|e| (e.ts, std::cmp::Reverse(e.end)));
        let mut thread = Self::default();
        let mut open: Vec<Open> = Vec::new();
        for (i, event) in events.iter().enumerate() {
            thread.close(&mut open, &events, event.ts);
            push(&mut open, &events, i);
            thread.note(event.ts, open.last().map_or(Inside::NOTHING, |o| o.inside));
        }
        thread.close(&mut open, &events, i64::MAX);
        let is_wait = |e: &&Event| e.kind == Kind::Cause(Cause::Synchronisation);
        for event in events.iter().filter(is_wait) {
            let at = thread.stretches.partition_point(|&(ts, _)| ts <= event.ts).saturating_sub(1);
            let last = thread.waits.last().filter(|last| last.end > event.end);
            let (end, stretch) = last.map_or((event.end, at), |last| (last.end, last.stretch));
            thread.waits.push(Wait { ts: event.ts, end, stretch });
        }
        thread
    }

    /// Ends what is over at `now`, each at its time.
    fn close(&mut self, open: &mut Vec<Open>, events: &[Event], now: i64) {
        while let Some(at) = open.last().map(|top| top.next_end).filter(|&end| end <= now) {
            // Nearly always the top alone; what does not nest leaves others above it, entered again.
            let first = open.iter().position(|o| o.end <= at).unwrap_or(open.len());
            let above: Vec<usize> =
                open.drain(first..).filter(|o| o.end > at).map(|o| o.event).collect();
            for event in above {
                push(open, events, event);
            }
            self.note(at, open.last().map_or(Inside::NOTHING, |o| o.inside));
        }
    }

    fn note(&mut self, ts: i64, inside: Inside) {
        match self.stretches.last_mut() {
            Some((last, known)) if *last == ts => *known = inside,
            Some((_, known)) if *known == inside => {}
            _ => self.stretches.push((ts, inside)),
        }
    }

    /// What the thread is in where it waits for the device at `now`, or until then.
    pub(super) fn wait_at(&self, now: i64) -> Option<Inside> {
        let before = self.waits.partition_point(|wait| wait.ts <= now);
        let wait = self.waits[..before].last().filter(|wait| wait.end >= now)?;
        self.stretches.get(wait.stretch).map(|&(_, inside)| inside)
    }

    /// The stretches from `from` to `to`, cut to that.
    pub(super) fn between(&self, from: i64, to: i64) -> impl Iterator<Item = (i64, i64, Inside)> {
        let first = self.stretches.partition_point(|&(ts, _)| ts <= from);
        let before = first.checked_sub(1).map_or(Inside::NOTHING, |at| self.stretches[at].1);
        let rest = self.stretches[first..].iter().copied().take_while(move |&(ts, _)| ts < to);
        let starts = std::iter::once((from, before)).chain(rest);
        let ends = self.stretches[first..].iter().map(|&(ts, _)| ts).chain(std::iter::once(to));
        starts
            .zip(ends)
            .map(move |((start, inside), end)| (start, end.min(to), inside))
            .filter(|&(start, end, _)| start < end)
    }
}

fn push(open: &mut Vec<Open>, events: &[Event], event: usize) {
    let (around, next_end) =
        open.last().map_or((Inside::NOTHING, i64::MAX), |top| (top.inside, top.next_end));
    let end = events[event].end;
    open.push(Open {
        end,
        next_end: end.min(next_end),
        event,
        inside: around.enter(&events[event]),
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cause, Event, Kind, NONE, Thread};

    fn event(kind: Kind, ts: i64, dur: i64, name: u32) -> Event {
        Event { ts, end: ts + dur, kind, name, source: NONE }
    }

    fn cause() -> impl Strategy<Value = Cause> {
        prop_oneof![
            Just(Cause::Python),
            Just(Cause::OpDispatch),
            Just(Cause::LaunchApi),
            Just(Cause::Synchronisation),
            Just(Cause::DataLoading)
        ]
    }

    proptest! {
        /// However events nest or cross, a moment is in the strongest cause that is open.
        #[test]
        fn states_are_those_of_a_naive_model(
            spans in prop::collection::vec((cause(), 0..50_i64, 0..12_i64), 0..20)
        ) {
            let events: Vec<Event> = spans
                .iter()
                .map(|&(cause, ts, dur)| event(Kind::Cause(cause), ts, dur, 0))
                .collect();
            let naive: Vec<Option<Cause>> = (0..60)
                .map(|t| events.iter().filter(|e| e.ts <= t && t < e.end).filter_map(|e| match e.kind {
                    Kind::Cause(cause) => Some(cause),
                    _ => None,
                }).max())
                .collect();
            let waits = |t: i64| spans.iter().any(|&(cause, ts, dur)| cause == Cause::Synchronisation && ts <= t && t <= ts + dur);
            let thread = Thread::new(events.clone());
            let mut found = vec![None; 60];
            for (start, end, inside) in thread.between(0, 60) {
                for cell in &mut found[start as usize..end as usize] {
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
    fn the_innermost_names_a_stretch() {
        let thread = Thread::new(vec![
            event(Kind::Range, 0, 100, 1),
            event(Kind::Frame, 10, 80, 2),
            event(Kind::Cause(Cause::OpDispatch), 20, 40, 3),
            event(Kind::Cause(Cause::OpDispatch), 25, 20, 4),
            event(Kind::Cause(Cause::LaunchApi), 30, 5, 5),
        ]);
        let names: Vec<(i64, u32, u32)> =
            thread.between(5, 70).map(|(start, _, i)| (start, i.name, i.op)).collect();
        let expected = [
            (5, 1, NONE),
            (10, 2, NONE),
            (20, 3, 3),
            (25, 4, 4),
            (30, 5, 4),
            (35, 4, 4),
            (45, 3, 3),
            (60, 2, NONE),
        ];
        assert_eq!(names, expected);
    }
}
