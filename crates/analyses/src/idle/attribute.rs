//! Each idle moment of a device gets one cause: a walk over its gaps, and in each over what the host did.

use std::collections::HashMap;

use super::cause::Cause;
use super::load::{Device, Gap, Host, Launch, Loaded};
use super::thread::{Inside, NONE, Thread};

/// An activity that starts so soon after the one before on its stream waited for that, whatever else ended since.
const SWITCH_NS: i64 = 10_000;
/// No launch takes longer to arrive. Where graphs are replayed, what seems to waited for work that is not recorded.
const MAX_LATENCY_NS: i64 = 1_000_000;
/// A replay of which less than this is recorded as running has kernels that are not recorded.
const LEAST_COVER: f64 = 0.5;

/// What a piece of a gap is about, where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) name: u32,
    pub(super) op: u32,
    pub(super) source: u32,
    pub(super) range: u32,
    pub(super) thread: Option<i64>,
}

impl Place {
    fn of(inside: &Inside, thread: i64) -> Self {
        let Inside { name, op, source, range, .. } = *inside;
        Self { name, op, source, range, thread: Some(thread) }
    }

    const NOWHERE: Self = Self { name: NONE, op: NONE, source: NONE, range: NONE, thread: None };
}

/// The part of a gap that has one cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// Positions of the device and its gap.
    pub(super) device: usize,
    pub(super) gap: usize,
    pub(super) cause: Cause,
    pub(super) state: Option<Cause>,
    pub(super) ts: i64,
    pub(super) dur: i64,
    pub(super) place: Place,
}

/// A stretch of a gap, before those of one cause are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    cause: Cause,
    state: Option<Cause>,
    place: Place,
    ts: i64,
    dur: i64,
}

/// The parts of all gaps of a device, in order of time.
pub(super) fn parts(loaded: &Loaded, device: usize, parts: &mut Vec<Part>) {
    let of = &loaded.devices[device];
    let nothing = Host::default();
    let host = loaded.hosts.get(&of.rank).unwrap_or(&nothing);
    let walk = Walk { loaded, device: of, host, opaque: opaque(of) };
    let mut stream_ends: HashMap<i64, i64> = HashMap::new();
    let mut seen = 0;
    let mut pieces = Vec::new();
    for (at, gap) in of.gaps.iter().enumerate() {
        let until = gap.next.unwrap_or(of.work.len());
        for work in &of.work[seen..until] {
            let end = stream_ends.entry(work.stream).or_insert(work.end);
            *end = work.end.max(*end);
        }
        seen = until;
        pieces.clear();
        walk.gap(gap, &stream_ends, &mut pieces);
        join(&mut pieces, |cause, state, ts, dur, place| {
            parts.push(Part { device, gap: at, cause, state, ts, dur, place });
        });
    }
}

/// Puts the pieces of one cause together, in order of time; the place is the one with most of it.
fn join(pieces: &mut [Piece], mut emit: impl FnMut(Cause, Option<Cause>, i64, i64, Place)) {
    pieces.sort_unstable();
    let mut joined: Vec<(i64, Cause, Option<Cause>, i64, Place)> = Vec::new();
    for cause in pieces.chunk_by(|a, b| (a.cause, a.state) == (b.cause, b.state)) {
        let ts = cause.iter().map(|p| p.ts).min().unwrap_or_default();
        let dur = cause.iter().map(|p| p.dur).sum();
        let most = cause
            .chunk_by(|a, b| a.place == b.place)
            // Of equals, the first in time.
            .max_by_key(|same| (same.iter().map(|p| p.dur).sum::<i64>(), -same[0].ts));
        let place = most.map_or(Place::NOWHERE, |same| same[0].place);
        joined.push((ts, cause[0].cause, cause[0].state, dur, place));
    }
    joined.sort_unstable();
    for (ts, cause, state, dur, place) in joined {
        emit(cause, state, ts, dur, place);
    }
}

/// Replays of which most was not recorded.
fn opaque(device: &Device) -> HashMap<i64, i64> {
    struct Replay {
        launch: Launch,
        first: i64,
        busy_until: i64,
        busy: i64,
    }
    let mut replays: HashMap<i64, Replay> = HashMap::new();
    for work in &device.work {
        let Some(launch) = work.launch.filter(|launch| launch.is_graph) else { continue };
        let replay = replays.entry(launch.id).or_insert(Replay {
            launch,
            first: work.ts,
            busy_until: work.ts,
            busy: 0,
        });
        replay.busy += (work.end - work.ts.max(replay.busy_until)).max(0);
        replay.busy_until = replay.busy_until.max(work.end);
    }
    let is_opaque = |r: &Replay| (r.busy as f64) < LEAST_COVER * (r.busy_until - r.first) as f64;
    replays.into_iter().filter(|(_, r)| is_opaque(r)).map(|(id, r)| (id, r.launch.ts)).collect()
}

/// What the attribution of one device goes by.
struct Walk<'l> {
    loaded: &'l Loaded,
    device: &'l Device,
    host: &'l Host,
    /// Launches of replays that cannot be seen through, and when they began.
    opaque: HashMap<i64, i64>,
}

impl Walk<'_> {
    fn gap(&self, gap: &Gap, stream_ends: &HashMap<i64, i64>, pieces: &mut Vec<Piece>) {
        let next = gap.next.map(|at| &self.device.work[at]);
        let mut until = gap.end;
        // After a replay that shows nothing, or too little, nobody knows what runs.
        if let Some(from) = self.hidden_from(gap) {
            whole(pieces, Cause::GraphReplay, from.max(gap.ts), gap.end);
            until = from.max(gap.ts);
        }
        if until == gap.ts {
            return;
        }
        match next {
            Some(next) => match next.launch {
                Some(launch) if launch.end <= gap.ts => {
                    let cause = self.device_side(gap, next.stream, stream_ends);
                    self.waited(pieces, cause, gap.ts, until);
                }
                Some(launch) => self.host_side(gap, Some(launch), until, pieces),
                None if self.host.has_calls => whole(pieces, Cause::Unlinked, gap.ts, until),
                None => whole(pieces, Cause::NoHostEvents, gap.ts, until),
            },
            None if self.host.has_calls => self.host_side(gap, None, until, pieces),
            None => whole(pieces, Cause::NoHostEvents, gap.ts, until),
        }
    }

    /// From when on work may have run in the gap that the trace does not show.
    fn hidden_from(&self, gap: &Gap) -> Option<i64> {
        let launch = gap.next.and_then(|at| self.device.work[at].launch);
        let opaque = launch.and_then(|launch| self.opaque.get(&launch.id)).copied();
        let silent = &self.host.silent_replays;
        let first = silent.partition_point(|&ts| ts < gap.ts);
        // One that began before the gap may still run, if nothing recorded was launched after it and has run.
        let before = first.checked_sub(1).map(|at| silent[at]).filter(|&ts| {
            let previous = gap.previous.and_then(|at| self.device.work[at].launch);
            previous.is_none_or(|launch| launch.ts < ts)
        });
        let after = silent.get(first).copied();
        [opaque, before, after].into_iter().flatten().filter(|&ts| ts < gap.end).min()
    }

    /// Launched in time: what did the activity wait for on the device?
    fn device_side(&self, gap: &Gap, stream: i64, stream_ends: &HashMap<i64, i64>) -> Cause {
        let Some(previous) = gap.previous.map(|at| &self.device.work[at]) else {
            return Cause::Dependency;
        };
        let own = stream_ends.get(&stream);
        if previous.stream == stream || own.is_some_and(|&end| gap.ts - end < SWITCH_NS) {
            Cause::Dependency
        } else if previous.is_collective {
            Cause::Collective
        } else {
            Cause::OtherStream
        }
    }

    /// Launched, and nothing of the host holds it up.
    fn waited(&self, pieces: &mut Vec<Piece>, cause: Cause, from: i64, to: i64) {
        let is_explained = to - from <= MAX_LATENCY_NS || !self.host.has_graphs;
        whole(pieces, if is_explained { cause } else { Cause::GraphReplay }, from, to);
    }

    /// Not launched yet: what held the host up until `launch` returned?
    fn host_side(&self, gap: &Gap, launch: Option<Launch>, until: i64, pieces: &mut Vec<Piece>) {
        let before = gap.previous.and_then(|at| self.device.work[at].launch);
        let launchers = [launch, before].into_iter().flatten().map(|launch| launch.thread);
        let mut threads: Vec<i64> = Vec::with_capacity(3);
        for thread in launchers.chain(self.host.loop_thread) {
            if !threads.contains(&thread) {
                threads.push(thread);
            }
        }
        let late_until = launch.map_or(until, |launch| launch.end.min(until));
        let first = pieces.len();
        self.thread_side(&threads, gap.ts, late_until, pieces);
        self.waited(pieces, Cause::LaunchLatency, late_until, until);
        // Had the host not waited for the device, it would have been ahead: the rest of the gap is the wait's.
        let Some((wait, thread)) = self.wait_at(&threads, gap.ts) else { return };
        let place = Place::of(&wait, thread);
        for piece in &mut pieces[first..] {
            if !matches!(piece.cause, Cause::DataLoading | Cause::GraphReplay) {
                let known = piece.cause != Cause::NoHostEvents;
                piece.state = known.then_some(piece.cause);
                piece.cause = Cause::Synchronisation;
                piece.place = place;
            }
        }
    }

    /// What the first of `threads` is in; where it is in nothing, the next one.
    fn thread_side(&self, threads: &[i64], from: i64, to: i64, pieces: &mut Vec<Piece>) {
        let Some((&lane, others)) = threads.split_first() else {
            self.in_nothing(pieces, Place::NOWHERE, from, to);
            return;
        };
        let nothing = Thread::default();
        let thread = self.loaded.threads.get(&(self.device.rank, lane)).unwrap_or(&nothing);
        for (start, end, inside) in thread.between(from, to) {
            match inside.state {
                Some(Cause::Python) => {
                    self.in_nothing(pieces, Place::of(&inside, lane), start, end);
                }
                Some(state) => {
                    push(pieces, state, Some(state), Place::of(&inside, lane), start, end);
                }
                None if others.is_empty() => {
                    let place = Place { thread: Some(lane), ..Place::NOWHERE };
                    self.in_nothing(pieces, place, start, end);
                }
                None => self.thread_side(others, start, end, pieces),
            }
        }
    }

    /// No operator, no call: Python, if operators were recorded.
    fn in_nothing(&self, pieces: &mut Vec<Piece>, place: Place, from: i64, to: i64) {
        if self.host.has_ops {
            push(pieces, Cause::Python, Some(Cause::Python), place, from, to);
        } else {
            push(pieces, Cause::NoHostEvents, None, place, from, to);
        }
    }

    /// The wait for the device in which the first thread that does anything is at `now`.
    fn wait_at(&self, threads: &[i64], now: i64) -> Option<(Inside, i64)> {
        for &lane in threads {
            let Some(thread) = self.loaded.threads.get(&(self.device.rank, lane)) else { continue };
            if let Some(wait) = thread.wait_at(now) {
                return Some((wait, lane));
            }
            if thread.between(now, now + 1).any(|(_, _, inside)| inside.state.is_some()) {
                return None;
            }
        }
        None
    }
}

fn push(
    pieces: &mut Vec<Piece>,
    cause: Cause,
    state: Option<Cause>,
    place: Place,
    from: i64,
    to: i64,
) {
    if to > from {
        pieces.push(Piece { cause, state, place, ts: from, dur: to - from });
    }
}

fn whole(pieces: &mut Vec<Piece>, cause: Cause, from: i64, to: i64) {
    push(pieces, cause, None, Place::NOWHERE, from, to);
}
