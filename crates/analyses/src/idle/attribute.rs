//! Attributes every idle moment of a device to one cause, gap by gap, from the host activity during the gap.

use std::collections::HashMap;

use super::cause::IdleCause;
use super::load::{DeviceWork, HostInfo, IdleGap, IdleInputs, LaunchCall, RecordedOperators};
use super::thread::{NO_TEXT, OpenWait, ThreadState, ThreadTimeline};
use crate::interval_set::{Interval, union};

/// An activity that starts this soon after the previous one on its stream waited for that one, even if others ended
/// since.
const MAX_SWITCH_NS: i64 = 10_000;
/// Upper limit of the delay between the return of a launch, or the end of what it waited for, and the start. A longer
/// delay is a wait for work that is not recorded.
const MAX_LATENCY_NS: i64 = 1_000_000;
/// A thread that records nothing for this long and for a quarter of the window does something else than before and after,
/// unless it is in a step.
const MAX_SILENCE_NS: i64 = 1_000_000_000;
const MAX_SILENCE_PARTS: i64 = 4;
/// A replay recorded as running for less than this ratio of its extent has kernels that are not recorded.
const MIN_REPLAY_COVERAGE: f64 = 0.5;

/// The host event that a piece of a gap belongs to, with its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostLocation {
    pub(super) name: u32,
    pub(super) op: u32,
    pub(super) source: u32,
    pub(super) range: u32,
    pub(super) thread: Option<i64>,
}

impl HostLocation {
    fn of(inside: &ThreadState, thread: i64) -> Self {
        let ThreadState { name, op, source, range, .. } = *inside;
        Self { name, op, source, range, thread: Some(thread) }
    }

    const NOWHERE: Self =
        Self { name: NO_TEXT, op: NO_TEXT, source: NO_TEXT, range: NO_TEXT, thread: None };
}

/// The part of a gap that has one cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct GapPart {
    /// Indices of the device and its gap.
    pub(super) device: usize,
    pub(super) gap: usize,
    pub(super) cause: IdleCause,
    pub(super) state: Option<IdleCause>,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) place: HostLocation,
}

/// By how much the threads that launch for a device would be ahead without their waits so far.
#[derive(Debug, Default)]
struct Lead {
    /// The time that the threads waited, less the idle time since.
    ahead_ns: i64,
    /// The part of the waiting time that is counted, by thread.
    counted_ns: HashMap<i64, i64>,
}

impl Lead {
    /// Adds the time that a thread has waited, `total_ns` in all, and returns the lead.
    fn after_wait(&mut self, thread: i64, total_ns: i64) -> i64 {
        let counted_ns = self.counted_ns.entry(thread).or_default();
        self.ahead_ns += (total_ns - *counted_ns).max(0);
        *counted_ns = total_ns.max(*counted_ns);
        self.ahead_ns
    }

    /// The device is idle because the host is late.
    fn shrink(&mut self, idle_ns: i64) {
        self.ahead_ns = (self.ahead_ns - idle_ns).max(0);
    }
}

/// An interval of a gap, before intervals with the same cause are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct GapPiece {
    cause: IdleCause,
    state: Option<IdleCause>,
    place: HostLocation,
    ts_ns: i64,
    dur_ns: i64,
}

/// Attributes all gaps of a device; the parts are in chronological order.
pub(super) fn attribute_gaps(loaded: &IdleInputs, device: usize, parts: &mut Vec<GapPart>) {
    let of = &loaded.devices[device];
    let nothing = HostInfo::default();
    let host = loaded.hosts.get(&of.rank).unwrap_or(&nothing);
    let attribution = GapAttribution {
        loaded,
        device: of,
        host,
        is_alone: loaded.devices.iter().filter(|other| other.rank == of.rank).count() == 1,
        opaque_replays: opaque_replays(of),
    };
    let mut stream_ends: HashMap<i64, i64> = HashMap::new();
    let mut seen = 0;
    let mut pieces = Vec::new();
    let mut lead = Lead::default();
    for (at, gap) in of.gaps.iter().enumerate() {
        let until = gap.next.unwrap_or(of.work.len());
        for work in &of.work[seen..until] {
            let end_ns = stream_ends.entry(work.stream).or_insert(work.end_ns);
            *end_ns = work.end_ns.max(*end_ns);
        }
        seen = until;
        pieces.clear();
        attribution.attribute_gap(gap, &stream_ends, &mut lead, &mut pieces);
        merge_pieces(&mut pieces, |cause, state, ts_ns, dur_ns, place| {
            parts.push(GapPart { device, gap: at, cause, state, ts_ns, dur_ns, place });
        });
    }
}

/// Merges pieces with the same cause, in chronological order; the location is the one with the longest total.
fn merge_pieces(
    pieces: &mut [GapPiece],
    mut emit: impl FnMut(IdleCause, Option<IdleCause>, i64, i64, HostLocation),
) {
    pieces.sort_unstable();
    let mut joined: Vec<(i64, IdleCause, Option<IdleCause>, i64, HostLocation)> = Vec::new();
    for cause in pieces.chunk_by(|a, b| (a.cause, a.state) == (b.cause, b.state)) {
        let ts_ns = cause.iter().map(|p| p.ts_ns).min().unwrap_or_default();
        let dur_ns = cause.iter().map(|p| p.dur_ns).sum();
        let most = cause
            .chunk_by(|a, b| a.place == b.place)
            // Of equals, the first in time.
            .max_by_key(|same| (same.iter().map(|p| p.dur_ns).sum::<i64>(), -same[0].ts_ns));
        let place = most.map_or(HostLocation::NOWHERE, |same| same[0].place);
        joined.push((ts_ns, cause[0].cause, cause[0].state, dur_ns, place));
    }
    joined.sort_unstable();
    for (ts_ns, cause, state, dur_ns, place) in joined {
        emit(cause, state, ts_ns, dur_ns, place);
    }
}

/// Graph replays that are mostly unrecorded, and when they were launched.
fn opaque_replays(device: &DeviceWork) -> HashMap<i64, i64> {
    struct Replay {
        launch: LaunchCall,
        first: i64,
        busy_until: i64,
        busy: i64,
    }
    let mut replays: HashMap<i64, Replay> = HashMap::new();
    for work in &device.work {
        let Some(launch) = work.launch.filter(|launch| launch.is_graph) else { continue };
        let replay = replays.entry(launch.id).or_insert(Replay {
            launch,
            first: work.ts_ns,
            busy_until: work.ts_ns,
            busy: 0,
        });
        replay.busy += (work.end_ns - work.ts_ns.max(replay.busy_until)).max(0);
        replay.busy_until = replay.busy_until.max(work.end_ns);
    }
    let is_opaque =
        |r: &Replay| (r.busy as f64) < MIN_REPLAY_COVERAGE * (r.busy_until - r.first) as f64;
    replays.into_iter().filter(|(_, r)| is_opaque(r)).map(|(id, r)| (id, r.launch.ts_ns)).collect()
}

/// Attributes the gaps of one device.
struct GapAttribution<'l> {
    loaded: &'l IdleInputs,
    device: &'l DeviceWork,
    host: &'l HostInfo,
    /// The rank uses no other device, whose work this one could wait for.
    is_alone: bool,
    /// Launches of mostly unrecorded replays, and when they began.
    opaque_replays: HashMap<i64, i64>,
}

impl GapAttribution<'_> {
    fn has_operators(&self) -> bool {
        self.host.operators == RecordedOperators::All
    }

    fn attribute_gap(
        &self,
        gap: &IdleGap,
        stream_ends: &HashMap<i64, i64>,
        lead: &mut Lead,
        pieces: &mut Vec<GapPiece>,
    ) {
        if self.host.operators == RecordedOperators::Sample {
            push_without_host(pieces, IdleCause::NoHostEvents, gap.ts_ns, gap.end_ns);
            return;
        }
        if self.is_between_traced_nodes(gap) {
            push_without_host(pieces, IdleCause::Profiler, gap.ts_ns, gap.end_ns);
            return;
        }
        let next = gap.next.map(|at| &self.device.work[at]);
        let mut until = gap.end_ns;
        // After launches without or with too few recorded activities, the state of the device is unknown.
        if let Some((from, cause)) = self.hidden_work(gap) {
            push_without_host(pieces, cause, from.max(gap.ts_ns), gap.end_ns);
            until = from.max(gap.ts_ns);
        }
        if until == gap.ts_ns {
            return;
        }
        match next {
            Some(next) => match next.launch {
                Some(launch) if launch.end_ns <= gap.ts_ns => {
                    let cause = self.device_cause(gap, next.stream, stream_ends);
                    self.push_device_wait(pieces, cause, gap.ts_ns, until);
                }
                Some(launch) => {
                    self.attribute_to_host(gap, Some(launch), until, lead, pieces);
                }
                None if self.host.has_calls => {
                    push_without_host(pieces, IdleCause::Unlinked, gap.ts_ns, until);
                }
                None => push_without_host(pieces, IdleCause::NoHostEvents, gap.ts_ns, until),
            },
            None if self.host.has_calls => {
                self.attribute_to_host(gap, None, until, lead, pieces);
            }
            None => push_without_host(pieces, IdleCause::NoHostEvents, gap.ts_ns, until),
        }
    }

    /// Returns whether the gap is between two nodes of a replay in which the profiler adds gaps.
    fn is_between_traced_nodes(&self, gap: &IdleGap) -> bool {
        let launch = |at: Option<usize>| Some(self.device.work[at?].launch?.id);
        let next = launch(gap.next);
        next.is_some_and(|id| self.device.traced_replays.contains(&id))
            && next == launch(gap.previous)
    }

    /// Returns the time from which unrecorded work may have run in the gap, and its cause: graph nodes without recorded activities,
    /// or kernels that the profiler lost.
    fn hidden_work(&self, gap: &IdleGap) -> Option<(i64, IdleCause)> {
        let launch = gap.next.and_then(|at| self.device.work[at].launch);
        let opaque = launch.and_then(|launch| self.opaque_replays.get(&launch.id)).copied();
        let silent = self.silent_launch(&self.host.silent_replays, gap);
        // If no activity follows the gap, the device may be idle because the recording ends. If the launch of the next activity is
        // unknown, the lost launch may be its launch. Work launched after the next activity's launch does not run before it.
        let lost = launch.and_then(|next| {
            let lost = &self.host.lost_launches;
            let earlier = lost.partition_point(|&ts_ns| ts_ns < next.ts_ns);
            self.silent_launch(&lost[..earlier], gap)
        });
        let replays = [opaque, silent].into_iter().flatten().map(|ts| (ts, IdleCause::GraphReplay));
        replays
            .chain(lost.map(|ts_ns| (ts_ns, IdleCause::UnrecordedWork)))
            .filter(|&(ts_ns, _)| ts_ns < gap.end_ns)
            .min()
    }

    /// Returns the start of the first launch without recorded work whose work may run in the gap. `silent` is sorted.
    fn silent_launch(&self, silent: &[i64], gap: &IdleGap) -> Option<i64> {
        let first = silent.partition_point(|&ts_ns| ts_ns < gap.ts_ns);
        // The work of a launch before the gap may still run, unless recorded work was launched later and has run.
        let before = first.checked_sub(1).map(|at| silent[at]).filter(|&ts_ns| {
            let previous = gap.previous.and_then(|at| self.device.work[at].launch);
            previous.is_none_or(|launch| launch.ts_ns < ts_ns)
        });
        before.or_else(|| silent.get(first).copied())
    }

    /// The cause of waiting on the device, for an activity launched before the gap.
    fn device_cause(
        &self,
        gap: &IdleGap,
        stream: i64,
        stream_ends: &HashMap<i64, i64>,
    ) -> IdleCause {
        let Some(previous) = gap.previous.map(|at| &self.device.work[at]) else {
            return IdleCause::Dependency;
        };
        let own = stream_ends.get(&stream);
        if previous.stream == stream
            || own.is_some_and(|&end_ns| gap.ts_ns - end_ns < MAX_SWITCH_NS)
        {
            IdleCause::Dependency
        } else if previous.is_collective {
            IdleCause::Collective
        } else {
            IdleCause::OtherStream
        }
    }

    /// Adds an interval in which the activity was launched and the host does not delay it.
    fn push_device_wait(&self, pieces: &mut Vec<GapPiece>, cause: IdleCause, from: i64, to: i64) {
        let is_elsewhere = !self.is_alone && cause != IdleCause::LaunchLatency;
        let cause = if to - from <= MAX_LATENCY_NS {
            cause
        } else if self.host.has_graphs {
            IdleCause::GraphReplay
        } else if is_elsewhere {
            cause
        } else {
            IdleCause::UnrecordedWork
        };
        push_without_host(pieces, cause, from, to);
    }

    /// Attributes the time until `launch` returned to the host; without one, nothing follows on the device.
    fn attribute_to_host(
        &self,
        gap: &IdleGap,
        launch: Option<LaunchCall>,
        until: i64,
        lead: &mut Lead,
        pieces: &mut Vec<GapPiece>,
    ) {
        let before = gap.previous.and_then(|at| self.device.work[at].launch);
        let launchers = [launch, before].into_iter().flatten().map(|launch| launch.thread);
        let mut threads: Vec<i64> = Vec::with_capacity(3);
        for thread in launchers.chain(self.host.loop_thread) {
            if !threads.contains(&thread) {
                threads.push(thread);
            }
        }
        let late_until = launch.map_or(until, |launch| launch.end_ns.min(until));
        let first = pieces.len();
        self.attribute_to_threads(&threads, 0, gap.ts_ns, late_until, pieces);
        if launch.is_none() {
            // Whether the device would have been idle cannot be told: the recording ends before its next work.
            for piece in &mut pieces[first..] {
                if !piece.cause.needs_no_successor() {
                    piece.cause = IdleCause::RecordingEnd;
                }
            }
            return;
        }
        self.push_device_wait(pieces, IdleCause::LaunchLatency, late_until, until);
        // Without its waits for the device, the host would have been ahead by their length, less the idle time since: that
        // much of what it does next belongs to the wait.
        let wait = self.wait_at(&threads, gap.ts_ns);
        let mut left_ns = wait.map_or(0, |(wait, thread)| lead.after_wait(thread, wait.total_ns));
        lead.shrink(until - gap.ts_ns);
        let Some((wait, thread)) = wait else { return };
        let place = HostLocation::of(&wait.state, thread);
        for at in first..pieces.len() {
            let piece = &mut pieces[at];
            let is_unknown = piece.cause == IdleCause::NoHostEvents;
            if left_ns == 0
                || !(piece.cause.yields_to_wait() || (is_unknown && !self.has_operators()))
            {
                continue;
            }
            let mut rest = *piece;
            piece.state = (!is_unknown).then_some(piece.cause);
            piece.cause = IdleCause::Synchronization;
            piece.place = place;
            piece.dur_ns = piece.dur_ns.min(left_ns);
            left_ns -= piece.dur_ns;
            rest.ts_ns += piece.dur_ns;
            rest.dur_ns -= piece.dur_ns;
            if rest.dur_ns > 0 {
                pieces.push(rest);
            }
        }
    }

    /// Adds the states of the thread at `turn` of `threads`; while it is idle, those of the next one.
    fn attribute_to_threads(
        &self,
        threads: &[i64],
        turn: usize,
        from: i64,
        to: i64,
        pieces: &mut Vec<GapPiece>,
    ) {
        let Some(&lane) = threads.get(turn) else {
            self.push_silence(threads, from, to, pieces);
            return;
        };
        let nothing = ThreadTimeline::default();
        let thread = self.loaded.threads.get(&(self.device.rank, lane)).unwrap_or(&nothing);
        for (start, end_ns, inside) in thread.between(from, to) {
            let place = HostLocation::of(&inside, lane);
            match inside.state {
                // Without operators, what is in no call may have been in one.
                Some(IdleCause::Python) if !self.has_operators() => {
                    push_piece(pieces, IdleCause::NoHostEvents, None, place, start, end_ns);
                }
                Some(cause) => {
                    let state = (cause.side() != "unknown").then_some(cause);
                    push_piece(pieces, cause, state, place, start, end_ns);
                }
                None => self.attribute_to_threads(threads, turn + 1, start, end_ns, pieces),
            }
        }
    }

    /// Adds an interval in which nothing is open on any of `threads`: Python, if one of them takes part in the recording
    /// then and operators are recorded.
    fn push_silence(&self, threads: &[i64], from: i64, to: i64, pieces: &mut Vec<GapPiece>) {
        let lane = threads.last().copied();
        let place = HostLocation { thread: lane, ..HostLocation::NOWHERE };
        let activity = || {
            let rank = self.device.rank;
            threads.iter().filter_map(move |&lane| self.loaded.activity.get(&(rank, lane)))
        };
        let is_long = to - from > MAX_SILENCE_NS
            && (to - from).saturating_mul(MAX_SILENCE_PARTS) > self.device.window_ns;
        let is_known = self.has_operators()
            && (!is_long || activity().any(|thread| thread.is_in_step(from, to)));
        let known: Vec<Interval> = if is_known {
            let clip = |(first, last): Interval| (first.max(from), last.min(to));
            let spans = activity().map(|thread| clip(thread.extent));
            union(spans.filter(|(first, last)| first < last).collect())
        } else {
            Vec::new()
        };
        let mut at = from;
        for (start, end_ns) in known {
            push_piece(pieces, IdleCause::NoHostEvents, None, place, at, start);
            push_piece(pieces, IdleCause::Python, Some(IdleCause::Python), place, start, end_ns);
            at = end_ns;
        }
        push_piece(pieces, IdleCause::NoHostEvents, None, place, at, to);
    }

    /// The wait for the device at `now`, on the first thread that is not idle then.
    fn wait_at(&self, threads: &[i64], now: i64) -> Option<(OpenWait, i64)> {
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

fn push_piece(
    pieces: &mut Vec<GapPiece>,
    cause: IdleCause,
    state: Option<IdleCause>,
    place: HostLocation,
    from: i64,
    to: i64,
) {
    if to > from {
        pieces.push(GapPiece { cause, state, place, ts_ns: from, dur_ns: to - from });
    }
}

fn push_without_host(pieces: &mut Vec<GapPiece>, cause: IdleCause, from: i64, to: i64) {
    push_piece(pieces, cause, None, HostLocation::NOWHERE, from, to);
}
